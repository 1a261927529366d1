"""A training that is asked to stop: after the same step on all ranks, with a checkpoint of it."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from phalanx import Checkpoints, Trainer
from phalanx.checkpoints.folders import written
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.train.interruption.looks import Looks
from tests.train.test_checkpointing import FIT, SPLIT, assert_same, make_trainer

EPOCHS = 200


def asked_after(comm: Communicator, trainer: Trainer, step: int) -> Callable[[], int]:
    """Asks the last rank to stop, from a step on."""
    return lambda: 15 if comm.rank == comm.size - 1 and trainer.position.step >= step else 0


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("strategy", ["allreduce", "central", "async"])
def test_what_one_rank_is_asked_stops_all_after_the_same_step(
    comm: Communicator, shared_path: Path, strategy: str
) -> None:
    if comm.size == 1 and strategy == "async":
        return
    shards = None if strategy == "async" else 3
    trainer = make_trainer(comm, strategy, shards=shards)
    trainer.fit(
        SPLIT,
        epochs=10**6,
        checkpoint=shared_path / strategy,
        stop=asked_after(comm, trainer, 5),
        **FIT,
    )
    step = trainer.position.step
    assert trainer.stopped == 15
    assert set(comm.allgather_objects(step)) == {step}
    assert step == 5 if comm.size == 1 else step >= 5
    comm.barrier()
    assert written(shared_path / strategy)[0].name == f"step-{step:09}"
    trainer.close()


@pytest.mark.ranks(1, 2)
def test_it_goes_on_with_the_same_bits(comm: Communicator, shared_path: Path) -> None:
    first = make_trainer(comm, "central")
    stop = asked_after(comm, first, 4)
    first.fit(SPLIT, epochs=EPOCHS, checkpoint=shared_path / "kept", stop=stop, **FIT)
    comm.barrier()
    done = first.position.epoch
    second = make_trainer(comm, "allreduce")
    second.load(shared_path / "kept")
    second.fit(SPLIT, epochs=2, **FIT)
    assert second.stopped == 0
    undisturbed = make_trainer(SingleCommunicator(), "single")
    undisturbed.fit(SPLIT, epochs=done + 2, **FIT)
    assert_same(second, undisturbed)
    first.close()
    second.close()


def test_a_request_in_the_last_steps_counts(tmp_path: Path) -> None:
    """Nobody looks any more, but for once at the end; the best weights wait for the next turn."""
    trainer = make_trainer(SingleCommunicator())
    asked = iter([0] * 6 + [10])
    done = trainer.fit(
        SPLIT,
        epochs=2,
        keep_best=True,
        checkpoint=Checkpoints(tmp_path),
        stop=lambda: next(asked),
        **FIT,
    )
    assert (len(done), trainer.stopped, trainer.restored) == (2, 10, False)
    assert trainer.position.step == 6


@pytest.mark.ranks(2)
def test_ranks_must_agree_on_whether_they_can_be_asked(comm: Communicator) -> None:
    trainer = make_trainer(comm, "allreduce")
    stop = (lambda: 0) if comm.rank == 0 else None
    with pytest.raises(UsageError, match="stop"):
        trainer.fit(SPLIT, epochs=1, stop=stop, **FIT)
    trainer.close()


def test_looks_are_about_as_far_apart_as_they_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("phalanx.train.interruption.looks.time.monotonic", lambda: now)
    looks, looked = Looks(1.0), []
    for step in range(1, 2001):
        now += 0.01
        if looks.is_due(step):
            looked.append(step)
            looks.agreed(step, looks.until_next(step))
    gaps = [later - one for one, later in pairwise(looked)]
    assert gaps[:3] == [1, 10, 100]
    assert set(gaps[3:]) <= {99, 100, 101}


def test_steps_that_take_long_are_looked_at_each(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("phalanx.train.interruption.looks.time.monotonic", lambda: now)
    looks = Looks(0.2)
    for step in range(1, 20):
        now += 5.0
        assert looks.is_due(step)
        looks.agreed(step, looks.until_next(step))
