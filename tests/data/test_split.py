import pytest
import torch

from phalanx.data.split import Dataset, Split, hold_out, part_test
from phalanx.errors import UsageError


def numbered(count: int) -> Split:
    return Split(torch.arange(count, dtype=torch.uint8)[:, None], torch.arange(count))


def test_a_split_knows_its_length_and_the_shape_of_a_sample() -> None:
    split = Split(torch.zeros(5, 1, 8, 8), torch.zeros(5))
    assert len(split) == 5
    assert split.input_shape == (1, 8, 8)
    assert Dataset("some", split, split, ("a",)).input_shape == (1, 8, 8)


@pytest.mark.parametrize(
    ("inputs", "targets"), [((3, 2), (4,)), ((), ()), ((3,), ()), ((), (3,)), ((0, 2), (1,))]
)
def test_lengths_must_agree(inputs: tuple[int, ...], targets: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="one target an input, got inputs of shape"):
        Split(torch.zeros(inputs), torch.zeros(targets))


def test_take_scales_bytes_and_keeps_class_targets() -> None:
    split = Split(torch.tensor([[0], [51], [255]], dtype=torch.uint8), torch.tensor([7, 8, 9]), 0.2)
    samples = split.take(torch.tensor([2, 1]), dtype=torch.float64)
    assert samples.inputs.tolist() == [[51.0], [51 * 0.2]]
    assert samples.inputs.dtype == torch.float64
    assert samples.targets.tolist() == [9, 8]
    assert samples.targets.dtype == torch.int64


def test_whole_numbers_without_a_scale_stay_what_they_are() -> None:
    """The words of a text: above 2^24, float32 would change them."""
    words = torch.tensor([[2**24 + 1, 3]])
    samples = Split(words, torch.tensor([0])).take(torch.tensor([0]))
    assert torch.equal(samples.inputs, words)
    assert samples.inputs.dtype == torch.int64
    assert Split(words, torch.tensor([0]), 1.0).take(torch.tensor([0])).inputs.is_floating_point()


def test_take_casts_floating_targets() -> None:
    split = Split(torch.zeros(2, 1), torch.tensor([0.5, 1.5], dtype=torch.float64))
    assert split.take(torch.tensor([1])).targets.dtype == torch.float32


def test_take_leaves_the_source_alone() -> None:
    split = Split(torch.ones(2, 1), torch.zeros(2), scale=3.0)
    split.take(torch.tensor([0, 1])).inputs.add_(1)
    assert split.inputs.tolist() == [[1.0], [1.0]]


def test_take_of_nothing_keeps_the_shape() -> None:
    samples = Split(torch.zeros(4, 3, 2), torch.zeros(4)).take(torch.empty(0, dtype=torch.int64))
    assert samples.inputs.shape == (0, 3, 2)
    assert samples.targets.shape == (0,)


def test_subset_keeps_scale_and_type() -> None:
    split = Split(torch.arange(4, dtype=torch.uint8), torch.arange(4), scale=0.5)
    part = split.subset(torch.tensor([3, 0]))
    assert (part.inputs.tolist(), part.targets.tolist()) == ([3, 0], [3, 0])
    assert (part.inputs.dtype, part.scale) == (torch.uint8, 0.5)


def test_hold_out_parts_by_the_seed_alone() -> None:
    train, validation = hold_out(numbered(50), 0.2, seed=3)
    again, held_again = hold_out(numbered(50), 0.2, seed=3)
    _, other = hold_out(numbered(50), 0.2, seed=4)
    assert validation is not None
    assert held_again is not None
    assert other is not None
    assert (len(train), len(validation)) == (40, 10)
    assert sorted(train.targets.tolist() + validation.targets.tolist()) == list(range(50))
    assert torch.equal(train.targets, again.targets)
    assert torch.equal(validation.targets, held_again.targets)
    assert not torch.equal(validation.targets, other.targets)


def test_hold_out_of_nothing() -> None:
    split = numbered(5)
    assert hold_out(split, 0, seed=0) == (split, None)


@pytest.mark.parametrize(
    ("fraction", "cause"),
    [
        (-0.1, "from 0 to below 1, got -0.1"),
        (1.0, "from 0 to below 1"),
        (float("nan"), "from 0 to below 1, got nan"),
        (0.01, "0.01 of 5 samples leaves no sample to validate with"),
        (0.99, "0.99 of 5 samples leaves no sample to train on"),
    ],
)
def test_hold_out_refuses_empty_parts(fraction: float, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        hold_out(numbered(5), fraction, seed=0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more, got -1"):
        hold_out(numbered(5), 0.5, seed=-1)


def test_the_test_part_is_held_out_by_the_seed_and_apart_from_validation() -> None:
    train, test = part_test(numbered(50), 0.2, seed=3)
    _, validation = hold_out(numbered(50), 0.2, seed=3)
    assert validation is not None
    assert (len(train), len(test)) == (40, 10)
    assert sorted(train.targets.tolist() + test.targets.tolist()) == list(range(50))
    assert not torch.equal(test.targets, validation.targets)


def test_no_test_part_tests_on_the_training_samples() -> None:
    split = numbered(5)
    assert part_test(split, 0, seed=0) == (split, split)


def test_a_test_part_without_samples_is_refused() -> None:
    with pytest.raises(UsageError, match=r"0.01 of 5 samples leaves no sample to test with"):
        part_test(numbered(5), 0.01, seed=0)
