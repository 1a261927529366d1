"""`phalanx datasets`, `models` and `strategies`: what there is to choose from."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.data import describe
from phalanx.errors import UsageError
from phalanx.models import model_names
from phalanx.strategies.registry import STRATEGIES
from phalanx.wording import flag


def shown(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def words(text: str) -> str:
    return " ".join(text.split())


def test_data_sets_and_models() -> None:
    listed = shown("datasets")
    assert all(entry.name in listed for entry in describe())
    listed = shown("models")
    assert all(name in listed for name in model_names())
    assert "FILE.py:FUNCTION" in listed
    assert "--output-activation" in listed
    assert "--init" in listed


def test_a_model_by_name_tells_its_defaults() -> None:
    told = shown("models", "mlp")
    assert "--hidden: sizes of the hidden layers" in told
    assert "│ digits        │ adam      │ 0.001         │ 30     │ 64         │ mean 0" in told
    assert "│ digits        │ adam      │ 0.001         │ 10     │" in shown("models", "resnet20")
    with pytest.raises(UsageError, match="unknown model 'mpl': did you mean 'mlp'"):
        shown("models", "mpl")


def test_strategies_in_short() -> None:
    listed = words(shown("strategies"))
    for entry in STRATEGIES.values():
        assert f"{entry.name}: {entry.summary} moves {entry.moves}" in listed
        assert entry.when in listed
    assert "a step over" not in listed
    assert "your own is --strategy FILE.py:CLASS" in words(listed)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_in_full(name: str) -> None:
    entry = STRATEGIES[name]
    told = words(shown("strategies", name))
    for text in (entry.summary, entry.moves, entry.when, entry.also_called):
        assert text in told
    assert "bytes a step" in told
    for option in entry.options:
        assert f"{flag(option.name)}: {option.text}" in told
    assert all(
        f"{other}: {STRATEGIES[other].summary}" not in told for other in STRATEGIES if other != name
    )


def test_bytes_for_a_model() -> None:
    told = words(shown("strategies", "--model", "mlp", "--dataset", "iris", "--ranks", "3"))
    # 4×128 and 128×3 weights, 128 and 3 biases, rounded up to 64, and four marks; four bytes each.
    assert f"{3 * 4 * (512 + 128 + 384 + 64 + 4):,} bytes) a step over 3 ranks" in told
    assert "nothing a step over 3 ranks" in told
    assert "≈" in told
    alone = words(shown("strategies", "server", "--ranks", "1"))
    assert "needs 2 ranks" in alone


def test_a_users_own_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(64, 10)\n"
        "    def forward(self, inputs):\n"
        "        return self.layer(inputs.flatten(1))\n"
    )
    told = words(shown("strategies", "--model", "net.py:Net", "--ranks", "2"))
    assert f"{2 * 4 * (640 + 64 + 2):,} bytes" in told
    assert "it refuses this model: strategy 'pipeline'" in told


@pytest.mark.parametrize("width", [80, 120])
def test_strategies_fit_a_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    monkeypatch.setattr("phalanx.cli.strategies.wide_console", lambda: Console(width=width))
    for arguments in ((), ("--ranks", "4"), ("allreduce",), ("pipeline", "--ranks", "4")):
        lines = shown("strategies", *arguments).splitlines()
        assert max(map(len, lines)) <= width
        assert not any(line.endswith(" ") for line in lines)


def test_unknown_names() -> None:
    from phalanx.errors import UsageError

    for arguments in (("strategies", "alreduce"), ("strategies", "--dataset", "minst")):
        with pytest.raises(UsageError, match="did you mean"):
            shown(*arguments)
    with pytest.raises(UsageError, match="at least 1"):
        shown("strategies", "--ranks", "0")
