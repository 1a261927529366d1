"""Data sets of a user's own, taken by indices."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from phalanx.data.batches import batches
from phalanx.data.own.collected import Collected, InMemory, as_samples, tensors_of
from phalanx.data.own.nest import Nest
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError

DRAWS: dict[str, Callable[[], float]] = {
    "torch": lambda: float(torch.rand(())),
    "numpy": lambda: float(np.random.rand()),
    "random": random.random,
}


class Noisy:
    """Samples with noise of any library's."""

    def __init__(self, kind: str = "torch", count: int = 10) -> None:
        self.kind, self.count = kind, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, float]:
        return {"number": index, "noise": DRAWS[self.kind]()}


def noise(samples: Collected, indices: list[int], draw: Draw | None = None) -> dict[int, float]:
    batch = samples.fetch(torch.tensor(indices), draw)
    return dict(zip(batch["number"].tolist(), batch["noise"].tolist(), strict=True))


@pytest.mark.parametrize("kind", DRAWS)
def test_noise_is_by_seed_epoch_and_sample_alone(kind: str) -> None:
    samples = Collected(Noisy(kind), whole=True)
    draw = Draw(3, 1)
    whole = noise(samples, list(range(10)), draw)
    assert len(set(whole.values())) == 10
    DRAWS[kind]()  # whatever else has been drawn meanwhile
    apart = noise(samples, [7, 2], draw) | noise(samples, [9, 0, 1], draw)
    assert apart == {index: whole[index] for index in apart}
    assert noise(samples, [4], Draw(3, 2))[4] != whole[4]
    assert noise(samples, [4], Draw(4, 1))[4] != whole[4]
    assert noise(samples, [4]) == noise(samples, [4])  # of an evaluation


def test_the_process_keeps_its_random_numbers() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = [one() for one in DRAWS.values()]
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    Collected(Noisy(), whole=True).take(torch.arange(10))
    assert [one() for one in DRAWS.values()] == expected


def test_an_error_in_a_data_set_leaves_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    with pytest.raises(IndexError):
        Collected([1.0]).fetch(torch.tensor([0, 5]))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_pair_for_a_loss_and_a_whole_batch_for_an_objective() -> None:
    rows = [(torch.tensor([float(i)]), i) for i in range(5)]
    pair = Collected(rows).take(torch.tensor([3, 1]))
    assert pair.inputs.tolist() == [[3.0], [1.0]]
    assert pair.targets.tolist() == [3, 1]
    whole = Collected(rows, whole=True).take(torch.tensor([3, 1]))
    assert isinstance(whole.inputs, Nest)
    assert whole.inputs is whole.targets
    assert whole.inputs.value[1].tolist() == [3, 1]


def test_several_inputs_are_one_side_of_a_pair() -> None:
    rows = [({"a": torch.tensor(float(i)), "text": str(i)}, float(i)) for i in range(5)]
    samples = Collected(rows).take(torch.tensor([3, 1]))
    assert samples.inputs.value["text"] == ["3", "1"]
    assert samples.targets.dtype == torch.float64


@pytest.mark.parametrize(
    ("batch", "what"),
    [
        ({"a": torch.zeros(2)}, "a dict"),
        ((torch.zeros(2),) * 3, "a tuple of 3"),
        (torch.zeros(2), "a Tensor"),
    ],
)
def test_a_loss_needs_pairs(batch: Any, what: str) -> None:
    with pytest.raises(UsageError, match=f"is no pair .* but {what}: give a collate function"):
        as_samples(batch, whole=False)


def test_a_collate_function_keeps_the_count() -> None:
    def first(samples: list[Tensor]) -> Tensor:
        return torch.stack(samples[:1])

    samples = Collected([torch.zeros(2)] * 4, collate=first, whole=True)
    with pytest.raises(UsageError, match="a batch of 3 samples has 1 once it is collated"):
        samples.take(torch.arange(3))


def test_no_samples_have_the_form_of_some() -> None:
    empty = Collected(Noisy(), whole=True).take(torch.empty(0, dtype=torch.int64))
    assert len(empty.inputs) == 0
    assert set(empty.inputs.value) == {"number", "noise"}


def test_tensors_in_memory() -> None:
    nest = {"a": torch.arange(5.0), "texts": ["a", "b", "c", "d", "e"], "k": 2}
    samples = InMemory(nest, whole=True)
    assert len(samples) == 5
    taken = samples.take(torch.tensor([4, 0])).inputs.value
    assert (taken["a"].tolist(), taken["texts"], taken["k"]) == ([4.0, 0.0], ["e", "a"], 2)
    assert len(tensors_of(samples, [0, 1])) == 2


def test_batches_go_through_all_samples_once() -> None:
    samples = Collected(Noisy(), whole=True)
    seen = [
        number
        for batch in batches(samples, batch_size=4, seed=1, epoch=0)
        for index in range(3)
        for number in batch.part(index, of=3).inputs.value["number"].tolist()
    ]
    assert sorted(seen) == list(range(10))
