"""Small checkpoints for tests, with parts of every kind, and no ranks to write them."""

from pathlib import Path

import torch

from phalanx import Share, Slice, State
from phalanx.checkpoints import CheckpointWriter
from phalanx.checkpoints.document import Document, file_name, parts_to_store, to_text
from phalanx.checkpoints.tensor_files import write_tensors
from phalanx.comm.single import SingleCommunicator
from phalanx.state.gathering import merged, outline

WHOLE = torch.arange(12.0).reshape(3, 4)


def parts() -> list[State]:
    """What two ranks have of a state."""
    row = WHOLE.T.reshape(-1)
    both = {"parameters/weight": WHOLE.clone(), "buffers/seen": torch.tensor(7)}
    return [
        State(
            {
                **both,
                "optimizer/weight/exp_avg": Slice(row[:5].clone(), (3, 4), (1, 0), 0),
                "metrics/sums": Share(torch.tensor([1.0, 2.0], dtype=torch.float64), "sum"),
                "strategy/own": Share(torch.tensor([1.0, 2.0]), "mean"),
            },
            {"position": {"step": 5}, "schedule": {"best": float("inf")}},
        ),
        State(
            {
                **both,
                "optimizer/weight/exp_avg": Slice(row[5:].clone(), (3, 4), (1, 0), 5),
                "metrics/sums": Share(torch.tensor([0.5, 0.5], dtype=torch.float64), "sum"),
                "strategy/own": Share(torch.tensor([3.0, 6.0]), "mean"),
                "parameters/last": torch.ones(2, dtype=torch.bfloat16),
            },
            {"position": {"step": 5}, "entries": {"last": (0.9, 0.99)}},
        ),
    ]


#: What the parts are together.
TENSORS = {
    "parameters/weight": WHOLE,
    "buffers/seen": torch.tensor(7),
    "optimizer/weight/exp_avg": WHOLE,
    "metrics/sums": torch.tensor([1.5, 2.5], dtype=torch.float64),
    "strategy/own": torch.tensor([2.0, 4.0]),
    "parameters/last": torch.ones(2, dtype=torch.bfloat16),
}
VALUES = {
    "position": {"step": 5},
    "schedule": {"best": float("inf")},
    "entries": {"last": (0.9, 0.99)},
}


def write_parts(folder: Path) -> Path:
    """A checkpoint of two ranks, as they write it."""
    folder.mkdir(parents=True)
    states = parts()
    stored = parts_to_store(
        [{name: outline(one) for name, one in state.tensors.items()} for state in states]
    )
    files = {}
    for rank, state in enumerate(states):
        tensors = {
            name: one if isinstance(one, torch.Tensor) else one.values
            for name, one in state.tensors.items()
            if any(there.rank == rank for there in stored[name])
        }
        files[file_name(rank)] = write_tensors(folder / file_name(rank), tensors)
    values = merged([state.values for state in states])
    (folder / "checkpoint.json").write_text(to_text(Document(5, 2, values, stored, files)))
    return folder


def write_steps(folder: Path, *steps: int, keep: int = 9) -> None:
    """Small checkpoints, one after the other, by one rank."""
    with CheckpointWriter(folder, SingleCommunicator(), keep=keep) as writer:
        for step in steps:
            writer.write(State({"parameters/weight": torch.tensor(float(step))}), step)
            assert writer.finish() is None
