"""A batch as a user has it: tensors in tuples, lists, dictionaries and dataclasses, cut by samples.

The first dimension of every tensor counts the samples, and so does a list of texts. Numbers, texts
by themselves, tensors without dimensions and None are the same for all samples.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from phalanx.errors import UsageError


@final
class Nest:
    """A nest of tensors that are cut together."""

    __slots__ = ("_count", "value")

    def __init__(self, value: Any, *, count: int | None = None) -> None:
        """Its samples are counted, unless somebody knows: none of no text is left to count."""
        self.value = value
        self._count = count_samples(value) if count is None else count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: slice | Tensor) -> "Nest":
        taken = map_leaves(lambda leaf: _taken(leaf, index), self.value)
        kept = range(self._count)[index] if isinstance(index, slice) else index
        return Nest(taken, count=len(kept))

    def to(self, device: torch.device, *, non_blocking: bool = False) -> "Nest":
        """The same nest with its tensors on a device."""
        return Nest(move(self.value, device, non_blocking=non_blocking), count=self._count)


def count_samples(nest: Any) -> int:
    """How many samples there are: a UsageError if its tensors do not agree on that."""
    counts = dict.fromkeys(len(leaf) for leaf in leaves(nest))
    if not counts:
        raise UsageError(
            f"a batch is made of tensors whose first dimension counts the samples, and this "
            f"{type(nest).__name__} has none"
        )
    if len(counts) > 1:
        raise UsageError(
            f"the tensors of a batch have {' and '.join(map(str, counts))} samples: the first "
            "dimension of each must count them (give a collate function that sees to it)"
        )
    return int(next(iter(counts)))


def leaves(nest: Any) -> "Iterator[Tensor | list[Any]]":
    """What has a part for each sample, in the order of the nest."""
    if _is_leaf(nest):
        yield nest
    else:
        for one in _children(nest):
            yield from leaves(one)


def map_leaves(function: Callable[[Any], Any], nest: Any) -> Any:
    """The same nest, with what has a part for each sample replaced."""
    if _is_leaf(nest):
        return function(nest)
    if isinstance(nest, Mapping):
        changed = {key: map_leaves(function, one) for key, one in nest.items()}
        return changed if type(nest) is dict else _like(nest, changed)
    if isinstance(nest, tuple | list):
        parts = [map_leaves(function, one) for one in nest]
        return nest._make(parts) if hasattr(nest, "_make") else type(nest)(parts)
    if _is_dataclass(nest):
        fields = {one.name: getattr(nest, one.name) for one in dataclasses.fields(nest)}
        changed = {name: map_leaves(function, one) for name, one in fields.items()}
        return dataclasses.replace(nest, **changed)
    return nest


def move(nest: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """The same nest with its tensors on a device."""

    def moved(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return to_device(leaf, device) if non_blocking else leaf.to(device)

    return map_leaves(moved, nest)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device. It goes there while this process goes on, which takes pinned memory:
    what torch has pinned before it uses again."""
    if device.type == "cuda" and tensor.is_cpu and torch.cuda.is_available():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def with_tensors(nest: Any) -> Any:
    """The same nest with tensors in place of NumPy's arrays."""
    if isinstance(nest, np.ndarray):
        return torch.from_numpy(nest)
    if isinstance(nest, Mapping):
        return {key: with_tensors(one) for key, one in nest.items()}
    if isinstance(nest, tuple | list) and not _is_leaf(nest):
        parts = [with_tensors(one) for one in nest]
        return nest._make(parts) if hasattr(nest, "_make") else type(nest)(parts)
    return nest


def _is_leaf(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dim() > 0
    is_list = isinstance(value, tuple | list) and not hasattr(value, "_make")
    return is_list and bool(value) and all(isinstance(one, str | bytes) for one in value)


def _children(nest: Any) -> Iterator[Any]:
    if isinstance(nest, Mapping):
        yield from nest.values()
    elif isinstance(nest, tuple | list):
        yield from nest
    elif _is_dataclass(nest):
        yield from (getattr(nest, one.name) for one in dataclasses.fields(nest))


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _like(nest: Any, changed: dict[Any, Any]) -> Any:
    """A mapping of a user's own kind, if it can be made of pairs."""
    try:
        return type(nest)(changed)
    except TypeError:
        return changed


def _taken(leaf: Any, index: slice | Tensor) -> Any:
    if isinstance(index, slice):
        return leaf[index]
    if isinstance(leaf, Tensor):
        return leaf.index_select(0, index)
    return type(leaf)(leaf[place] for place in index.tolist())
