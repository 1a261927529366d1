"""How many classes there may be, and whether their samples are enough to learn. Without torch."""

from collections import Counter
from collections.abc import Iterator, Sequence

from phalanx.data.tables.known_cells import listed
from phalanx.errors import DataError

#: Different values in a table, and whole numbers that are meant as labels.
MOST_VALUES, MOST_LABELS = 1000, 100_000


def check_class_count(count: float, most: int, *, where: str, seen: str, fix: str) -> None:
    """Raise a DataError for too many classes, more are taken for the numbers of a regression;
    `seen` says what they were counted by.
    """
    if count > most:
        raise DataError(
            f"{where} has more than {most:,} classes ({seen}): {fix}, or take them as numbers by "
            "--task regression"
        )


def check_learnable(name: str, classes: Sequence[str], *, train: Sequence[int]) -> None:
    """Raise a DataError for training samples that are all of one class."""
    if len(set(train)) == 1:
        only = dict(enumerate(classes)).get(train[0], train[0])
        raise DataError(
            f"{name}: all {len(train):,} training samples are of one class, {only}: there is "
            "nothing to learn; add samples of others"
        )


def label_warnings(name: str, labels: Sequence[str], *, there: Sequence[float]) -> Iterator[str]:
    """What is odd about the labels of the samples to train on, by how many have each."""
    if unused := [label for label, count in zip(labels, there, strict=True) if not count]:
        yield f"{name}: labels without a training sample, which cannot be learnt: {listed(unused)}"


def class_warnings(
    name: str, classes: Sequence[str], *, train: Sequence[int], test: Sequence[int]
) -> Iterator[str]:
    """What is odd about the classes of samples to train on and to test with, for a person."""
    trained, tested = Counter(train), Counter(test)
    absent = [number for number in range(len(classes)) if not trained[number]]
    if strangers := [classes[number] for number in absent if tested[number]]:
        yield (
            f"{name}: test samples of classes without a training sample, which the model cannot "
            f"know: {listed(strangers)}: add samples, or take another --seed to part them"
        )
    if unused := [classes[number] for number in absent if not tested[number]]:
        yield f"{name}: classes without any sample: {listed(unused)}"
    if alone := [one for number, one in enumerate(classes) if trained[number] == 1]:
        yield f"{name}: classes with one training sample, which says little: {listed(alone)}"
