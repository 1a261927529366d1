"""A model's weights outside of it: their fingerprint and their file."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from phalanx.checkpoints import newest_whole, read_checkpoint
from phalanx.errors import RunError, UsageError
from phalanx.files import check_file
from phalanx.runs.matlab_weights import load_matlab_weights
from phalanx.runs.pydtnn_weights import load_pydtnn_weights
from phalanx.state.model import write_buffers, write_parameters
from phalanx.whole_files import whole_file


def weights_digest(model: nn.Module) -> str:
    """The SHA-256 of all parameters and buffers, in the order of their names."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        dense = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {dense.dtype} {tuple(dense.shape)}\n".encode())
        digest.update(dense.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the weights as safetensors; the file appears whole or not at all."""
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    state = {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
    with whole_file(path) as beside:
        save_file({name: tensor.contiguous() for name, tensor in state.items()}, beside)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read the weights of a file into the model; every name and shape must fit.

    The file is what `save_weights` wrote, a .mat with a matrix a linear layer, or PyDTNN's .npz. Of
    a folder of checkpoints, the newest whole one has them.
    """
    if path.is_dir():
        _load_checkpoint(model, path)
        return
    if path.suffix.lower() == ".mat":
        load_matlab_weights(model, path)
        return
    if path.suffix.lower() == ".npz":
        load_pydtnn_weights(model, path)
        return
    try:
        check_file(path)  # a named pipe would have it wait for ever
        state: dict[str, Tensor] = load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; the run has no saved weights") from error
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path}: not a readable safetensors file ({error})") from error
    _check_kinds(model, state, path)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"{path}: the weights are of another model: {error}") from error


def _load_checkpoint(model: nn.Module, folder: Path) -> None:
    newest, _ = newest_whole(folder)
    state = read_checkpoint(newest)
    try:
        write_parameters({one: name for name, one in model.named_parameters()}, state)
        write_buffers(model, state)
    except UsageError as error:
        raise RunError(f"{newest}: {error}") from error


def _check_kinds(model: nn.Module, state: dict[str, Tensor], path: Path) -> None:
    """Refuse whole numbers for fractions: torch would take the one for the other without a word."""
    for name, own in model.state_dict().items():
        found = state.get(name, own).dtype
        kinds = [(one.is_floating_point, one.is_complex) for one in (own.dtype, found)]
        if kinds[0] != kinds[1]:
            raise RunError(f"{path}: {name} holds {found}, and the model's is {own.dtype}")
