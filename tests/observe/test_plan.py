"""What a comparison plans to train, before anything is trained."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from phalanx.cli.flags.settings import with_settings
from phalanx.errors import DataError, UsageError
from phalanx.observe import plan as planned_module
from phalanx.observe.devices import missing_device
from phalanx.observe.plan import plan, train_flags
from phalanx.settings.table import Settings
from phalanx.strategies.registry import STRATEGIES


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_module, "available_cores", lambda: 4)


def planned(names: Sequence[str] = ("allreduce", "single"), ranks: int = 2, **given: Any) -> Any:
    return plan(Settings(**given), names, ranks=ranks)


def test_single_comes_first_with_one_thread_and_with_all_cores() -> None:
    first, second, third = planned()
    assert [first.title, second.title] == ["single, 1 thread", "single, 4 threads"]
    assert [one.settings.threads for one in (first, second, third)] == [1, 4, None]
    assert [one.ranks for one in (first, second, third)] == [1, 1, 2]
    assert [one.folder for one in (first, third)] == ["single-1-thread", "allreduce"]


def test_all_strategies_are_planned() -> None:
    names = [one.strategy for one in planned(tuple(STRATEGIES))]
    assert names == ["single", *STRATEGIES]


def test_the_global_batch_is_the_same_for_all() -> None:
    batches = {one.settings.batch(one.ranks) for one in planned(batch_size_per_rank=8)}
    assert batches == {16}


def test_options_go_to_those_that_have_them() -> None:
    single, _, local, pipeline, tensor = planned(
        ("single", "local", "pipeline", "tensor"), every=4, replicas=2
    )
    assert single.settings.strategy_options == {}
    assert local.settings.strategy_options == {"every": 4}
    assert pipeline.settings.strategy_options == {"replicas": 2}
    assert tensor.settings.strategy_options == {"replicas": 2}


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"every": 4}, "--every is an option of local, and the strategies to compare are"),
        ({"names": ("local",), "every": 0}, "--every must be at least 1, not 0"),
        ({"names": ("allreduce", "alreduce")}, "did you mean 'allreduce'?"),
        ({"names": ("single", "none.py:Mine")}, "none.py"),
        ({"names": ("server", "async"), "ranks": 1}, "needs 2 ranks"),
        ({"ranks": 0}, "--ranks must be at least 1, not 0"),
        ({"model": "simplecn"}, "did you mean 'simplecnn'?"),
    ],
)
def test_what_no_strategy_can_do_is_refused(given: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        planned(**given)
    assert cause in str(refused.value)


def test_missing_data_and_a_full_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        planned(dataset="mnist", data_dir=tmp_path)
    (tmp_path / "something").touch()
    with pytest.raises(UsageError, match="is not empty"):
        planned(output=tmp_path)


def test_a_strategy_that_refuses_is_planned_as_such() -> None:
    single, server = planned(("single", "server"), ranks=1)[::2]
    assert single.refusal is None
    assert server.refusal.short == "needs 2 ranks"
    overlapping = planned(("allreduce", "server"), overlap=True, shards=4)[0]
    assert overlapping.refusal.short == "refused"
    assert "--overlap" in overlapping.refusal.reason


def test_flags_give_back_the_settings() -> None:
    settings = Settings(
        dataset="iris",
        data_dir=Path("a folder"),
        hidden=(8, 4),
        epochs=5,
        batch_size=64,
        optimizer="sgd",
        learning_rate=1e-05,
        overlap=True,
        bind=False,
        max_staleness=0,
        cut=(1,),
        profile=True,
    )
    app, found = typer.Typer(), list[Settings]()
    app.command()(with_settings(found.append))
    assert CliRunner().invoke(app, train_flags(settings)).exit_code == 0
    assert found == [settings]
    fixed = ["--epochs=5", "--batch-size=64", "--optimizer=adam", "--learning-rate=0.001"]
    assert train_flags(Settings()) == [*fixed, "--no-normalise"]  # whatever is usual by then


def test_a_training_is_profiled_and_says_its_device() -> None:
    last = planned()[-1]
    assert "--profile" in last.flags()
    assert "--device=cpu" in last.flags()
    elsewhere = plan(Settings(), ("single",), ranks=2, devices=("cpu", "cuda"))
    assert [one.title for one in elsewhere][-1] == "single, 4 threads, cuda"
    assert "--device=cuda" in elsewhere[-1].flags()
    assert elsewhere[-1].folder == "single-4-threads-cuda"


def test_devices() -> None:
    assert missing_device("cpu") is None
    here = torch.cuda.is_available()
    assert missing_device("cuda") == (None if here else "no such device here")
    with pytest.raises(UsageError, match="did you mean 'cuda'"):
        missing_device("cud")
