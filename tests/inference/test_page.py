"""What docs/predictions.md shows can be typed, and gives what it says."""

import csv
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from phalanx.cli.app import app

PAGE = (Path(__file__).parents[2] / "docs" / "predictions.md").read_text()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page is about."""
    monkeypatch.chdir(tmp_path)
    np.save("new.npy", np.full((3, 1, 8, 8), 7.0))
    lines = [
        f"{1000 * n},{purpose},{'yes' if n > 25 else 'no'}"
        for n in range(50)
        for purpose in ("car", "house")
    ]
    Path("loans.csv").write_text("\n".join(["income,purpose,paid", *lines]) + "\n")
    Path("new.csv").write_text("customer,income,purpose\nann,31000,car\nbob,400,house\n")
    return tmp_path


def test_the_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in re.findall(r"^    phalanx (.*)$", PAGE, re.MULTILINE):
        assert not app(shlex.split(command), standalone_mode=False)
    assert "2 predictions: answers.csv" in capsys.readouterr().out
    rows = list(csv.DictReader((here / "answers.csv").read_text().splitlines()))
    assert [row["customer"] for row in rows] == ["ann", "bob"]
    found = pq.read_table(here / "answers.parquet").column_names
    assert [name for name in found if f"`{name}`" not in PAGE] == []
    with np.load(here / "answers.npz", allow_pickle=False) as arrays:
        assert [name for name in arrays if f"`{name}`" not in PAGE] == []
        outputs, named = arrays["outputs"], arrays["answer"].tolist()
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    values: dict[str, Any] = {}
    exec(code, values)
    np.testing.assert_array_equal(values["outputs"].numpy(), outputs)
    assert values["names"] == named
    assert values["probabilities"].shape == (3, 10)
    assert values["answers"] == [row["class"] for row in rows]
    assert values["answer"] == values["answers"][0]
