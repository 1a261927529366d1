"""Strategies by name: those built in, and a user's own."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch
from torch import nn

import phalanx
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.settings.files import read_settings
from phalanx.strategies.base import Strategy
from phalanx.strategies.registry import (
    OPTIONS,
    STRATEGIES,
    check,
    default_strategy,
    make,
    name_of,
    resolve,
)
from phalanx.wording import flag

OWN = """
from dataclasses import dataclass
from phalanx import Strategy
from phalanx.strategies.single import Single

@dataclass(frozen=True)
class Mine(Strategy):
    depth: int = 3
    def bind(self, comm, task):
        return Single().bind(comm, task)

@dataclass(frozen=True, kw_only=True)
class Demanding(Mine):
    width: int

class Unfinished(Strategy):
    pass

class Stranger:
    pass

def function():
    return Mine()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with a strategy in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "ownership.py").write_text(OWN)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("phalanx_user_", "ownership")):
            del sys.modules[name]


@pytest.mark.parametrize("name", STRATEGIES)
def test_built_in_strategies_have_the_options_of_their_entries(name: str) -> None:
    entry = STRATEGIES[name]
    module, _, attribute = entry.target.partition(":")
    strategy = getattr(import_module(module), attribute)
    assert issubclass(strategy, Strategy)
    fields = strategy.__dataclass_fields__
    for option in entry.options:
        assert fields[option.name].default == option.default
    assert make(name) == strategy()
    defaults = {option.name: option.default for option in entry.options}
    check(name, max(1, entry.least_ranks), options=defaults)


def test_ranks_that_a_strategy_does_not_take() -> None:
    with pytest.raises(UsageError, match="'single' trains on at most 1 rank, not on 2"):
        check("single", 2)
    with pytest.raises(UsageError, match=r"'server' needs 2 ranks or more, not 1: .*--ranks 2"):
        check("server", 1, spell=flag)
    with pytest.raises(UsageError, match=r"not 1: start them with mpirun -n 2, or take"):
        check("server", 1)


def test_the_default_fits_ranks_and_options() -> None:
    assert default_strategy(1) == "single"
    assert default_strategy(2) == "central"
    for option in OPTIONS:
        value = option.choices[0] if option.choices else None
        assert STRATEGIES[default_strategy(2, {option.name: value})].takes(option.name, value)


def test_what_only_says_how_to_exchange_leaves_the_strategy_as_it_is() -> None:
    auto = {"exchange": "auto"}
    assert default_strategy(2, auto) == default_strategy(2, auto | {"lossy": True}) == "central"
    assert default_strategy(2, auto, central=False) == "allreduce"
    assert default_strategy(2, auto | {"compress": "bf16"}) == "allreduce"
    assert default_strategy(3, {"exchange": "changes"}) == "server"


def test_an_option_of_two_kinds_has_one_flag() -> None:
    (one,) = (option for option in OPTIONS if option.name == "exchange")
    assert one.choices == ("auto", "gradients", "changes")
    with pytest.raises(UsageError, match="exchange must be one of auto, not 'changes'"):
        check("central", 2, options={"exchange": "changes"})
    with pytest.raises(UsageError, match="exchange must be one of gradients, changes, not 'auto'"):
        check("server", 2, options={"exchange": "auto"})


def test_unknown_names_and_options() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'allreduce'\?.*your own is named as path/"):
        check("allreduse", 2)
    with pytest.raises(UsageError, match=r"^every is no option of strategy 'central'.*: local$"):
        check("central", 2, options={"every": 4})
    with pytest.raises(UsageError, match=r"^--every is no option of strategy 'central'"):
        check("central", 2, options={"every": 4}, spell=flag)
    with pytest.raises(UsageError, match=r"^neighbours is no option of strategy 'central', nor of"):
        check("central", 2, options={"neighbours": 4})


@pytest.mark.parametrize("name", ["own.py:Mine", "ownership:Mine"])
def test_a_users_own(here: Path, name: str) -> None:
    check(name, 5)
    mine = make(name, {})
    assert type(mine).__name__ == "Mine"
    assert mine == make(name)
    model = nn.Linear(2, 2)
    sgd = torch.optim.SGD(model.parameters())
    assert phalanx.Trainer(model, sgd, strategy=name, comm=SingleCommunicator()).model is model


def test_a_users_own_takes_no_options_of_others(here: Path) -> None:
    cause = r"^overlap is no option of strategy 'own.py:Mine'; strategies that take it: allreduce"
    with pytest.raises(UsageError, match=cause):
        check("own.py:Mine", 2, options={"overlap": True})
    with pytest.raises(UsageError, match=cause):
        make("own.py:Mine", {"overlap": True})


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("absent.py:Mine", "there is no file .*/absent.py"),
        ("absent:Mine", "no module 'absent'"),
        ("own.py:Mine()", "not of the form path/to/file.py:Class or package.module:Class"),
        ("own.py:Yours", "Yours is not there in .*/own.py"),
        ("own.py:Stranger", "derives from phalanx.Strategy, and it is the class Stranger"),
        ("own.py:function", "derives from phalanx.Strategy, and it is of type function"),
        ("own.py:Unfinished", "Unfinished in .*/own.py lacks bind"),
        ("own.py:Demanding", "its field 'width' needs a default"),
    ],
)
def test_what_is_no_strategy_is_refused(here: Path, name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=f"^strategy .*{cause}"):
        make(name)


def test_names_are_checked_without_torch(here: Path) -> None:
    code = (
        "import sys; from phalanx.strategies.registry import check; "
        "check('own.py:Mine', 2); check('ownership:Mine', 2); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("mirrored", "allreduce"),
        ("collective", "allreduce"),
        ("ddp", "allreduce"),
        ("DDP", "allreduce"),
        ("Horovod", "allreduce"),
        ("non-collective", "server"),
        ("parameter-server", "server"),
        ("parameter_server", "server"),
        ("send/receive", "server"),
        ("central storage", "central"),
        ("zero-1", "central"),
        ("sequential", "single"),
        ("local-sgd", "local"),
        ("gpipe", "pipeline"),
        ("central", "central"),
        ("nothing", "nothing"),
    ],
)
def test_the_names_that_others_have(alias: str, name: str) -> None:
    assert resolve(alias) == name
    assert read_settings({"strategy": alias}).strategy == name


def test_no_name_of_others_means_two_strategies() -> None:
    aliases = [alias for entry in STRATEGIES.values() for alias in entry.aliases]
    assert len({*aliases, *STRATEGIES}) == len(aliases) + len(STRATEGIES)


def test_a_config_file_and_a_trainer_take_them(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('strategy = "mirrored"')
    assert read_settings({}, config).strategy == "allreduce"
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = phalanx.Trainer(model, optimizer, strategy="ddp", comm=SingleCommunicator())
    assert name_of(trainer.strategy) == "allreduce"
    trainer.close()


def test_a_slip_in_one_of_them_is_answered_with_ours() -> None:
    with pytest.raises(UsageError, match=r"unknown strategy 'mirored'.*\(mirrored is allreduce\)"):
        check("mirored", 2)
