"""`phalanx doctor --devices`: its trials over gloo and in CPU memory, and what it says of them."""

import json
from typing import Any

import pytest
import torch

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.observe.doctor import devices, scope
from phalanx.observe.doctor.asking import Answer
from phalanx.observe.doctor.device_trials import NotTried, Ranks, trials, try_out
from phalanx.observe.doctor.scope import Scope

CPU = torch.device("cpu")
#: What takes a GPU.
OF_GPUS = {"pinning", "memory"}


@pytest.mark.ranks(2)
def test_all_trials_are_fine_or_say_why_not(over_gloo: Communicator) -> None:
    ranks = Ranks(over_gloo, over_gloo, CPU)
    found = {name: try_out(ranks, trial) for name, trial in trials()}
    assert {name for name, one in found.items() if one["verdict"] == "broken"} == set(), found
    left_out = {name for name, one in found.items() if one["verdict"] == "not tried"}
    assert left_out == OF_GPUS | {"strategy single"}
    assert "torch does not see a GPU" in found["pinning"]["said"]


def test_one_rank() -> None:
    ranks = Ranks(SingleCommunicator(), SingleCommunicator(), CPU)
    alone = {"strategy single", "strategy central", "checkpoint and resume", "overlap"}
    found = {name: try_out(ranks, trial) for name, trial in trials() if name in alone}
    assert found.pop("overlap")["verdict"] == "not tried"
    assert {one["verdict"] for one in found.values()} == {"fine"}, found


@pytest.mark.ranks(2)
def test_what_goes_wrong_on_one_rank_is_told_by_all(over_gloo: Communicator) -> None:
    ranks = Ranks(over_gloo, over_gloo, CPU)

    def wrong(_ranks: Ranks) -> str:
        if over_gloo.rank == 1:
            raise RuntimeError("NCCL error")
        return "right"

    said = {"verdict": "broken", "said": "rank 1: RuntimeError: NCCL error"}
    assert try_out(ranks, wrong) == said


def test_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = [
        {"size": 2, "device": "A100", "way": "by NCCL"},
        {"trying": "allreduce"},
        {
            "trials": {
                "allreduce": {"verdict": "fine", "said": "right"},
                "overlap": {"verdict": "broken", "said": "rank 1: wrong"},
                "pinning": {"verdict": "not tried", "said": "no GPU"},
            }
        },
    ]
    asked: list[list[str]] = []

    def ask(argv: list[str], *, seconds: float) -> Answer:
        asked.append(argv)
        return Answer(0, "\n".join(map(json.dumps, told)), "")

    monkeypatch.setattr(scope, "ask", ask)
    monkeypatch.setattr(scope, "torch_facts", lambda _seconds: {"gpus": ["A100"] * 4})
    found = list(devices.devices(Scope()))
    assert asked[0][asked[0].index("-n") + 1] == "4"  # one a GPU
    assert [one.verdict for one in found] == ["fine", "fine", "broken", "odd", "broken"]
    assert found[3].said == "not tried: no GPU"
    assert "ranks did not come through `allreduce`" in found[-1].said
    told.append({"done": True})
    assert len(list(devices.devices(Scope()))) == 4
    told.clear()
    (only,) = devices.devices(Scope(ranks=3))
    assert "3 ranks did not start" in only.said


def test_why_something_is_not_tried() -> None:
    def later(_ranks: Ranks) -> str:
        raise NotTried("not here")

    ranks = Ranks(SingleCommunicator(), SingleCommunicator(), CPU)
    assert try_out(ranks, later) == {"verdict": "not tried", "said": "not here"}
