"""A training in a run folder that fails, and goes on in the same processes."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch
from phalanx.runs.folder import RunFolder
from phalanx.runs.written import WrittenRun
from phalanx.settings.table import Settings
from phalanx.state import State
from phalanx.strategies.base import Outcome
from phalanx.train.session import Session, open_session
from phalanx.train.speaker import Mute, Speaker, Voice
from phalanx.train.trainer import Trainer
from phalanx.train.training import train

#: Four epochs of six steps.
SETTINGS = Settings(
    dataset="iris",
    hidden=(8,),
    epochs=4,
    batch_size=16,
    shards=3,
    optimizer="adam",
    validation_split=0.2,
    strategy="allreduce",
    checkpoint_every=4,
)
#: Inside the second epoch, when the weights are gone back by a few steps.
COPIED, FAILS = 8, 11


class Writing(Speaker):
    """Writes into a folder, and says nothing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._voice: Voice | None = None

    def speak(self, session: Session) -> Voice:
        if self._voice is None:
            known = self._path if self.folder is None else self.folder
            self._voice = Voice(WrittenRun(RunFolder.reopen(known)))
        return self._voice

    def close(self) -> None:
        if self._voice is not None and self._voice.run is not None:
            self._voice.run.close()


class LostError(Exception):
    """Stands for a rank that is no more."""


def fail_on_the_way(monkeypatch: pytest.MonkeyPatch) -> list[State]:
    """Have every rank's training fail at a step, a few after a copy of its state was taken."""
    copies: list[State] = []
    step = Trainer.step

    def counted(trainer: Trainer, batch: Batch) -> Outcome:
        if batch.step == COPIED and not copies:
            copies.append(trainer.state())
        if batch.step == FAILS:
            raise LostError
        return step(trainer, batch)

    monkeypatch.setattr(Trainer, "step", counted)
    return copies


def session_on(comm: Communicator) -> Session:
    return replace(open_session(SETTINGS, threads=1), comm=comm)


def undisturbed() -> dict[str, Any]:
    session = replace(session_on(SingleCommunicator()), strategy="single")
    return train(session, Mute())


def epochs_in(path: Path) -> list[str]:
    with path.open(newline="") as file:
        return [row["epoch"] for row in csv.DictReader(file)]


@pytest.mark.ranks(3)
@pytest.mark.parametrize(
    ("survivors", "from_disk"), [((0, 1), False), ((1, 2), False), ((2,), True)], ids=str
)
def test_those_who_are_left_go_on(
    comm: Communicator, shared_path: Path, survivors: tuple[int, ...], from_disk: bool
) -> None:
    """From a copy in memory or from the last checkpoint, also if another rank is first now."""
    whole = undisturbed()  # on all ranks, since getting ready for it is collective
    speaker, session = Writing(shared_path / "run"), session_on(comm)
    with pytest.MonkeyPatch.context() as patch:
        copies = fail_on_the_way(patch)
        with pytest.raises(LostError):
            train(session, speaker)
    assert speaker.folder == shared_path / "run"
    survives = comm.rank in survivors
    if not survives:
        speaker.close()
    comm.barrier()
    left = comm.split(int(survives), comm.rank)
    result = None
    if survives:
        start = shared_path / "run" / "checkpoints" if from_disk else copies[0]
        result = train(replace(session, comm=left), speaker, start=start)
        speaker.close()
    left.free()
    comm.barrier()
    assert epochs_in(shared_path / "run" / "history.csv") == ["1", "2", "3", "4"]
    written = json.loads((shared_path / "run" / "result.json").read_text())
    assert (written["epochs"], written["turns"], written["ranks"]) == (4, 2, len(survivors))
    for one in (written, result or written):
        assert one["weights_sha256"] == whole["weights_sha256"]
        assert one["test"]["loss"] == pytest.approx(whole["test"]["loss"])
