"""Each rule of a training once: the command line and Python refuse the same, each in its words."""

from typing import Any, get_args

import pytest
from torch import nn
from torch.optim import SGD

from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.exchange.compressions import COMPRESSIONS
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies import options
from phalanx.strategies.base import Loss, Task
from phalanx.strategies.registry import make
from phalanx.strategies.rules import Choices, check_idle, check_strategy
from phalanx.strategies.server import Exchanged
from phalanx.wording import flag

#: A strategy, its options, the choices of a task, and what is said about that in both spellings.
TOGETHER: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("single", {}, {"shards": 0}, "{shards} must be at least 1, not 0"),
    ("single", {}, {"accumulate": 0}, "{accumulate} must be at least 1, not 0"),
    ("single", {}, {"clip_norm": 0.0}, "{clip_norm} must be above 0, not 0.0"),
    ("single", {}, {"clip_norm": float("nan")}, "{clip_norm} must be above 0, not nan"),
    ("single", {}, {"shards": 2, "compile": True}, "leave out {compile}, or {the shards}"),
    ("allreduce", {"algorithm": "rign"}, {}, "{algorithm} must be one of auto, linear"),
    ("allreduce", {"algorithm": "linear", "overlap": True}, {}, "does not work with overlap"),
    ("allreduce", {"algorithm": "ring", "compress": "fp16"}, {}, "{compress} are not added up"),
    ("allreduce", {"overlap": True}, {"compile": True}, "leave out {compile}, or {overlap}"),
    ("allreduce", {"compress": "bf16"}, {"shards": 2}, "nothing to {compress}: leave out those"),
    ("allreduce", {"compress_rank": 3}, {}, "or give {compress} low-rank"),
    ("central", {"compress": "int8"}, {"shards": 2}, "nothing to {compress}: leave out those"),
    ("central", {"overlap": True}, {"compile": True}, "leave out {compile}, or {overlap}"),
    ("local", {"every": 0}, {}, "{every} must be at least 1, not 0"),
    ("local", {"outer_momentum": 1.0}, {}, "{outer_momentum} must be from 0 to below 1, not 1.0"),
    ("local", {"outer_rate": 0.0}, {}, "{outer_rate} must be above 0, not 0.0"),
    ("local", {"outer_nesterov": True}, {}, "leave it out, or give {outer_momentum}"),
    ("local", {"every": 4, "pieces": 5}, {}, "take 4 or fewer, or more steps with {every}"),
    (
        "central",
        {"lossy": True},
        {"shards": 2},
        "nothing lossy is used: leave out {lossy}, or {the shards}",
    ),
    ("central", {"lossy": True, "compress": "bf16"}, {}, "{compress} bf16 has chosen: give one"),
    (
        *("central", {"exchange": "auto", "compress": "bf16"}, {}),
        "{compress} leaves nothing for {exchange} auto to choose",
    ),
    (
        *("allreduce", {"exchange": "auto", "overlap": False}, {}),
        "{overlap} leaves nothing for {exchange} auto to choose",
    ),
    ("allreduce", {"lossy": True, "algorithm": "ring"}, {}, "{lossy} are not added up by MPI"),
    ("local", {}, {"shards": 2}, "leave out {the shards}, or take one of"),
    ("pipeline", {"micro_batches": 0}, {}, "{micro_batches} must be at least 1, not 0"),
    ("pipeline", {"cut": (3, 2)}, {}, "{cut} 3,2: give the layers"),
    ("pipeline", {}, {"accumulate": 2}, "leave out {accumulate}, and set {micro_batches}"),
    ("pipeline", {}, {"compile": True}, "leave out {compile}, or choose"),
    ("pipeline", {"micro_batches": 3}, {"shards": 4}, "leave out {micro_batches}, or take 3"),
    ("pipeline", {"replicas": 2}, {}, "{replicas} can be 1 here"),
    ("tensor", {"replicas": 0}, {}, "{replicas} must be at least 1, not 0"),
    ("tensor", {}, {"compile": True}, "leave out {compile}, or choose"),
    ("server", {"exchange": "change"}, {}, "gradients, changes, not 'change'"),
    ("async", {"max_staleness": -1}, {}, "{max_staleness} must be 0 or more, not -1"),
    ("server", {}, {}, "strategy 'server' needs 2 ranks or more, not 1"),
]


