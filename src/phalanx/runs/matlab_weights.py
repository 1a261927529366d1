"""Weights from MATLAB: matrices Theta1, Theta2 and so on, one for each linear layer in order.

A matrix has a row for each output of its layer; its first column is the bias, the others are the
weights of the inputs.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phalanx.data.containers.mat_matrices import matrix_names, read_matrices
from phalanx.errors import DataError, RunError
from phalanx.files import check_file

_NAME = re.compile(r"[Tt]heta_?(\d+)")


def load_matlab_weights(model: nn.Module, path: Path) -> None:
    """Read the matrices of a .mat into the model's linear layers; numbers and shapes must fit."""
    thetas = _read(path)
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    held = sum(parameter.numel() for parameter in model.parameters())
    if sum(layer.in_features * layer.out_features + layer.out_features for layer in layers) != held:
        raise RunError(
            f"{path}: Theta matrices are for models of linear layers with biases alone, such as "
            "mlp: give the weights of this one as safetensors"
        )
    if len(thetas) != len(layers):
        raise RunError(
            f"{path}: holds {', '.join(thetas)}, and the model has {len(layers)} linear layers"
        )
    for layer, (name, theta) in zip(layers, thetas.items(), strict=True):
        wanted = (layer.out_features, layer.in_features + 1)
        if tuple(theta.shape) != wanted:
            raise RunError(
                f"{path}: {name} is {_sizes(theta.shape)}, and a layer of {layer.in_features} "
                f"inputs and {layer.out_features} outputs needs {_sizes(wanted)}, the bias first"
            )
    with torch.no_grad():
        for layer, theta in zip(layers, thetas.values(), strict=True):
            layer.bias.copy_(theta[:, 0])
            layer.weight.copy_(theta[:, 1:])


def _read(path: Path) -> dict[str, Tensor]:
    """The matrices by name, in the order of their numbers."""
    try:
        check_file(path)
        content = read_matrices(path, lambda name: _NAME.fullmatch(name) is not None)
    except FileNotFoundError:
        raise RunError(f"{path}: no such file") from None
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    except DataError as error:
        raise RunError(str(error)) from error
    numbers = {name: int(found[1]) for name in content if (found := _NAME.fullmatch(name))}
    if not numbers:
        there = ", ".join(matrix_names(path)) or "nothing"
        raise RunError(f"{path}: holds no Theta1, Theta2 and so on, but {there}")
    return {
        name: _matrix(content[name], where=f"{path}: {name}")
        for name in sorted(numbers, key=numbers.__getitem__)
    }


def _matrix(value: Any, *, where: str) -> Tensor:
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "fiu":
        raise RunError(f"{where} is not a full matrix of numbers")
    matrix = torch.from_numpy(np.ascontiguousarray(value, dtype=np.float64))
    if not matrix.isfinite().all():
        raise RunError(f"{where} holds numbers that are not finite")
    return matrix


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
