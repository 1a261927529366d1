import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.data.batches import batches
from phalanx.data.seeding import bits
from phalanx.data.split import Split
from phalanx.data.transforms import (
    Crop,
    CropWindow,
    Draw,
    Flip,
    Normalise,
    Pool,
    Resize,
    Transform,
)

STEPS: tuple[Transform, ...] = (
    Resize(9, 7),
    Pool(6, 7),
    Normalise(torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.4])),
    Flip(),
    CropWindow(4, 0.6),
    Crop(2),
)


def images(count: int, *steps: Transform, side: int = 8) -> Split:
    pixels = torch.randint(
        256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )
    return Split(pixels, torch.arange(count), scale=1 / 255, transforms=steps)


@settings(deadline=None, max_examples=40)
@given(
    steps=st.sets(st.sampled_from(range(len(STEPS)))),
    count=st.integers(1, 9),
    parts=st.integers(1, 5),
    epoch=st.integers(0, 3),
)
def test_samples_are_the_same_to_the_bit_however_a_batch_is_cut(
    steps: set[int], count: int, parts: int, epoch: int
) -> None:
    split = images(9, *(STEPS[number] for number in sorted(steps)))
    (batch, *_) = batches(split, batch_size=count, seed=7, epoch=epoch)
    whole = batch.whole().inputs
    assert tuple(whole.shape[1:]) == split.input_shape
    pieces = [batch.part(part, of=parts).inputs for part in range(parts)]
    assert torch.equal(torch.cat(pieces), whole)


def test_random_steps_depend_on_seed_epoch_and_index_alone() -> None:
    split = images(64, Flip(), Crop(3))
    everything = torch.arange(64)
    first = split.take(everything, draw=Draw(1, 0)).inputs
    backwards = split.take(everything.flip(0), draw=Draw(1, 0)).inputs.flip(0)
    assert torch.equal(first, backwards)
    for other in (Draw(1, 1), Draw(2, 0)):
        changed = (split.take(everything, draw=other).inputs != first).flatten(1).any(1)
        assert changed.sum() > 32


def test_nothing_is_random_without_a_draw() -> None:
    plain, random = images(8), images(8, Flip(), Crop(2))
    indices = torch.arange(8)
    assert torch.equal(plain.take(indices).inputs, random.take(indices).inputs)


def test_about_every_other_image_is_flipped() -> None:
    split, plain = images(400, Flip()), images(400)
    indices = torch.arange(400)
    before = plain.take(indices).inputs
    after = split.take(indices, draw=Draw(0, 0)).inputs
    flipped = (after == before.flip(-1)).flatten(1).all(1)
    same = (after == before).flatten(1).all(1)
    assert torch.all(flipped ^ same)
    assert 140 < flipped.sum() < 260


@pytest.mark.parametrize("probability", [0.1, 0.9])
def test_as_many_images_are_flipped_as_asked_for(probability: float) -> None:
    split, plain = images(400, Flip(probability)), images(400)
    indices = torch.arange(400)
    before = plain.take(indices).inputs
    after = split.take(indices, draw=Draw(0, 0)).inputs
    flipped = (after == before.flip(-1)).flatten(1).all(1)
    assert abs(flipped.sum().item() - 400 * probability) < 30


