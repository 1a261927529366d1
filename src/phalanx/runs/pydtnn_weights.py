"""PyDTNN's files of weights: a .npz with an array for each part of a layer, `3_Conv2D_weights`.

A layer's number is its place among all layers, the input first. Matrices have a row for each input,
torch's one for each output. Layers are matched by their order, whatever the numbers are.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from phalanx.data.containers.npz_archive import array_names, read_array
from phalanx.errors import DataError, RunError
from phalanx.models.table import layer_rows
from phalanx.whole_files import whole_file

#: What PyDTNN calls the parts of a layer, and torch.
_PARTS: Mapping[str, str] = {
    "weights": "weight",
    "biases": "bias",
    "gamma": "weight",
    "beta": "bias",
    "running_mean": "running_mean",
    "running_var": "running_var",
}
_NAME = re.compile(rf"(\d+)_(\w+?)_({'|'.join(_PARTS)})")
#: Layers that are written, by PyDTNN's names.
TYPES: Mapping[str, str] = {
    "Conv2d": "Conv2D",
    "Linear": "FC",
    "BatchNorm1d": "BatchNormalization",
    "BatchNorm2d": "BatchNormalization",
}
#: Which PyDTNN does not count as layers, in its first version.
_UNCOUNTED = ("Flatten",)


def load_pydtnn_weights(model: nn.Module, path: Path) -> None:
    """Read the arrays of a .npz into the model's layers; number, order and shapes must fit."""
    stored = _read(path)
    layers = [one for one in model.modules() if any(True for _ in one.parameters(recurse=False))]
    if len(stored) != len(layers):
        raise RunError(
            f"{path}: holds weights of {len(stored)} layers, and the model has {len(layers)}"
        )
    fitting = [
        _fitting(parts, layer, where=f"{path}: layer {number}")
        for (number, parts), layer in zip(stored.items(), layers, strict=True)
    ]
    with torch.no_grad():
        for found in fitting:
            for own, values in found:
                own.copy_(values)


def save_pydtnn_weights(model: nn.Module, path: Path, *, input_shape: tuple[int, ...]) -> None:
    """Write what PyDTNN's `--weights_and_bias_filename` reads; whole or not at all."""
    modules = dict(model.named_modules())
    arrays: dict[str, Any] = {}
    rows = [row for row in layer_rows(model, input_shape) if row.type not in _UNCOUNTED]
    for number, row in enumerate(rows, start=1):
        layer = modules[row.name]
        if not any(True for _ in layer.parameters(recurse=False)):
            continue
        if row.type not in TYPES:
            raise RunError(f"PyDTNN has no layer such as {row.name}, a {row.type}")
        for part, name in _PARTS.items():
            tensor = getattr(layer, name, None)
            if isinstance(tensor, Tensor) and (part in ("weights", "biases")) != _is_norm(layer):
                values = tensor.detach().cpu().T if tensor.dim() == 2 else tensor.detach().cpu()
                arrays[f"{number}_{TYPES[row.type]}_{part}"] = np.ascontiguousarray(values)
    with whole_file(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _is_norm(layer: nn.Module) -> bool:
    return isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d)


def _read(path: Path) -> dict[int, dict[str, Tensor]]:
    """The parts of each layer, in the order of the layers' numbers."""
    found: dict[int, dict[str, Tensor]] = {}
    try:
        for name in array_names(path):
            match = _NAME.fullmatch(name)
            if match is None:
                raise RunError(
                    f"{path}: '{name}' is no part of a layer, as 3_Conv2D_weights is: this is no "
                    "file of PyDTNN's weights"
                )
            array = read_array(path, name)
            if array.dtype.kind != "f" or not np.isfinite(array).all():
                raise RunError(f"{path}: {name} is not an array of finite numbers")
            found.setdefault(int(match[1]), {})[_PARTS[match[3]]] = torch.from_numpy(array)
    except DataError as error:
        raise RunError(str(error)) from error
    if not found:
        raise RunError(f"{path}: holds no weights")
    return dict(sorted(found.items()))


def _fitting(
    parts: Mapping[str, Tensor], layer: nn.Module, *, where: str
) -> list[tuple[Tensor, Tensor]]:
    """The layer's own tensors, each with what it is to hold."""
    own = {name: one for name in _PARTS.values() if (one := getattr(layer, name, None)) is not None}
    statistics = {"running_mean", "running_var"}  # which early versions did not write
    if not {*own} - statistics <= {*parts} <= {*own}:
        raise RunError(
            f"{where} has {', '.join(sorted(parts))}, and {type(layer).__name__} takes "
            f"{', '.join(sorted(own))}"
        )
    found = []
    for name, values in parts.items():
        wanted, turned = own[name].shape, values.T if values.dim() == 2 else values
        if own[name].dim() == 1:
            turned = turned.reshape(-1)
        if turned.shape != wanted:
            raise RunError(
                f"{where}: its {name} is {_sizes(values.shape)}, and {type(layer).__name__} takes "
                f"{_sizes(wanted[::-1] if len(wanted) == 2 else wanted)}"
            )
        found.append((own[name], turned))
    return found


def _sizes(shape: torch.Size) -> str:
    return "×".join(map(str, shape))
