from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data import load
from phalanx.data.normalise import measure
from phalanx.data.prepare import prepare
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Draw
from phalanx.errors import UsageError


def dataset(count: int = 2500, shape: tuple[int, ...] = (3, 4, 4)) -> Dataset:
    pixels = torch.randn(count, *shape, generator=torch.Generator().manual_seed(4))
    split = Split(pixels * 3 + 7, torch.arange(count) % 2)
    return Dataset("some", split, split.subset(torch.arange(min(count, 100))), ("a", "b"))


@pytest.mark.ranks(2, 3)
def test_normalisation_is_the_same_to_the_bit_on_any_number_of_ranks(comm: Communicator) -> None:
    alone = prepare(dataset(), {"normalise": True}, comm=SingleCommunicator())
    together = prepare(dataset(), {"normalise": True}, comm=comm)
    indices = torch.arange(100)
    for mine, ours in ((alone.train, together.train), (alone.test, together.test)):
        assert torch.equal(mine.take(indices).inputs, ours.take(indices).inputs)


@pytest.mark.parametrize(("shape", "dims"), [((3, 4, 4), (0, 2, 3)), ((5,), (0,))])
def test_channels_and_columns_come_to_mean_0_and_deviation_1(
    shape: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    ready = prepare(dataset(shape=shape), {"normalise": True}, comm=SingleCommunicator())
    inputs = ready.train.take(torch.arange(2500), dtype=torch.float64).inputs
    deviation, mean = torch.std_mean(inputs, dims, correction=0)
    torch.testing.assert_close(mean, torch.zeros_like(mean), rtol=0, atol=1e-12)
    torch.testing.assert_close(deviation, torch.ones_like(mean), rtol=1e-12, atol=0)


def test_a_mean_far_from_zero_costs_no_precision() -> None:
    values = torch.randn(3000, 2, dtype=torch.float64) + 1e9
    step = measure(Split(values, torch.zeros(3000)), rank=0, size=1, add_up=lambda moments: None)
    deviation, mean = torch.std_mean(values, 0, correction=0)
    torch.testing.assert_close(step.mean, mean)
    torch.testing.assert_close(step.deviation, deviation, rtol=1e-6, atol=0)


def test_what_never_varies_is_only_moved() -> None:
    constant = Split(torch.full((4, 1), 5.0), torch.zeros(4))
    ready = prepare(
        Dataset("some", constant, constant, ("a",)), {"normalise": True}, comm=SingleCommunicator()
    )
    assert ready.train.take(torch.arange(4)).inputs.tolist() == [[0.0]] * 4


def test_steps_go_in_their_order_and_random_ones_to_training_alone() -> None:
    options = {"resize": "10x10", "pool": "5x5", "normalise": True, "flip": True, "crop": 1}
    ready = prepare(dataset(50), options, comm=SingleCommunicator())
    names = [type(step).__name__ for step in ready.train.transforms]
    assert names == ["Resize", "Pool", "Normalise", "Flip", "Crop"]
    assert [type(step).__name__ for step in ready.test.transforms] == names[:3]
    assert ready.input_shape == ready.test.input_shape == (3, 5, 5)
    indices = torch.arange(20)
    drawn = ready.test.take(indices, draw=Draw(0, 0)).inputs
    assert torch.equal(drawn, ready.test.take(indices).inputs)
    # What is normalised is what the model sees.
    inputs = ready.train.take(torch.arange(50), dtype=torch.float64).inputs
    assert inputs.mean().item() == pytest.approx(0, abs=1e-12)


def test_no_steps_leave_a_data_set_as_it_is() -> None:
    digits = load("digits")
    ready = prepare(digits, {"seed": 3}, comm=SingleCommunicator())
    assert ready.train.transforms == ()
    assert ready.train.inputs is digits.train.inputs


def test_steps_that_do_not_fit_what_was_loaded_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--crop is for images, .* of some are 5"):
        prepare(dataset(shape=(5,)), {"crop": 2}, comm=SingleCommunicator())


@dataclass
class Ranks:
    """One of several ranks whose chunks nobody else counts."""

    rank: int
    size: int
    seen: Tensor | None = None

    def allreduce(self, buffer: Tensor) -> None:
        self.seen = buffer.clone()


def test_each_rank_counts_its_own_chunks_alone() -> None:
    shares = [Ranks(rank, 3) for rank in range(3)]
    for comm in shares:
        prepare(dataset(), {"normalise": True}, comm=comm)
    counted = [comm.seen.flatten(1).any(1).tolist() for comm in shares if comm.seen is not None]
    assert counted == [[True, False, False], [False, True, False], [False, False, True]]