def test_a_window_is_kept_and_moved() -> None:
    images = torch.arange(1, 31, dtype=torch.float32).view(1, 1, 6, 5).repeat(400, 1, 1, 1)
    split = Split(images, torch.zeros(400), transforms=[CropWindow(3, 0.25)])
    taken = split.take(torch.arange(400), draw=Draw(3, 1)).inputs[:, 0]
    changed = (taken != images[:, 0]).flatten(1).any(1)
    assert 60 < changed.sum() < 140
    shapes = set()
    for image in taken[changed]:
        rows, columns = (torch.remainder(image - 1, 30) // 5), torch.remainder(image - 1, 5)
        there = image > 0
        # Somewhere in it is a window of the original, in one piece but for the sides of the image.
        down = {int(one) for one in ((torch.arange(6)[:, None] - rows)[there] % 6)}
        aside = {int(one) for one in ((torch.arange(5)[None] - columns)[there] % 5)}
        assert (len(down), len(aside)) == (1, 1)
        gone = sorted({*range(1, 31)} - {int(one) for one in image[there]})
        assert 30 - len(gone) >= 9
        shapes.add(tuple(gone))
    assert len(shapes) > 3


def test_a_crop_moves_an_image_and_leaves_zeros() -> None:
    ones = Split(torch.ones(500, 1, 5, 4), torch.zeros(500), transforms=[Crop(2)])
    taken = ones.take(torch.arange(500), draw=Draw(3, 1)).inputs[:, 0]
    rows, columns = taken.amax(2), taken.amax(1)
    assert torch.equal(taken, rows[:, :, None] * columns[:, None, :])
    down = 5 - rows.sum(1)
    right = 4 - columns.sum(1)
    assert set(down.tolist()) == set(right.tolist()) == {0.0, 1.0, 2.0}
    # Moved up as well as down, left as well as right.
    assert 0 < (rows[:, 0] == 0).sum() < (down > 0).sum()
    assert 0 < (columns[:, 0] == 0).sum() < (right > 0).sum()


def test_a_crop_keeps_the_pixels_that_stay() -> None:
    plain = images(30)
    taken = images(30, Crop(1)).take(torch.arange(30), draw=Draw(0, 0)).inputs
    padded = torch.nn.functional.pad(plain.take(torch.arange(30)).inputs, (1, 1, 1, 1))
    for image, source in zip(taken, padded, strict=True):
        places = [source[:, y : y + 8, x : x + 8] for y in range(3) for x in range(3)]
        assert any(torch.equal(image, place) for place in places)


def test_pooling_is_the_mean_of_areas() -> None:
    image = torch.arange(28 * 28, dtype=torch.float64).reshape(1, 1, 28, 28)
    halved = Split(image, torch.zeros(1), transforms=[Pool(14, 14)])
    taken = halved.take(torch.tensor([0]), dtype=torch.float64).inputs
    assert taken[0, 0, 0, 0] == (0 + 1 + 28 + 29) / 4
    assert halved.input_shape == (1, 14, 14)
    # 28 rows in 20: the first covers rows 0 and 1, the second rows 1 and 2.
    twenty = Split(image, torch.zeros(1), transforms=[Pool(20, 20)])
    pooled = twenty.take(torch.tensor([0]), dtype=torch.float64).inputs[0, 0]
    assert pooled[0, 0] == image[0, 0, :2, :2].mean()
    assert pooled[1, 1] == image[0, 0, 1:3, 1:3].mean()
    assert pooled.shape == (20, 20)


def test_resizing_keeps_a_flat_image_flat() -> None:
    flat = Split(torch.full((2, 3, 5, 7), 0.25), torch.zeros(2), transforms=[Resize(11, 4)])
    taken = flat.take(torch.arange(2)).inputs
    assert taken.shape == (2, 3, 11, 4)
    torch.testing.assert_close(taken, torch.full_like(taken, 0.25))


def test_no_samples_keep_their_shape_through_all_steps() -> None:
    split = images(4, *STEPS)
    taken = split.take(torch.empty(0, dtype=torch.int64), draw=Draw(0, 0)).inputs
    assert taken.shape == (0, *split.input_shape)


def test_columns_are_normalised_one_by_one() -> None:
    split = Split(
        torch.tensor([[1.0, 10.0], [3.0, 30.0]]),
        torch.zeros(2),
        transforms=[Normalise(torch.tensor([2.0, 20.0]), torch.tensor([1.0, 10.0]))],
    )
    assert split.take(torch.arange(2)).inputs.tolist() == [[-1, -1], [1, 1]]
    assert split.inputs.tolist() == [[1, 10], [3, 30]]


def test_bits_are_even_and_stay_the_same_between_releases() -> None:
    positions = torch.arange(4096).numpy().astype("uint64")
    drawn = bits(positions, 5, 2, purpose=(1,))
    for bit in range(64):
        share = float(((drawn >> bit) & 1).mean())
        assert share == pytest.approx(0.5, abs=0.05)
    assert [int(one) for one in drawn[:2]] == [11068421721303498932, 14775722275416541202]
