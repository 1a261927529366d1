"""The weights of a Trainer's model as one file, whoever has what of them."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from phalanx.checkpoints.tensor_files import write_one_by_one
from phalanx.clock import phase
from phalanx.errors import CheckpointError
from phalanx.state.gathering import OneByOne
from phalanx.state.model import BUFFERS, PARAMETERS
from phalanx.whole_files import whole_file

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer


def write_weights(trainer: "Trainer", path: Path) -> None:
    """Collective. Rank 0 writes the file; each tensor is whole on every rank for a moment."""
    with phase("checkpoint"):
        tensors = OneByOne(trainer.comm, trainer.worker.state())
        sources = _sources(trainer)
        forms = {name: _form(tensors, source) for name, source in sources.items()}
        names = sorted(forms, key=lambda name: -forms[name].element_size())
        left = iter(names)

        def whole(name: str) -> Tensor:
            assert next(left) == name
            return tensors.whole(sources[name])

        failure = None
        try:
            if trainer.comm.rank == 0:
                with whole_file(path) as beside:
                    write_one_by_one(beside, {name: forms[name] for name in names}, whole)
        except OSError as error:
            failure = f"{path}: the weights cannot be written ({error.strerror or error})"
        for name in left:  # whoever does not write, or no longer, takes part all the same
            tensors.whole(sources[name])
        failure = trainer.comm.broadcast_object(failure)
    if failure is not None:
        raise CheckpointError(failure)


def _form(tensors: OneByOne, source: str) -> Tensor:
    known = tensors.outline(source)
    return torch.empty(known.shape, dtype=known.dtype, device="meta")


def _sources(trainer: "Trainer") -> dict[str, str]:
    """What a state calls each tensor of the model's `state_dict()`."""
    model = trainer.model
    known = {id(one): f"{PARAMETERS}{name}" for name, one in model.named_parameters()}
    known |= {id(one): f"{BUFFERS}{name}" for name, one in model.named_buffers()}
    return {
        name: known[id(one)]
        for name, one in model.state_dict(keep_vars=True).items()
        if isinstance(one, Tensor)
    }
