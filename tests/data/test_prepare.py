from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data import load
from phalanx.data.normalise import measure
from phalanx.data.prepare import prepare
from phalanx.data.source import Source
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Draw, Pool
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


@pytest.mark.ranks(2, 3)
def test_pieces_are_the_same_on_any_number_of_ranks(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_one_piece = prepare(dataset(), {"normalise": True}, comm=SingleCommunicator())
    monkeypatch.setattr("phalanx.data.normalise._PIECE_BYTES", 100 * 3 * 4 * 4 * 8)
    alone = prepare(dataset(), {"normalise": True}, comm=SingleCommunicator())
    together = prepare(dataset(), {"normalise": True}, comm=comm)
    indices = torch.arange(100)
    inputs = together.train.take(indices, dtype=torch.float64).inputs
    assert torch.equal(inputs, alone.train.take(indices, dtype=torch.float64).inputs)
    whole = in_one_piece.train.take(indices, dtype=torch.float64).inputs
    torch.testing.assert_close(inputs, whole, rtol=1e-12, atol=1e-12)


class Large(Source):
    """Samples of 3 MiB each in float64, and how many of them were asked for at once."""

    shape = (3, 256, 512)

    def __init__(self) -> None:
        self.most = 0

    def __len__(self) -> int:
        return 40

    def take(self, indices: Tensor) -> Tensor:
        self.most = max(self.most, len(indices))
        steps = torch.arange(3, dtype=torch.uint8)[:, None, None] + indices[:, None, None, None]
        return steps.to(torch.uint8).expand(-1, *self.shape).clone()


def test_large_samples_are_counted_a_few_at_a_time() -> None:
    source = Large()
    split = Split(source, torch.zeros(40))
    step = measure(split, rank=0, size=1, add_up=lambda moments: None)
    assert source.most * 3 << 20 <= 32 << 20
    numbers = torch.arange(40, dtype=torch.float64)
    torch.testing.assert_close(step.mean, numbers.mean() + torch.arange(3, dtype=torch.float64))
    torch.testing.assert_close(step.deviation, numbers.std(correction=0).expand(3))
    source.most = 0
    resized = split.transformed([Pool(8, 8)])
    measure(resized, rank=0, size=1, add_up=lambda moments: None)
    assert source.most * 3 << 20 <= 32 << 20


def one_column(values: Tensor) -> Dataset:
    split = Split(values[:, None], torch.zeros(len(values)))
    return prepare(
        Dataset("some", split, split, ("a",)), {"normalise": True}, comm=SingleCommunicator()
    )


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (torch.arange(2015, 2026, dtype=torch.float32), torch.bfloat16),
        (torch.arange(2015, 2026, dtype=torch.int16), torch.float16),
        (torch.arange(1_750_000_000, 1_750_000_040, dtype=torch.float64), torch.float32),
        (torch.arange(1_750_000_000, 1_750_000_040, dtype=torch.int64), torch.float32),
        (torch.arange(1_750_000_000, 1_750_000_040, dtype=torch.int32), torch.bfloat16),
    ],
)
def test_years_and_seconds_stay_apart_in_any_type(values: Tensor, dtype: torch.dtype) -> None:
    taken = one_column(values).train.take(torch.arange(len(values)), dtype=dtype).inputs
    assert taken.dtype == dtype
    exact = values.to(torch.float64)
    deviation, mean = torch.std_mean(exact, correction=0)
    expected = ((exact - mean) / deviation)[:, None]
    # No worse than the type itself, in which these numbers are up to 2 large.
    error = (taken.to(torch.float64) - expected).abs().max().item()
    assert error <= 2 * torch.finfo(dtype).eps


def test_new_samples_are_normalised_as_those_of_the_training_whatever_their_type() -> None:
    values = torch.arange(0, 50, dtype=torch.float32)
    test = one_column(values + 0.1).test
    numbers = torch.arange(50)
    wider = test.of(test.inputs.to(torch.float64), test.targets)
    assert torch.equal(wider.take(numbers).inputs, test.take(numbers).inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_steps_are_the_same_in_any_type(dtype: torch.dtype) -> None:
    options = {"normalise": True, "flip": True, "crop": 1}
    train = prepare(dataset(50), options, comm=SingleCommunicator()).train
    indices, draw = torch.arange(50), Draw(1, 2)
    taken = train.take(indices, dtype=dtype, draw=draw).inputs
    assert torch.equal(taken, train.take(indices, draw=draw).inputs.to(dtype))


def test_normalising_float32_copies_nothing() -> None:
    train = prepare(dataset(50), {"normalise": True}, comm=SingleCommunicator()).train
    indices = torch.arange(50)
    fetched = train.fetch(indices)
    assert train.take(indices, fetched=fetched).inputs.data_ptr() == fetched.data_ptr()


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


def test_steps_go_in_their_order_and_random_ones_to_training_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("phalanx.data.materialise._MOST_BYTES", 0)  # fixed ones stay steps, too
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


def images(count: int = 50) -> Dataset:
    pixels = torch.randint(0, 256, (count, 1, 28, 28), generator=torch.Generator().manual_seed(4))
    split = Split(pixels.to(torch.uint8), torch.arange(count) % 2, scale=1 / 255)
    return Dataset("some", split, split, ("a", "b"))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("options", [{"pool": "20x20"}, {"resize": "13x17", "pool": "5x5"}])
def test_fixed_steps_are_done_once_by_all_ranks(
    comm: Communicator, options: dict[str, str], dtype: torch.dtype
) -> None:
    ready = prepare(images(), options, comm=comm, dtype=dtype)
    assert ready.train.transforms == ()
    assert ready.test.inputs is ready.train.inputs
    alone = prepare(images(), options, comm=SingleCommunicator(), dtype=dtype)
    assert torch.equal(ready.train.inputs, alone.train.inputs)


@pytest.mark.parametrize("options", [{"pool": "20x20"}, {"resize": "13x17", "normalise": True}])
def test_steps_done_once_and_every_time_agree(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = prepare(images(), options, comm=SingleCommunicator())
    monkeypatch.setattr("phalanx.data.materialise._MOST_BYTES", 1000)
    every_time = prepare(images(), options, comm=SingleCommunicator())
    assert len(once.train.transforms) == len(every_time.train.transforms) - 1
    indices = torch.tensor([3, 49, 0])
    torch.testing.assert_close(
        once.train.take(indices), every_time.train.take(indices), rtol=1e-5, atol=1e-6
    )
    assert once.input_shape == every_time.input_shape
