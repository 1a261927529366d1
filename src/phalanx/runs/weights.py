"""A model's weights outside of it: their fingerprint and their file."""

import hashlib
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from phalanx.errors import RunError
from phalanx.runs.matlab_weights import load_matlab_weights


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
    beside = path.with_name(path.name + ".partial")
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, beside)
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read the weights of a file into the model; every name and shape must fit.

    The file is what `save_weights` wrote, or a .mat with a matrix a linear layer.
    """
    if path.suffix.lower() == ".mat":
        load_matlab_weights(model, path)
        return
    try:
        state: dict[str, Tensor] = load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path}: no such file; the run has no saved weights") from error
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path}: not a readable safetensors file ({error})") from error
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"{path}: the weights are of another model: {error}") from error
