"""What is said about the classes of data that is to be trained on."""

import re

import pytest

from phalanx.data.tables.class_count import check_learnable, class_warnings
from phalanx.errors import DataError

CLASSES = ("a", "b", "c")


def test_one_class_alone_is_refused() -> None:
    with pytest.raises(DataError, match="own: all 3 training samples are of one class, b: there"):
        check_learnable("own", CLASSES, train=[1, 1, 1])
    check_learnable("own", CLASSES, train=[1, 1, 0])


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        ([0, 0, 1, 1, 2, 2], [0, 1, 2], []),
        ([0, 0, 1, 1], [0, 2], ["test samples of classes without a training sample.*: c: add"]),
        ([0, 0, 1, 1], [0], ["classes without any sample: c$"]),
        ([0, 1, 2, 2], [0], ["classes with one training sample.*: a, b$"]),
    ],
)
def test_odd_classes_are_told(train: list[int], test: list[int], said: list[str]) -> None:
    warnings = list(class_warnings("own", CLASSES, train=train, test=test))
    assert len(warnings) == len(said)
    for warning, pattern in zip(warnings, said, strict=True):
        assert re.search(pattern, warning)
