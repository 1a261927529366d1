"""`phalanx.load`: a run's model answers in Python as `phalanx predict` does."""

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from torch import nn

import phalanx
from phalanx.cli.app import app
from phalanx.errors import DataError, PhalanxError, RunError, UsageError

NET = """
from pathlib import Path
from torch import nn

def make(width: int = 4):
    Path("code-has-run").touch()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.Linear(width, 10))
"""
ROWS: list[dict[str, Any]] = [
    {"kind": "cold", "number": 0.25, "remark": "x"},
    {"kind": "warm", "number": 7, "remark": None},
    {"kind": "warm", "number": np.float32(0.1), "remark": "y"},
]


def command(*arguments: object) -> None:
    assert not app([*map(str, arguments)], standalone_mode=False)


def predicted(run: Path, samples: Path) -> Mapping[str, Any]:
    """What the command answers."""
    output = samples.with_name("answers.npz")
    command("predict", run, "--input", samples, "--output", output)
    with np.load(output, allow_pickle=False) as found:
        return dict(found)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("loading")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


@pytest.fixture(scope="module")
def digits(here: Path) -> Path:
    command("train", "--model", "simplecnn", "--normalise", "--epochs", 1, "--output", "digits")
    return here / "digits"


@pytest.fixture(scope="module")
def table(here: Path) -> Path:
    lines = [f"{kind},{n / 7},{kind == 'warm'}" for n in range(20) for kind in ("warm", "cold")]
    (here / "training.csv").write_text("\n".join(["kind,number,answer", *lines]) + "\n")
    data = ("--dataset", "csv", "--data-dir", "training.csv", "--normalise")
    command("train", *data, "--epochs", 1, "--output", "table")
    return here / "table"


@pytest.fixture(scope="module")
def images(here: Path) -> Path:
    for name, colour in (("blue", (10, 20, 220)), ("red", (220, 20, 10))):
        for index in range(4):
            path = here / "training" / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (9 + index, 9), colour).save(path)
    data = ("--dataset", "images", "--data-dir", "training", "--resize", "8x8", "--skip-bad")
    command("train", *data, "--epochs", 1, "--output", "images")
    return here / "images"


def test_arrays_are_answered_to_the_last_bit(digits: Path, tmp_path: Path) -> None:
    stored = np.random.default_rng(1).integers(0, 17, (300, 1, 8, 8)).astype(np.float32)
    np.save(tmp_path / "new.npy", stored)
    expected = predicted(digits, tmp_path / "new.npy")
    before, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        trained = phalanx.load(digits)
        given = torch.from_numpy(stored)
        outputs = trained(given)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.get_rng_state(), state)
    np.testing.assert_array_equal(outputs.numpy(), expected["outputs"])
    np.testing.assert_array_equal(given.numpy(), stored)  # which are the user's own
    probabilities = trained.probabilities(stored)
    np.testing.assert_array_equal(probabilities.numpy(), expected["probabilities"])
    assert trained.predict(str(tmp_path / "new.npy")) == expected["answer"].tolist()
    assert trained.classes == tuple("0123456789")
    assert not trained.model.training
    assert not outputs.requires_grad
    for other in (stored.astype(np.uint8), stored.tolist(), [*given], stored[:, 0], given.double()):
        assert torch.equal(trained(other), outputs)
    grey = [Image.fromarray(one[0].astype(np.uint8)) for one in stored[:3]]
    assert trained.predict(grey) == expected["answer"].tolist()[:3]
    for one in (given[0], stored[0, 0], grey[0]):
        torch.testing.assert_close(trained(one), outputs[:1])


@pytest.mark.parametrize(
    ("samples", "cause"),
    [
        (np.zeros((2, 3)), r"samples: has shape \(2, 3\), the model takes \(n, 1, 8, 8\)"),
        (np.full((1, 1, 8, 8), np.nan), r"samples: value nan at \[0, 0, 0, 0\]"),
        (torch.full((1, 1, 8, 8), torch.inf), "samples: value inf"),
        (torch.zeros(1, 1, 8, 8, dtype=torch.complex64), "samples: holds complex64"),
        ([[1.0], [2.0, 3.0]], "samples: no array can be made of them"),
        ([], r"samples: has shape \(0\), the model takes"),
        (5, "samples: one number"),
        ({"a": [1, 2], "b": [1]}, "column 'b' has 1 rows, others 2"),
        ({"a": [1, 2], "b": 1}, "column 'b' holds one value, others have several"),
        ({"a": [], "b": []}, "no rows in them"),
        ("absent.npy", "samples absent.npy does not exist"),
        (["config.json"], "samples config.json does not exist"),
    ],
)
def test_what_are_no_samples(digits: Path, samples: Any, cause: str) -> None:
    with pytest.raises((DataError, UsageError), match=cause):
        phalanx.load(digits)(samples)


