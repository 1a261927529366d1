"""The table of what was taken for what."""

from phalanx.train.measures.tables import confusion_table
from phalanx.train.metrics import Metrics


def test_few_classes_have_a_column_each() -> None:
    metrics = Metrics(loss=0.0, accuracy=0.8, count=10, confusion=[[3, 1], [1, 5]])
    table = confusion_table(metrics, ("cat", "dog"))
    assert table.columns == ("class", "cat", "dog", "precision", "recall")
    assert table.rows == (
        ("cat", "3", "1", "75.0%", "75.0%"),
        ("dog", "1", "5", "83.3%", "83.3%"),
    )


def test_many_classes_have_the_worst_mistake() -> None:
    confusion = [[0] * 20 for _ in range(20)]
    for index in range(20):
        confusion[index][index] = 8
    confusion[3][7] = 2
    table = confusion_table(
        Metrics(loss=0.0, accuracy=0.9, count=162, confusion=confusion),
        [f"class {index}" for index in range(20)],
    )
    assert table.columns[1:4] == ("samples", "right", "most often taken for")
    assert table.rows[3] == ("class 3", "10", "8", "class 7 (2)", "100.0%", "80.0%")
    assert table.rows[7] == ("class 7", "8", "8", "", "80.0%", "100.0%")
