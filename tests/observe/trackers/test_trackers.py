"""What trackers write is what their own readers find, also after a training has gone on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.cli.app import app
from phalanx.comm.base import Communicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.observe.trackers import MLflow, TensorBoard
from phalanx.observe.trackers.tracker import Tracker
from phalanx.settings import trackers as settings
from phalanx.train.trainer import Trainer
from tests.observe.trackers import readers

POINTS = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
SAMPLES = Split(POINTS, (POINTS[:, 0] > 0).long())
PARAMS = {"width": 4, "words": ("a", "b"), "nothing": None}


def make_trainer(comm: Communicator) -> Trainer:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    return Trainer(model, torch.optim.SGD(model.parameters(), lr=0.5), comm=comm, shards=2)


@pytest.mark.ranks(2)
def test_a_training_that_goes_on_has_every_epoch_once(
    comm: Communicator, shared_path: Path
) -> None:
    folder, uri = shared_path / "events", f"sqlite:///{shared_path}/mlflow.db"

    def trackers() -> tuple[TensorBoard, MLflow]:
        return TensorBoard(folder, params=PARAMS), MLflow(tracking_uri=uri, params=PARAMS)

    def fit(trainer: Trainer, epochs: int, callbacks: tuple[Tracker, ...]) -> list[float]:
        done = trainer.fit(
            SAMPLES, epochs=epochs, batch_size=20, validation=SAMPLES, callbacks=callbacks
        )
        return [one.train.loss for one in done]

    first = make_trainer(comm)
    losses = fit(first, 2, first_trackers := trackers())
    state = first.state()
    fit(first, 1, first_trackers)  # and is then lost
    second = make_trainer(comm)
    second.load(state)
    losses += fit(second, 2, last := trackers())
    test = second.evaluate(SAMPLES)
    if comm.rank == 0:
        for one in last:
            one.conclude(test, epoch=4, colour="blue")
        found, hparams = readers.tensorboard(folder)
        check(found, losses, test.loss)
        assert len(hparams) == 3
        found, run = readers.mlflow(uri)
        check(found, losses, test.loss)
        assert run.data.params == {"width": "4", "words": "('a', 'b')"}
        assert run.data.tags["colour"] == "blue"
        assert run.data.tags["phalanx.ranks"] == "2"
        assert run.info.status == "FINISHED"
    first.close()
    second.close()


def check(found: readers.Scalars, losses: list[float], test: float) -> None:
    assert [step for step, _ in found["loss/train"]] == [1, 2, 3, 4]
    assert [value for _, value in found["loss/train"]] == pytest.approx(losses)
    ((step, value),) = found["loss/test"]
    assert step == 4
    assert value == pytest.approx(test)
    for name in ("accuracy/train", "loss/validation", "learning_rate", "samples_per_second"):
        assert [step for step, _ in found[name]] == [1, 2, 3, 4]
    assert found["learning_rate"][0][1] == 0.5


class Failing(Tracker):
    """Cannot write; counts how often it was tried."""

    tried = 0

    def open(self, trainer: Trainer) -> None: ...

    def close(self, *, stopped: bool) -> None: ...

    def write(self, epoch: int, scalars: Mapping[str, float]) -> None:
        self.tried += 1
        raise OSError("no route to host")

    def write_result(self, epoch: int, scalars: Mapping[str, float], tags: Any) -> None: ...


def test_one_that_fails_on_the_way_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    from phalanx.comm.single import SingleCommunicator

    tracker = Failing()
    with (
        caplog.at_level(logging.WARNING, logger="phalanx"),
        make_trainer(SingleCommunicator()) as trainer,
    ):
        assert len(trainer.fit(SAMPLES, epochs=3, batch_size=20, callbacks=[tracker])) == 3
    assert tracker.tried == 1
    assert "Failing: no route to host; the training goes on without it" in caplog.text


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_named_before_ranks_start(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "find_spec", lambda _package: None)
    with pytest.raises(UsageError, match=rf"--{name} needs .*pip install 'phalanx\[{name}\]'"):
        app(["train", "--ranks", "2", f"--{name}"], standalone_mode=False)
    with pytest.raises(UsageError, match=rf"phalanx\[{name}\]"):
        _ = TensorBoard("x") if name == "tensorboard" else MLflow()


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    from phalanx.comm.single import SingleCommunicator

    tracker = MLflow(tracking_uri="nothing://there")
    with make_trainer(SingleCommunicator()) as trainer, pytest.raises(UsageError, match="MLflow: "):
        trainer.fit(SAMPLES, epochs=1, batch_size=20, callbacks=[tracker])
