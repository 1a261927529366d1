import pytest
import torch

from phalanx.data import check, load
from phalanx.data.split import Split


def made(**options: object) -> tuple[Split, Split]:
    check("synthetic", options=options)
    dataset = load("synthetic", options=options)
    return dataset.train, dataset.test


def test_any_shape_number_and_classes() -> None:
    dataset = load("synthetic", options={"shape": "2x5x7", "classes": 3, "samples": 100})
    assert dataset.input_shape == (2, 5, 7)
    assert dataset.classes == ("0", "1", "2")
    assert (len(dataset.train), len(dataset.test)) == (100, 20)
    assert torch.bincount(dataset.train.targets).tolist() == [34, 33, 33]


def test_samples_depend_on_the_seed_and_their_index_alone() -> None:
    train, test = made(shape="6", samples=50, seed=1)
    other, _ = made(shape="6", samples=50, seed=2)
    everything = train.take(torch.arange(50)).inputs
    assert torch.equal(everything[[7, 3]], train.take(torch.tensor([7, 3])).inputs)
    assert not torch.equal(everything, other.take(torch.arange(50)).inputs)
    assert not torch.equal(everything[:10], test.take(torch.arange(10)).inputs)
    assert len({tuple(row) for row in everything.tolist()}) == 50


def test_samples_that_nobody_could_store_cost_nothing() -> None:
    train, _ = made(shape="3x224x224", samples=10_000_000)
    assert train.take(torch.tensor([9_999_999])).inputs.shape == (1, 3, 224, 224)


@pytest.mark.parametrize("shape", ["4", "300", "3x16x16"])
def test_classes_can_be_told_apart(shape: str) -> None:
    train, test = made(shape=shape, classes=3, samples=3000)
    inputs, targets = train.take(torch.arange(3000))
    means = torch.stack([inputs[targets == label].flatten(1).mean(0) for label in range(3)])
    tested = test.take(torch.arange(600))
    nearest = torch.cdist(tested.inputs.flatten(1), means).argmin(1)
    accuracy = (nearest == tested.targets).float().mean().item()
    assert accuracy > (0.5 if shape == "4" else 0.95)


def test_noise_has_a_deviation_of_one() -> None:
    train, _ = made(shape="1x8x8", classes=2, samples=4000)
    inputs, targets = train.take(torch.arange(4000))
    noise = inputs[targets == 0]
    deviation = noise.std(0).mean().item()
    assert deviation == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("task", "classes", "names"),
    [
        ("regression", None, ("value 0",)),
        ("regression", 3, ("value 0", "value 1", "value 2")),
        ("multi-label", 2, ("label 0", "label 1")),
    ],
)
def test_other_tasks(task: str, classes: int | None, names: tuple[str, ...]) -> None:
    given = {"shape": "6", "samples": 40, "task": task} | ({"classes": classes} if classes else {})
    dataset = load("synthetic", options=given)
    assert (dataset.task, dataset.classes) == (task, names)
    targets = dataset.train.targets
    assert targets.shape == (40, len(names))
    assert targets.abs().max() <= 1
    values = set(targets.flatten().tolist())
    assert len(values) > 2 if task == "regression" else values == {0, 1}
    # Whichever samples are taken together, each is the same.
    whole, part = (
        dataset.train.take(torch.arange(40)[rows]).inputs for rows in (slice(40), slice(7, 9))
    )
    assert torch.equal(whole[7:9], part)