class Spelt(dict[str, str]):
    """Names as a flag or as an argument, for `format_map`."""

    def __init__(self, *, flags: bool) -> None:
        self._flags = flags

    def __missing__(self, name: str) -> str:
        if name == "the shards":
            return "--shards" if self._flags else name
        return flag(name) if self._flags else name


def said(call: Any) -> str:
    with pytest.raises(UsageError) as refused:
        call()
    return str(refused.value)


@pytest.mark.parametrize(("name", "given", "choices", "cause"), TOGETHER)
def test_both_refuse_in_their_own_words(
    name: str, given: dict[str, Any], choices: dict[str, Any], cause: str
) -> None:
    def in_python() -> None:
        model = nn.Linear(2, 2)
        task = Task(model, SGD(model.parameters(), lr=0.1), Loss(nn.MSELoss()), **choices)
        make(name, given).bind(SingleCommunicator(), task)

    def on_the_line() -> None:
        check_settings(Settings(strategy=name, **given, **choices), 1)

    assert cause.format_map(Spelt(flags=False)) in said(in_python)
    assert cause.format_map(Spelt(flags=True)) in said(on_the_line)


@pytest.mark.parametrize(
    ("given", "choices", "cause"),
    [
        ({"exchange": "changes"}, {"clip_norm": 1.0}, "--clip-norm needs the norm of the whole"),
        ({"exchange": "changes"}, {"shards": 4}, "leave out --shards, or --exchange 'gradients'"),
        ({}, {"shards": 1}, "--shards 1 on 2 that share a batch would leave some idle"),
    ],
)
def test_a_server_is_refused_before_its_ranks_start(
    given: dict[str, Any], choices: dict[str, Any], cause: str
) -> None:
    assert cause in said(lambda: check_settings(Settings(strategy="server", **given, **choices), 3))


@pytest.mark.parametrize(
    ("given", "spelt"),
    [
        ({"overlap": True}, "--overlap: leave it out"),
        ({"strategy": "allreduce", "algorithm": "ring"}, "--algorithm: leave it out"),
        ({"compress": "fp16", "overlap": True}, "--overlap, --compress: leave them out"),
        ({"exchange": "auto", "lossy": True}, "--lossy: leave it out"),
        ({"strategy": "local", "every": 4}, "--every: leave it out"),
        ({"strategy": "local", "pieces": 2, "alone": "host"}, "--pieces, --alone: leave them out"),
    ],
)
def test_options_about_an_exchange_are_refused_on_one_rank(
    given: dict[str, Any], spelt: str
) -> None:
    said_alone = said(lambda: check_settings(Settings(**given), 1))
    assert f"nothing to {spelt}, or take 2 --ranks or more" in said_alone
    check_settings(Settings(**given), 2)


def test_what_one_rank_has_a_use_for_is_taken() -> None:
    check_settings(Settings(strategy="allreduce", algorithm="auto", exchange="auto"), 1)
    check_settings(Settings(strategy="local", every=4, outer_momentum=0.5), 1)


def test_shards_go_with_the_exact_choice() -> None:
    check_settings(Settings(exchange="auto", shards=4), 2)
    check_settings(Settings(exchange="auto", lossy=True, overlap=True, compress_rank=4), 2)


def test_nothing_is_stale_in_step() -> None:
    chosen = Choices(ranks=3, options={"max_staleness": 0, "staleness_aware": True}, spell=flag)
    assert "nothing to --staleness-aware: leave out one" in said(
        lambda: check_strategy("async", chosen)
    )


def test_async_in_step_keeps_shards() -> None:
    check_strategy("async", Choices(ranks=3, shards=4, options={"max_staleness": 0}))
    late = Choices(ranks=3, shards=4, spell=flag)
    assert "set --max-staleness to 0, or leave out --shards" in said(
        lambda: check_strategy("async", late)
    )


def test_choices_are_those_of_the_types() -> None:
    assert options.COMPRESS.choices == COMPRESSIONS
    assert options.EXCHANGE.choices == get_args(Exchanged)


def test_of_a_users_own_strategy_nothing_is_known() -> None:
    chosen = Choices(ranks=8, shards=2, compile=True)
    check_strategy("mine.py:Mine", chosen)
    check_idle("mine.py:Mine", chosen)