class Frame:
    """As little of a data frame as is needed."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._values = columns
        self.columns = list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self._values[name]


def test_rows_of_a_table(table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"{row['kind']},{float(row['number'])!r}" for row in ROWS]
    (tmp_path / "new.csv").write_text("\n".join(["kind,number", *lines]) + "\n")
    expected = predicted(table, tmp_path / "new.csv")
    trained = phalanx.load(table)
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    plain = {"kind": columns["kind"], "number": [float(one) for one in columns["number"]]}
    several = (ROWS, columns, Frame(columns), pa.table(plain), tmp_path / "new.csv")
    for samples in several:
        np.testing.assert_array_equal(trained(samples).numpy(), expected["outputs"])
    assert trained.predict(ROWS) == expected["answer"].tolist()
    assert trained.predict(ROWS[1]) == expected["answer"].tolist()[1:2]
    assert set(trained.classes) == {"True", "False"}
    assert not caplog.records
    trained({"kind": "mild", "number": 1})
    assert "values that the training's rows do not have" in caplog.text
    for row, cause in (
        ({"kind": "warm"}, "samples: lacks columns of the training's table: number"),
        ({"kind": "warm", "number": None}, "line 1, column 'number': the value is missing"),
        ({"kind": "warm", "number": float("nan")}, "line 1, column 'number': the value is missing"),
        ({"kind": "warm", "number": "much"}, "line 1, column 'number': 'much' is not a number"),
    ):
        with pytest.raises(DataError, match=cause):
            trained(row)


def test_images_and_their_files(images: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    for index in range(3):
        colour = (200, 30, 30) if index % 2 else (30, 30, 200)
        Image.new("RGB", (20, 10 + index), colour).save(tmp_path / "new" / f"{index}.png")
    expected = predicted(images, tmp_path / "new")
    trained = phalanx.load(images)
    files = sorted((tmp_path / "new").iterdir())
    opened = [Image.open(file) for file in files]
    for samples in (tmp_path / "new", files, [*map(str, files)], opened):
        np.testing.assert_array_equal(trained(samples).numpy(), expected["outputs"])
    assert trained.predict(opened[0]) == expected["answer"].tolist()[:1]
    files[1].write_bytes(b"no image")
    for samples in (tmp_path / "new", files):
        with pytest.raises(DataError, match=r"1\.png: not an image that can be read"):
            trained(samples)


def test_files_of_images_are_for_models_of_images(digits: Path, images: Path) -> None:
    files = [images.parent / "training" / "red" / "0.png"]
    with pytest.raises(UsageError, match="for models trained on data set images"):
        phalanx.load(digits)(files)


def test_one_process_without_mpi(digits: Path) -> None:
    code = (
        "import sys, torch, phalanx\n"
        "trained = phalanx.load(sys.argv[1])\n"
        "print(len(trained.predict(torch.full((2, 1, 8, 8), 9))))\n"
        "assert not [one for one in sys.modules if one.startswith('mpi4py')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, digits], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


def test_a_training_that_goes_on(
    table: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Path(shutil.copytree(table, tmp_path / "run"))
    expected = phalanx.load(run)(ROWS)
    for name in ("result.json", "model.safetensors"):
        (run / name).unlink()
    assert torch.equal(phalanx.load(run)(ROWS), expected)
    assert [one.getMessage() for one in caplog.records] == [
        f"{run}: this training has not come to its end: its newest checkpoint is used"
    ]
    (tmp_path / "new.csv").write_text("number,kind\n7,warm\n")
    (outputs,) = predicted(run, tmp_path / "new.csv")["outputs"]  # of one row, and not of several
    assert outputs.tolist() == pytest.approx(expected[1].tolist(), rel=1e-5)
    config = json.loads((run / "config.json").read_text())
    damaged = config | {"samples": config["samples"] | {"classes": 3}}
    (run / "config.json").write_text(json.dumps(damaged))
    with pytest.raises(RunError, match=r"config\.json: 'classes' is not a list of texts"):
        phalanx.load(run)
    del config["samples"]  # as in those of older versions
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunError, match="does not say what samples the model takes: train it again"):
        phalanx.load(run)


def test_code_is_run_only_if_it_is_named_or_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    command("train", "--model", "net.py:make", "--width", 3, "--epochs", 1, "--output", "run")
    trace = tmp_path / "code-has-run"
    trace.unlink()
    with pytest.raises(UsageError, match=r"with model='net\.py:make', or say trust_code=True"):
        phalanx.load("run")
    own = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Linear(3, 10))
    outputs = phalanx.load("run", model=own)(torch.ones(2, 1, 8, 8))
    assert not trace.exists()
    with pytest.raises(PhalanxError, match="the weights are of another model"):
        phalanx.load("run", model=nn.Linear(64, 10))
    for how in ({"trust_code": True}, {"model": "net.py:make"}):
        assert torch.equal(phalanx.load("run", **how)(torch.ones(2, 1, 8, 8)), outputs)
        assert trace.exists()
        trace.unlink()


def test_a_model_of_ours_has_nothing_to_name(digits: Path) -> None:
    with pytest.raises(UsageError, match="leave out model, or the run"):
        phalanx.load(digits, model="net.py:make")


def test_values_that_are_scaled_already_get_a_warning(
    images: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        phalanx.load(images)(np.full((1, 3, 8, 8), 0.5))
    assert "which it scales by itself" in caplog.text
