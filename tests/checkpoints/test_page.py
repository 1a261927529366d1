"""What docs/checkpoints.md shows is what there is."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from phalanx.checkpoints import CheckpointWriter
from phalanx.comm.single import SingleCommunicator
from phalanx.state.model import parameter_names, read_buffers, read_parameters
from tests.checkpoints.examples import TENSORS, write_parts
from tests.docs.pages import python_of

#: Those of docs/checkpoints.md.
FINDING, _, READING = python_of("checkpoints.md").partition("import json\n")
SHOWN = "runs/mine/checkpoints"


def run(folder: Path) -> dict[str, Any]:
    assert f"{SHOWN}/step-000000500" in READING
    names: dict[str, Any] = {}
    exec("import json\n" + READING.replace(f"{SHOWN}/step-000000500", str(folder)), names)
    return names


def test_plain_torch_reads_a_checkpoint(tmp_path: Path) -> None:
    state = run(write_parts(tmp_path / "checkpoint"))["state"]
    assert set(state) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.equal(state[name], tensor), name
        assert state[name].dtype == tensor.dtype


def test_plain_torch_has_the_weights(tmp_path: Path) -> None:
    model, other = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    optimizer = torch.optim.SGD(model.parameters())
    state = read_parameters(parameter_names(model, optimizer)).add(read_buffers(model))
    with CheckpointWriter(tmp_path, SingleCommunicator(), keep=1) as writer:
        writer.write(state, 1)
        assert writer.finish() is None
    names: dict[str, Any] = {}
    exec(FINDING.replace(SHOWN, str(tmp_path)), names)
    assert names["path"] == tmp_path / "step-000000001"
    assert set(state.tensors) <= set(names["read"].tensors)
    other.load_state_dict(run(tmp_path / "step-000000001")["weights"])
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
