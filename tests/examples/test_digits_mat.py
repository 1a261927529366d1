"""The 400-25-10 network: against a plain NumPy version, evaluated, and as its example runs."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import torch
from safetensors.torch import load_file
from torch import nn

from examples.commands import Training, show
from examples.digits_mat.data import write_digits
from examples.digits_mat.run import COMPUTED, GATHERED, conclude, iterations, show_iterations
from phalanx import models
from phalanx.runs.weights import load_weights
from phalanx.train.losses import make_loss
from tests.commands import Phalanx, environment
from tests.data.conftest import IdxFolder
from tests.examples.conftest import PROJECT, Example
from tests.zygote import Zygote

Array = np.ndarray[Any, np.dtype[np.float64]]
NETWORK = (
    *("--model", "mlp", "--hidden", 25, "--activation", "sigmoid"),
    *("--loss", "binary-cross-entropy"),
)


def sigmoid(values: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-values))
    return result


def with_ones(rows: Array) -> Array:
    return np.column_stack([np.ones(len(rows)), rows])


def outputs(thetas: list[Array], inputs: Array) -> Array:
    hidden = sigmoid(with_ones(inputs) @ thetas[0].T)
    return sigmoid(with_ones(hidden) @ thetas[1].T)


def cost(thetas: list[Array], inputs: Array, wanted: Array) -> float:
    found = outputs(thetas, inputs)
    losses = -wanted * np.log(found) - (1 - wanted) * np.log(1 - found)
    return float(losses.sum() / len(inputs))


def gradients(thetas: list[Array], inputs: Array, wanted: Array) -> list[Array]:
    """By backpropagation, as it is taught."""
    first = with_ones(inputs)
    hidden = sigmoid(first @ thetas[0].T)
    second = with_ones(hidden)
    at_outputs = sigmoid(second @ thetas[1].T) - wanted
    at_hidden = at_outputs @ thetas[1][:, 1:] * hidden * (1 - hidden)
    return [at_hidden.T @ first / len(inputs), at_outputs.T @ second / len(inputs)]


@pytest.fixture
def thetas() -> list[Array]:
    random = np.random.default_rng(1)
    return [random.uniform(-0.5, 0.5, (25, 401)), random.uniform(-0.5, 0.5, (10, 26))]


@pytest.fixture
def files(tmp_path: Path, thetas: list[Array]) -> tuple[Path, Path]:
    digits, weights = tmp_path / "digits.mat", tmp_path / "weights.mat"
    write_digits(digits, count=100)
    scipy.io.savemat(weights, {"Theta1": thetas[0], "Theta2": thetas[1]})
    return digits, weights


def read_digits(path: Path) -> tuple[Array, Array]:
    """Inputs, and rows of 0 and 1 whose last column is digit 0."""
    content = scipy.io.loadmat(path)
    return content["X"], np.eye(10)[content["y"][:, 0] - 1]


def test_cost_and_gradients_are_those_of_numpy(
    files: tuple[Path, Path], thetas: list[Array]
) -> None:
    digits, weights = files
    inputs, wanted = read_digits(digits)
    options = {"hidden": (25,), "activation": "sigmoid"}
    model = models.build("mlp", input_shape=(400,), classes=10, options=options).double()
    load_weights(model, weights)
    loss = make_loss("binary-cross-entropy").function
    found = loss(model(torch.from_numpy(inputs)), torch.from_numpy(wanted.argmax(axis=1)))
    found.backward()  # type: ignore[no-untyped-call]
    assert found.item() == pytest.approx(cost(thetas, inputs, wanted), rel=1e-12)
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    for layer, expected in zip(layers, gradients(thetas, inputs, wanted), strict=True):
        assert layer.bias.grad is not None
        assert layer.weight.grad is not None
        joined = torch.column_stack([layer.bias.grad, layer.weight.grad])
        torch.testing.assert_close(joined, torch.from_numpy(expected), rtol=1e-9, atol=1e-12)


def test_the_published_weights(phalanx: Phalanx, real_data: Path) -> None:
    folder = real_data / "digits-mat"
    if not folder.is_dir():
        pytest.skip("no digits-mat among the real data")
    done = phalanx(
        *("evaluate", "--dataset", "mat", "--data-dir", folder / "ex4data1.mat", *NETWORK),
        *("--weights", folder / "ex4weights.mat"),
    )
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first == "mat: 5,000 test samples  loss 0.287629  accuracy 97.52%"


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        ((), "evaluate what?"),
        (("--weights", "absent.mat"), "--weights absent.mat: no such file"),
        (("somewhere", "--model", "mlp", "--hidden", "8"), "leave out --hidden, or the run"),
    ],
)
def test_evaluate_refuses(phalanx: Phalanx, arguments: tuple[str, ...], cause: str) -> None:
    done = phalanx("evaluate", *arguments)
    assert done.returncode == 2
    assert cause in " ".join(done.stderr.split())


@pytest.mark.long
def test_the_example_starts_from_weights(
    example: Example, files: tuple[Path, Path], thetas: list[Array], tmp_path: Path
) -> None:
    digits, weights = files
    inputs, wanted = read_digits(digits)
    folder = tmp_path / "example"
    shown = example(
        *("digits_mat.run", "--data", digits, "--weights", weights),
        *("--iterations", 3, "--strategies", "single", "gather", "--output", folder),
    )
    # All samples are evaluated, because none are held out; and the weights are as they were given.
    evaluated = re.search(r"mat: 100 test samples  loss (\S+)  accuracy (\S+)%", shown)
    assert evaluated is not None
    right = (outputs(thetas, inputs).argmax(axis=1) == wanted.argmax(axis=1)).mean()
    found = cost(thetas, inputs, wanted), 100 * right
    assert (float(evaluated[1]), float(evaluated[2])) == pytest.approx(found, rel=1e-6)
    costs = []
    for _ in range(3):
        costs.append(cost(thetas, inputs, wanted))
        for theta, gradient in zip(thetas, gradients(thetas, inputs, wanted), strict=True):
            theta -= 0.1 * gradient
    for strategy in ("single", "gather"):
        lines = (folder / strategy / "history.csv").read_text().splitlines()[1:]
        assert [float(line.split(",")[1]) for line in lines] == pytest.approx(costs, rel=1e-12)
        assert all(f", cost: {line.split(',')[1]}, time: " in shown for line in lines)
        result = json.loads((folder / strategy / "result.json").read_text())
        assert {"forward", "backward", "update"} <= set(result["phases"]["seconds"])
    assert len(re.findall(r"^\tGather theta2 uses \S+ secs\.$", shown, re.MULTILINE)) == 3


@pytest.mark.parametrize("width", ["20", "200"])
def test_costs_are_shown_whole_whatever_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    phases = [f"phase {number} ms" for number in range(12)]
    show("gather", ("iteration", "cost", *phases), [("60", "3.214129", *["12.34"] * 12)])
    shown = capsys.readouterr().out
    assert "3.214129" in shown
    assert all(phase in shown for phase in phases)
    assert "…" not in shown


def test_the_same_network_on_pooled_images(
    example: Example, idx_folder: IdxFolder, tmp_path: Path
) -> None:
    shown = example(
        *("digits_mat.run", "--fashion", idx_folder(), "--iterations", 2),
        *("--strategies", "single", "gather", "--output", tmp_path / "example"),
    )
    assert "--dataset fashion-mnist" in shown
    first, second = shown.split("CPU mode\n")[1:]
    assert words_of(first, parallelism="no") == list(COMPUTED.values()) * 2
    assert words_of(second, parallelism="yes") == list(GATHERED.values()) * 2
    assert max(map(len, second.partition("Phases of a run")[2].splitlines())) <= 80
    model = load_file(tmp_path / "example" / "single" / "model.safetensors")
    assert {one.dtype for one in model.values()} == {torch.float64}
    assert (25, 400) in {tuple(one.shape) for one in model.values()}
    for name, lines in (("single", first), ("gather", second)):
        rows = (tmp_path / "example" / name / "history.csv").read_text().splitlines()[1:]
        costs = [row.split(",")[1] for row in rows]
        assert (
            re.findall(r"^Iteration \d \(.+\), cost: (\S+), time: ", lines, re.MULTILINE) == costs
        )


def words_of(lines: str, *, parallelism: str) -> list[str]:
    """Those of the phases, without their seconds; what is around them is checked on the way."""
    heading, *rest = lines.partition("\n\n")[0].splitlines()
    assert heading == f"Parallelism: {parallelism}"
    assert re.fullmatch(r"precision: [\d.]+", rest[-1])
    return [re.sub(r"[\d.e-]+(?= secs)", "{}", one[1:]) for one in rest if one.startswith("\t")]


def test_lines_of_an_iteration_are_those_of_the_report() -> None:
    columns = [f"{phase.replace(' ', '_')}_seconds" for phase in GATHERED]
    seconds = {column: [(number + 1) / 8] for number, column in enumerate(columns)}
    history = {"loss": [6.545538332227445], "seconds": [1.1277730464935303], **seconds}
    assert list(iterations(history, GATHERED)) == [
        "\tBcast theta1 and theta2 uses 0.125 secs.",
        "\tScatter inputs uses 0.25 secs.",
        "\tScatter labels uses 0.375 secs.",
        "\tconstruction: hidden layer dot costs 0.5 secs",
        "\tconstruction: output layer dot costs 0.625 secs",
        "\tforward prop: costs 0.75 secs",
        "\tback prop: costs 0.875 secs",
        "\tGather theta1 uses 1.0 secs.",
        "\tGather theta2 uses 1.125 secs.",
        "Iteration 1 (learning rate 0.1, iteration 1), cost: 6.545538332227445, "
        "time: 1.1277730464935303",
    ]


def test_speed_up_is_of_the_time_of_all_iterations(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    conclude({"single": on_a_gpu([2.0, 1.0], ranks=1), "gather": on_a_gpu([1.0, 0.5], ranks=2)})
    shown = capsys.readouterr().out
    lines = [line for line in shown.splitlines() if line.startswith("│")]
    single, gather = (line.replace("│", "").split() for line in lines)
    assert single == ["single", "1", "6.203170746377222", "0.2996", "3.000", "s", "1.00"]
    assert gather == ["gather", "2", "6.203170746377222", "0.2996", "1.500", "s", "2.00"]


def test_a_run_on_a_gpu_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_iterations(on_a_gpu([2.0, 1.0], ranks=1))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["GPU mode", "Parallelism: no"]
    assert lines[-2:] == ["precision: 0.2996", ""]


def on_a_gpu(seconds: list[float], *, ranks: int) -> Training:
    """What is left of a training on a GPU, which nobody here has."""
    columns = [f"{phase.replace(' ', '_')}_seconds" for phase in COMPUTED]
    history = {"loss": [7.4984315165802355, 6.203170746377222], "seconds": seconds}
    result = {"device": "cuda", "ranks": ranks, "strategy": "single", "test": {"accuracy": 0.2996}}
    return Training(history | dict.fromkeys(columns, seconds), result, {})


def test_the_example_without_a_gpu_says_so(zygote: Zygote, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    write_digits(tmp_path / "digits.mat", count=10)
    files = ("--data", tmp_path / "digits.mat", "--output", tmp_path / "example")
    words = ["--device", "cuda", *map(str, files)]
    done = zygote.run("examples.digits_mat.run", words, cwd=PROJECT, env=environment())
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert "sees no GPU" in sentence
    assert "take --device cpu" in sentence
