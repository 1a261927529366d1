"""What is compared: the same for the same training, and another as soon as anything is left out."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from phalanx.checkpoints import read_checkpoint
from phalanx.checkpoints.folders import written
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.observe.verify.compared import Difference, differences, root
from phalanx.observe.verify.traces import Trace, trace_session
from phalanx.settings.table import Settings
from phalanx.state import State
from phalanx.train.session import Session, open_session

STEPS = 6
SETTINGS = Settings(dataset="digits", model="mlp", shards=4, batch_size=40, optimizer="adam")


class Layer(nn.Module):
    """Dropout, running statistics, and whatever else a test has it do."""

    def __init__(self, also: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__()
        self.also = also
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(), nn.Linear(16, 10)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.layers(inputs) + self.also()
        return outputs * (1 + self.also())


def session_on(comm: Communicator, also: Callable[[], float] = lambda: 0.0, **how: Any) -> Session:
    settings = SETTINGS.changed(**how)
    session = open_session(settings, threads=1)
    torch.manual_seed(3)
    strategy = "single" if comm.size == 1 else "central"
    return replace(session, comm=comm, strategy=strategy, model=Layer(also))


def alone(folder: Path, also: Callable[[], float] = lambda: 0.0, **how: Any) -> dict[int, Trace]:
    session = session_on(SingleCommunicator(), also, **how)
    return trace_session(session, steps=STEPS, folder=folder)


@pytest.mark.ranks(3)
def test_ranks_and_interruptions_make_no_difference(
    comm: Communicator, shared_path: Path, tmp_path: Path
) -> None:
    wanted = alone(tmp_path)
    assert sorted(wanted) == [1, 2, 3, 4, 5, 6]
    whole = trace_session(session_on(comm), steps=STEPS, folder=shared_path)
    assert differences(wanted, whole) == {}
    start = written(shared_path)[-1]
    again = trace_session(
        session_on(SingleCommunicator()), steps=STEPS, folder=tmp_path, start=start
    )
    assert sorted(again) == [4, 5, 6]
    assert differences(wanted, again) == {}


def left_out(state: State, what: str) -> State:
    """A state that lacks what a training goes on from."""
    position = state.values["position"]
    match what:
        case "optimizer":
            for name in state.tensors:
                if name.startswith("optimizer/") and name.endswith("exp_avg"):
                    state.tensors[name] = torch.zeros_like(state.tensor(name))
        case "random numbers":
            state.tensors["strategy/random"] = torch.get_rng_state()
        case "position":
            state.values["position"] = position | {"samples": 0, "step_in_epoch": 0}
        case "buffers":
            for name in state.tensors:
                if name.startswith("buffers/"):
                    state.tensors[name] = torch.zeros_like(state.tensor(name))
    return state


@pytest.mark.parametrize(
    ("what", "seen_in"),
    [
        ("nothing", None),
        ("optimizer", "weights"),
        ("random numbers", "random numbers"),
        ("position", "samples"),
        ("buffers", "weights"),
    ],
)
def test_what_a_checkpoint_leaves_out_is_noticed(
    tmp_path: Path, what: str, seen_in: str | None
) -> None:
    # Without shards random numbers go on from where they are.
    shards = None if what == "random numbers" else 4
    wanted = alone(tmp_path, shards=shards)
    state = left_out(read_checkpoint(written(tmp_path)[-1]), what)
    session = session_on(SingleCommunicator(), shards=shards)
    again = trace_session(session, steps=STEPS, folder=tmp_path / "again", start=state)
    first = root(differences(wanted, again))
    assert (first and (first.about, first.step)) == (seen_in and (seen_in, 4))


def test_a_checkpoint_of_another_seed_is_refused(tmp_path: Path) -> None:
    alone(tmp_path)
    state = read_checkpoint(written(tmp_path)[-1])
    state.values["seed"] += 1
    with pytest.raises(UsageError, match="seed"):
        trace_session(
            session_on(SingleCommunicator()), steps=STEPS, folder=tmp_path / "again", start=state
        )


def counter() -> Callable[[], float]:
    """What a layer keeps that is in no state_dict()."""
    calls: list[int] = []

    def count() -> float:
        calls.append(1)
        return len(calls) / 100

    return count


@pytest.mark.parametrize(
    ("also", "about", "cause"),
    [
        (lambda: random.random, "random numbers", "Python's or NumPy's"),
        (lambda: np.random.rand, "random numbers", "Python's or NumPy's"),
        (counter, "weights", "state_dict"),
    ],
)
def test_layers_that_break_the_promise_are_told(
    tmp_path: Path, also: Callable[[], Callable[[], float]], about: str, cause: str
) -> None:
    wanted = alone(tmp_path, also())
    session = session_on(SingleCommunicator(), also())
    again = trace_session(
        session, steps=STEPS, folder=tmp_path / "again", start=written(tmp_path)[-1]
    )
    first = root(differences(wanted, again))
    assert first is not None
    assert (first.about, first.step) == (about, 4)
    assert cause in first.cause


def test_samples_that_are_drawn_by_chance_are_told(tmp_path: Path) -> None:
    wanted = alone(tmp_path)
    session = session_on(SingleCommunicator())
    session.dataset.train.inputs[:] += 1
    again = trace_session(session, steps=STEPS, folder=tmp_path / "again")
    first = root(differences(wanted, again))
    assert first is not None
    assert first.about == "samples"
    assert "data set" in first.cause


def test_the_earliest_difference_is_the_root() -> None:
    one = {1: {"samples": "a", "weights/w": "b", "optimizer/w": "c"}, 2: {"samples": "d"}}
    assert differences(one, {1: dict(one[1])}) == {}
    found = differences(
        one, {1: one[1] | {"optimizer/w": "x", "weights/w": "y"}, 2: {"samples": "z"}}
    )
    assert {about: str(it) for about, it in found.items()} == {
        "optimizer": "step 1: w",
        "weights": "step 1: w",
        "samples": "step 2: samples",
    }
    assert root(found) == Difference("weights", 1, "w")
    assert root({}) is None
    with pytest.raises(ValueError, match="proves nothing"):
        differences(one, {})
