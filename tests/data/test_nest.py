"""Batches of any form, cut by samples."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from phalanx.data.own.nest import Nest, count_samples, leaves, map_leaves, move, with_tensors
from phalanx.errors import UsageError


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Record:
    image: Tensor
    texts: list[str]
    width: int = 3


class Fixed(Mapping[str, Any]):
    """A mapping that cannot be made of pairs."""

    def __init__(self, *, first: Any) -> None:
        self.first = first

    def __getitem__(self, key: str) -> Any:
        if key != "first":
            raise KeyError(key)
        return self.first

    def __iter__(self) -> Iterator[str]:
        return iter(["first"])

    def __len__(self) -> int:
        return 1


NUMBERS = torch.arange(12.0).view(6, 2)
TEXTS = ["a", "b", "c", "d", "e", "f"]
NESTS: dict[str, Any] = {
    "tensor": NUMBERS,
    "tuple": (NUMBERS, torch.arange(6)),
    "list": [NUMBERS, torch.arange(6)],
    "dict": {"a": NUMBERS, "b": {"c": torch.arange(6)}, "k": 3, "none": None, "name": "x"},
    "ordered": OrderedDict(a=NUMBERS),
    "named tuple": Pair(NUMBERS, {"a": torch.arange(6)}),
    "dataclass": Record(NUMBERS, TEXTS),
    "texts": (TEXTS, NUMBERS),
    "bytes": {"raw": [one.encode() for one in TEXTS]},
    "scalar beside": (NUMBERS, torch.tensor(5.0)),
    "mapping": Fixed(first=NUMBERS),
}


def flat(nest: Any) -> list[list[Any]]:
    return [one.tolist() if isinstance(one, Tensor) else list(one) for one in leaves(nest)]


@pytest.mark.parametrize("name", NESTS)
def test_a_nest_is_cut_and_stays_what_it_is(name: str) -> None:
    nest = Nest(NESTS[name])
    assert len(nest) == 6
    for index, places in (
        (slice(1, 4), [1, 2, 3]),
        (slice(0, 0), []),
        (torch.tensor([5, 0, 5]), [5, 0, 5]),
    ):
        part = nest[index]
        expected = [[leaf[place] for place in places] for leaf in flat(NESTS[name])]
        if places:
            assert flat(part.value) == expected
            assert len(part) == len(places)
        if name != "mapping":  # of which a dict is made
            assert type(part.value) is type(NESTS[name])


def test_what_is_the_same_for_all_samples_stays() -> None:
    part = Nest(NESTS["dict"])[:2].value
    assert (part["k"], part["none"], part["name"]) == (3, None, "x")
    assert Nest(NESTS["scalar beside"])[:2].value[1] == 5.0
    assert Nest(NESTS["dataclass"])[:2].value.width == 3


def test_an_empty_part_of_texts_has_no_samples() -> None:
    assert len(Nest((TEXTS, NUMBERS))[:0]) == 0
    assert len(Nest({"raw": TEXTS})[:0]) == 0
    assert len(Nest((TEXTS, NUMBERS))[:0][:0]) == 0


def test_tensors_that_disagree_are_refused() -> None:
    with pytest.raises(UsageError, match="have 6 and 5 samples: the first dimension of each"):
        count_samples((NUMBERS, torch.arange(5)))
    with pytest.raises(UsageError, match="have 6 and 2 samples"):
        count_samples({"a": NUMBERS, "b": ["x", "y"]})


@pytest.mark.parametrize("nothing", [(), {}, 3, "text", None, torch.tensor(1.0), {"a": 2}])
def test_what_has_no_samples_is_refused(nothing: Any) -> None:
    with pytest.raises(UsageError, match="has none"):
        Nest(nothing)


def test_every_leaf_is_changed_and_nothing_else() -> None:
    doubled = map_leaves(lambda leaf: leaf * 2, NESTS["dataclass"])
    torch.testing.assert_close(doubled.image, NUMBERS * 2, rtol=0, atol=0)
    assert doubled.texts == TEXTS * 2
    assert doubled.width == 3


def test_texts_do_not_move() -> None:
    moved = move(Record(NUMBERS, TEXTS), torch.device("meta"))
    assert moved.image.device.type == "meta"
    assert moved.texts == TEXTS


def test_arrays_are_tensors() -> None:
    array = np.arange(6, dtype=np.float32)
    nest = with_tensors({"a": array, "b": Pair(array, [array, NUMBERS]), "c": TEXTS, "k": 1})
    assert isinstance(nest["a"], Tensor)
    assert isinstance(nest["b"], Pair)
    assert isinstance(nest["b"].left, Tensor)
    assert isinstance(nest["b"].right[0], Tensor)
    assert nest["c"] is TEXTS
    assert len(Nest(nest)) == 6
