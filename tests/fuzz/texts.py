"""Readers of text and of weights: tables, settings, .env files, results and safetensors."""

import codecs
import gzip
import io
import json
import re
import struct
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import nn

from phalanx.compat.three_layers import read_three_layers
from phalanx.data.tables.table import read_table
from phalanx.inference.data import pattern
from phalanx.observe.rows import plain, read_finished
from phalanx.runs.folder import read_run_settings
from phalanx.runs.inputs import in_words
from phalanx.runs.record import read_record
from phalanx.runs.weights import load_weights
from phalanx.settings.files import read_settings
from phalanx.settings.rules import check_settings
from tests.fuzz.arrays import whole
from tests.fuzz.mutations import Seed
from tests.fuzz.values import change_cell, change_json, change_value

TABLE = "length,width,colour,kind\n" + "".join(
    f"{row * 0.5},{row - 3},{('red', 'green')[row % 2]},{('a', 'b', 'c')[row % 3]}\n"
    for row in range(12)
)


class Csv:
    """Tables, plain and packed."""

    def seeds(self) -> list[Seed]:
        table = TABLE.encode()
        quoted = re.sub(rb"(red|green)", rb'"the ""\1"" one"', table)
        spaced = table.replace(b",", b" ")
        return [
            Seed(table, file="some.csv", own=(change_cell,)),
            Seed(quoted, file="some.csv", own=(change_cell,)),
            Seed(table.replace(b",", b";"), file="some.csv"),
            Seed(table.replace(b",", b"\t"), file="some.tsv"),
            Seed(spaced, file="some.data"),
            Seed(table, gzip.compress, file="some.csv.gz"),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        table = read_table(changed)
        content = changed.read_bytes()
        text = _text(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
        lines = list(io.StringIO(text, newline=""))
        if '"' not in text:
            for row, line in enumerate(table.lines):
                cells = [column.values[row] for column in table.columns]
                assert cells in _ways(lines[line - 1])
        for column in table.columns:
            if column.numbers is not None:
                assert column.numbers == [float(value) for value in column.values]
        dataset = whole("csv", changed)
        assert len(dataset.train) + len(dataset.test) == len(table.lines)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _text(content: bytes) -> str:
    """Text in the encoding that its first bytes may name."""
    marks = {
        codecs.BOM_UTF32: "utf-32",
        codecs.BOM_UTF16_LE: "utf-16",
        codecs.BOM_UTF16_BE: "utf-16",
    }
    found = [encoding for mark, encoding in marks.items() if content.startswith(mark)]
    return content.decode(found[0] if found else "utf-8-sig")


def _ways(line: str) -> list[list[str]]:
    parts = [[cell.strip() for cell in line.split(mark)] for mark in ",;\t|"]
    spaces = re.split("[ \t]+", line.strip(" \t\r\n"))
    return [*parts, [cell.strip() for cell in spaces]]


CONFIG = {
    "dataset": "iris",
    "model": "mlp",
    "hidden": [8, 4],
    "epochs": 3,
    "learning-rate": 0.05,
    "batch-size": 16,
    "optimizer": "adam",
    "seed": 1,
    "normalise": True,
}


class Config:
    """A user's settings, in TOML and in JSON."""

    def seeds(self) -> list[Seed]:
        toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in CONFIG.items())
        known = {key.replace("-", "_"): value for key, value in CONFIG.items()}
        return [
            Seed(toml.encode(), file="some.toml", own=(change_value,)),
            Seed(json.dumps({"settings": known}).encode(), file="some.json", own=(change_json,)),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        settings = read_settings({}, changed)
        check_settings(settings, settings.ranks or 1)
        text = changed.read_text(encoding="utf-8-sig")
        is_json = changed.suffix == ".json"
        values = json.loads(text)["settings"] if is_json else tomllib.loads(text)
        for key, value in values.items():
            if key not in ("own", "output"):
                found = getattr(settings, key.replace("-", "_"))
                assert _as_text(found) == _as_text(value) or found == _number(value)


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return tuple(int(one) for one in str(value).split(",")) if "," in str(value) else None


ENV = """# the network
inputdataDims=4
inputLayerNeurons=8
hiddenLayerNeurons=8
outputLayerNeurons=3
labelOnehotDims=3
numEpochs=50
export learningRate="0.1" # a rate
batchSize=10
parallelism=4
"""


class Env:
    """Another program's settings."""

    def seeds(self) -> list[Seed]:
        return [Seed(ENV.encode(), file=".irisenv", own=(change_value,))]

    def read(self, folder: Path, changed: Path) -> None:
        found = read_three_layers(changed, {}, launched=None)
        settings = read_settings({} if found is None else found, changed if found is None else None)
        check_settings(settings, settings.ranks or 1)
        if found is None:  # as of a file that is all comments
            return
        text = changed.read_text(encoding="utf-8-sig")
        for key, value in (
            ("numEpochs", found["epochs"]),
            ("learningRate", found["learning_rate"]),
        ):
            written = re.search(rf"""{key}\s*=\s*["']?\s*([^"'#\s]+)""", text)
            assert written is not None
            assert float(written[1]) == value


RESULT: dict[str, Any] = {
    "strategy": "single",
    "device": "cpu",
    "ranks": 1,
    "training_ranks": 1,
    "threads": 1,
    "input_shape": [3],
    "classes": ["a", "b"],
    "inputs": {
        "shape": [3],
        "scale": 1.0,
        "mean": [0.0, 0.5, 0.5],
        "deviation": [1.0, 2.0, 2.0],
        "precision": "float32",
        "table": {
            "has_header": True,
            "width": 3,
            "columns": [
                {"name": "length", "place": 0, "kind": "numbers"},
                {"name": "colour", "place": 1, "kind": "categories", "categories": ["r", "g"]},
            ],
            "target": {"name": "kind", "place": 2},
        },
    },
    "data": "some.csv",
    "seconds": 1.5,
    "samples_per_second": 100.0,
    "test": {"accuracy": 0.5, "loss": 1.0, "count": 2},
}


class Result:
    """A run's folder: result.json and config.json."""

    def seeds(self) -> list[Seed]:
        config = {
            "settings": {"model": "mlp", "hidden": [4]},
            "host": {"name": "h"},
            "versions": {},
        }
        return [
            Seed(json.dumps(RESULT, indent=1).encode(), file="result.json", own=(change_json,)),
            Seed(json.dumps(config, indent=1).encode(), file="config.json", own=(change_json,)),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        for seed in self.seeds():
            if seed.file != changed.name:
                (folder / seed.file).write_bytes(seed.content)
        recorded = read_record(folder)
        assert plain([read_finished(folder).row])
        if recorded.inputs is not None:
            assert in_words(recorded.inputs)
            split = pattern(recorded)
            assert (
                list(split.stored_shape)
                == json.loads((folder / "result.json").read_text("utf-8-sig"))["inputs"]["shape"]
            )
        settings = read_run_settings(folder)
        check_settings(settings, settings.ranks or 1, needs_data=False)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))


class Safetensors:
    """Weights."""

    def seeds(self) -> list[Seed]:
        content = safetensors.torch.save(network().state_dict())
        length = struct.unpack("<Q", content[:8])[0]
        header, numbers = content[8 : 8 + length], content[8 + length :]

        def measured(changed: bytes) -> bytes:
            return struct.pack("<Q", len(changed)) + changed + numbers

        return [
            Seed(content, file="w.safetensors"),
            Seed(header, measured, file="w.safetensors", own=(change_json,)),
        ]

    def read(self, folder: Path, changed: Path) -> None:
        model = network()
        load_weights(model, changed)
        content = changed.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        for name, told in json.loads(content[8 : 8 + length]).items():
            if name == "__metadata__":
                continue
            start, end = (8 + length + place for place in told["data_offsets"])
            own = model.state_dict()[name].numpy()
            kind = {"F32": "<f4", "I64": "<i8", "F64": "<f8", "I32": "<i4", "F16": "<f2"}[
                told["dtype"]
            ]
            values = np.frombuffer(content[start:end], kind).reshape(own.shape)
            assert np.array_equal(own, values.astype(own.dtype), equal_nan=True)
