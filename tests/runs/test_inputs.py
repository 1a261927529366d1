"""What a model's inputs are made of, in words."""

from phalanx.data.tables.form import InputColumn, TableForm
from phalanx.runs.inputs import in_words


def test_columns_say_what_stands_in_for_missing_values() -> None:
    form = TableForm(
        (
            InputColumn("size", 0, None, "2.5", True),
            InputColumn("sky", 1, ("clear", "rain", ""), ""),
            InputColumn("wind", 2, ("east", "west"), "west"),
        ),
        InputColumn("kind", 3, ("a", "b")),
        width=4,
        has_header=True,
    )
    told = in_words({"shape": [8], "scale": 1.0, "table": form.for_json()})
    assert told == (
        "stored values; columns: size (2.5 if missing), whether it is missing, "
        "sky = clear | rain | (missing), wind = east | west (west if missing)"
    )


def test_inputs_without_a_scale_are_told_without_one() -> None:
    """Of a data set of one's own, and of results that say less."""
    assert in_words({"shape": [1]}) == "stored values"
    assert in_words({"shape": [1], "scale": None}) == "stored values"
    assert in_words({"shape": [1], "scale": 0.5}) == "stored values times 0.5"
