"""A run's folder whose files are damaged: one line that names the file, and no traceback."""

import json
from pathlib import Path
from typing import Any

import pytest

from phalanx.errors import RunError, UsageError
from phalanx.observe.rows import read_finished
from phalanx.runs.folder import read_result, read_run_settings
from phalanx.runs.record import read_record
from phalanx.runs.result import check_result

TABLE = {
    "has_header": True,
    "width": 2,
    "columns": [{"name": "length", "place": 0, "kind": "numbers"}],
    "target": {"name": "kind", "place": 1},
}
INPUTS: dict[str, Any] = {"shape": [1], "scale": 1.0, "mean": [0.0], "deviation": [1.0]}


def folder(path: Path, result: str = "{}", config: str = '{"settings": {}}') -> Path:
    (path / "result.json").write_text(result)
    (path / "config.json").write_text(config)
    return path


def test_what_is_missing_is_no_damage(tmp_path: Path) -> None:
    assert read_result(folder(tmp_path)) == {}
    whole = {"classes": ["a", "b"], "inputs": INPUTS | {"table": TABLE}, "seconds": None}
    whole["baselines"] = {"mean": {"accuracy": None, "more": {"r2": 0.5}}, "left_out": "too large"}
    recorded = read_record(folder(tmp_path, json.dumps(whole)))
    assert recorded.classes == ("a", "b")
    assert recorded.table is not None


@pytest.mark.parametrize(
    ("result", "cause"),
    [
        ({"classes": "ab"}, "'classes' is not a list of texts"),
        ({"classes": [1, 2]}, "'classes' is not a list of texts"),
        ({"input_shape": 3}, "'input_shape' is not the sizes of a sample"),
        ({"input_shape": [-3]}, "'input_shape' is not the sizes of a sample"),
        ({"input_shape": [1 << 39, 1 << 39]}, "'input_shape' is not the sizes of a sample"),
        ({"inputs": []}, "'inputs' is not what inputs are made of"),
        ({"inputs": {"shape": [1], "scale": "x"}}, "inputs: 'scale' is not a number"),
        ({"inputs": INPUTS | {"mean": ["a"]}}, "inputs: 'mean' is not a list of numbers"),
        ({"inputs": INPUTS | {"deviation": []}}, "a mean for each deviation"),
        ({"inputs": INPUTS | {"precision": "load"}}, "'precision' is not a type of numbers"),
        ({"inputs": INPUTS | {"table": {}}}, "table: lacks 'width'"),
        ({"inputs": INPUTS | {"table": TABLE | {"columns": [1]}}}, "is not a list of columns"),
        ({"inputs": INPUTS | {"table": TABLE | {"target": {}}}}, "a column: lacks 'name'"),
        ({"seconds": "soon"}, "'seconds' is not a number"),
        ({"test": [1]}, "'test' is not what a test says"),
        ({"data": 3}, "'data' is not a text"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, result: dict[str, Any], cause: str) -> None:
    folder(tmp_path, json.dumps(result))
    for read in (read_result, read_record, read_finished):
        with pytest.raises(RunError, match=rf"result\.json: .*{cause}"):
            read(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "", "\udc80", '{"a": 1', '{"a": 1, "a": 2}'])
def test_files_that_are_no_json(tmp_path: Path, text: str) -> None:
    folder(tmp_path)
    for name, read in (("result.json", read_record), ("config.json", read_run_settings)):
        (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
        with pytest.raises(RunError, match=name):
            read(tmp_path)


def test_a_config_whose_parts_are_of_another_kind(tmp_path: Path) -> None:
    folder(tmp_path, config='{"settings": {}, "host": [1], "versions": {}}')
    with pytest.raises(RunError, match=r"config.json: host and versions are not what"):
        read_finished(tmp_path)
    for own in ("[]", '{"model": []}'):
        folder(tmp_path, config=f'{{"settings": {{"own": {own}}}}}'.replace("[]", "[1]"))
        with pytest.raises(UsageError, match="'own' is not what a run writes there"):
            read_run_settings(tmp_path)


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({"task": "guessing"}, "'task' is not a task"),
        ({"targets": {"mean": [1.0]}}, "targets: lacks 'deviation'"),
        (
            {"classes": ["a"], "targets": {"mean": [1.0, 2.0], "deviation": [1.0]}},
            "a mean and a deviation each are needed",
        ),
        ({"targets": {"mean": ["x"], "deviation": [1.0]}}, "'mean' is not a list of numbers"),
    ],
)
def test_damaged_targets(values: dict[str, Any], cause: str) -> None:
    with pytest.raises(RunError, match=cause):
        check_result(values, where=Path("run/result.json"))
