"""What does not go together in a training, each rule once: for the command line, which spells
choices as flags before any rank starts, and for Python, which spells them as arguments.

Nothing here imports torch. Rules about a model or an optimizer are their strategy's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from phalanx.errors import UsageError
from phalanx.options import check_values, names_of
from phalanx.strategies.exchange_rules import check_exchange, exchange_options, shards_in_words
from phalanx.strategies.local.rules import check_local, idle_alone
from phalanx.strategies.options import OF_TASKS, REPLICAS
from phalanx.strategies.registry import SHARDED, SPLIT_MODELS, STRATEGIES, check_ranks, workers
from phalanx.wording import Spelling, argument

#: Why a strategy takes no function of the model and a whole batch.
_WITHOUT_OBJECTIVES = {
    "pipeline": "has the inputs of a batch on its first rank and the loss on its last, and nobody "
    "who could call a function of both",
    "gather": "sends ranks the inputs and the targets of their samples, and no other batches",
}


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What is chosen for a training besides its strategy, and how messages spell it."""

    ranks: int = 1
    #: The strategy's options, by name; those that are absent are at their defaults.
    options: Mapping[str, Any] = field(default_factory=dict)
    shards: int | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    compile: bool = False
    #: Whether forward passes compute in 16 bits.
    autocast: bool = False
    #: Whether it is a user's own function of the model and a whole batch that is made small.
    objective: bool = False
    spell: Spelling = argument


class _Task(Protocol):
    """What rules know of a `phalanx.strategies.base.Task`, which imports torch."""

    @property
    def shards(self) -> int | None: ...
    @property
    def clip_norm(self) -> float | None: ...
    @property
    def accumulate(self) -> int: ...
    @property
    def compile(self) -> bool: ...
    @property
    def autocast(self) -> object: ...
    @property
    def objective(self) -> object: ...


def check_bound(name: str, strategy: object, task: _Task, *, ranks: int) -> None:
    """Raise UsageError for what a built-in strategy of this name cannot do with a task."""
    options = {option: getattr(strategy, option) for option in names_of(STRATEGIES[name].options)}
    chosen = _choices(task, ranks=ranks, options=options)
    check_choices(chosen)
    check_strategy(name, chosen)


def check_fields(name: str, strategy: object) -> None:
    """Raise UsageError for a value that a field of a built-in strategy does not take."""
    options = STRATEGIES[name].options
    values = {option: getattr(strategy, option) for option in names_of(options)}
    check_values(options, values)
    check_exchange(Choices(options=values))


def check_task(task: _Task) -> None:
    """Raise UsageError for what no strategy can do."""
    check_values(OF_TASKS, {name: getattr(task, name) for name in names_of(OF_TASKS)})
    check_choices(_choices(task))


def check_choices(chosen: Choices) -> None:
    """Raise UsageError for what does not go together, whatever the strategy."""
    spell = chosen.spell
    if chosen.compile and chosen.shards is not None:
        raise UsageError(
            "compiled code depends on the sizes that a rank has seen, and so do its last bits, "
            f"which fixed shards promise: leave out {spell('compile')}, or {shards_in_words(spell)}"
        )
    if chosen.compile and chosen.autocast:
        raise UsageError(
            f"{spell('autocast')} is not for compiled passes: leave out {spell('compile')}, or "
            f"{spell('autocast')}"
        )
    if chosen.compile and chosen.objective:
        raise UsageError(
            f"{spell('compile')} compiles a model and its loss, and not a function of your own: "
            f"leave out {spell('compile')}, or take {spell('loss')} in place of "
            f"{spell('objective')}"
        )
    check_exchange(chosen)


def check_strategy(name: str, chosen: Choices) -> None:
    """Raise UsageError for what a strategy cannot do; of a user's own nothing is known."""
    if name not in STRATEGIES:
        return
    check_ranks(name, chosen.ranks, spell=chosen.spell)
    if name in SPLIT_MODELS:
        check_replicas(chosen.options.get("replicas", 1), chosen.ranks, spell=chosen.spell)
        _check_split(name, chosen)
    if chosen.objective and name in _WITHOUT_OBJECTIVES:
        raise UsageError(
            f"strategy '{name}' {_WITHOUT_OBJECTIVES[name]}: give a {chosen.spell('loss')} in "
            f"place of {chosen.spell('objective')}, or another strategy, such as 'central'"
        )
    if name in _OWN_RULES:
        _OWN_RULES[name](chosen)
    _check_shards(name, chosen)


def check_replicas(replicas: int, ranks: int, *, spell: Spelling = argument) -> None:
    """Refuse replicas that cannot be of the same size."""
    REPLICAS.check(replicas, spell=spell)
    if ranks % replicas:
        fitting = [count for count in range(1, ranks + 1) if ranks % count == 0]
        raise UsageError(
            f"{ranks} ranks cannot be arranged in {replicas} replicas of the same size: "
            f"{spell('replicas')} can be {', '.join(map(str, fitting))} here"
        )


def _choices(task: _Task, *, ranks: int = 1, options: Mapping[str, Any] | None = None) -> Choices:
    return Choices(
        ranks=ranks,
        options=options or {},
        shards=task.shards,
        clip_norm=task.clip_norm,
        accumulate=task.accumulate,
        compile=task.compile,
        autocast=task.autocast is not None,
        objective=task.objective is not None,
    )


def _check_split(name: str, chosen: Choices) -> None:
    if chosen.autocast:
        raise UsageError(
            f"{chosen.spell('autocast')} is not for strategy '{name}', under which ranks share a "
            f"model: leave it out, or take {chosen.spell('dtype')} bfloat16"
        )
    if chosen.compile:
        raise UsageError(
            f"strategy '{name}' exchanges activations inside a pass, which leaves no whole one to "
            f"compile: leave out {chosen.spell('compile')}, or choose a strategy with whole "
            "models, such as 'central'"
        )


def _check_server(chosen: Choices) -> None:
    if chosen.options.get("exchange") != "changes":
        return
    spell = chosen.spell
    instead = f"{spell('exchange')} 'gradients' instead"
    if chosen.clip_norm is not None:
        raise UsageError(
            f"{spell('clip_norm')} needs the norm of the whole gradient, which nobody has where "
            f"changes of weights are exchanged: leave it out, or {instead}"
        )
    if chosen.shards is not None:
        raise UsageError(
            "fixed shards promise the bits of one rank, and changes of weights are rounded once a "
            f"worker: leave out {shards_in_words(spell)}, or {instead}"
        )


def _check_pipeline(chosen: Choices) -> None:
    spell = chosen.spell
    if chosen.accumulate > 1:
        raise UsageError(
            "strategy 'pipeline' computes a batch in micro-batches already: leave out "
            f"{spell('accumulate')}, and set {spell('micro_batches')}"
        )
    asked, replicas = chosen.options.get("micro_batches"), chosen.options.get("replicas", 1)
    if chosen.shards is not None and asked is not None and asked * replicas != chosen.shards:
        among = f" over {replicas} replicas" if replicas > 1 else ""
        raise UsageError(
            f"every shard is one micro-batch, and {chosen.shards} shards{among} are not {asked} "
            f"micro-batches: leave out {spell('micro_batches')}, or take {asked * replicas} shards"
        )


def _check_async(chosen: Choices) -> None:
    if chosen.options.get("max_staleness") == 0 and chosen.options.get("staleness_aware"):
        spell = chosen.spell
        raise UsageError(
            f"with {spell('max_staleness')} 0 no gradient is stale, which leaves nothing to "
            f"{spell('staleness_aware')}: leave out one of the two"
        )
    if chosen.shards is not None and chosen.options.get("max_staleness") != 0:
        raise UsageError(
            "strategy 'async' applies gradients as they come, which differs from run to run, and "
            f"fixed shards promise the same bits: set {chosen.spell('max_staleness')} to 0, or "
            f"leave out {shards_in_words(chosen.spell)}"
        )


def _check_shards(name: str, chosen: Choices) -> None:
    if chosen.shards is None:
        return
    in_step = chosen.options.get("max_staleness") == 0  # `async` is `server` then
    if name not in SHARDED and not in_step:
        raise UsageError(
            f"strategy '{name}' gives other weights on other numbers of ranks, which fixed shards "
            f"rule out: leave out {shards_in_words(chosen.spell)}, or take one of the strategies "
            f"that keep them: {', '.join(SHARDED)}"
        )


def check_idle(name: str, chosen: Choices) -> None:
    """Refuse fewer shards than workers: most strategies could do that, but to no use."""
    sharing = workers(name, chosen.ranks, chosen.options)
    if name in STRATEGIES and chosen.shards is not None and chosen.shards < sharing:
        raise UsageError(
            f"{chosen.spell('shards')} {chosen.shards} on {sharing} that share a batch would leave "
            f"some idle: take at least {sharing} shards"
        )


def check_alone(name: str, chosen: Choices) -> None:
    """Refuse options about an exchange where one rank has nobody to exchange with.

    For the command line, which says how many ranks there are; a script may be tried on one.
    """
    if name not in STRATEGIES or chosen.ranks > 1:
        return
    idle = [*exchange_options(chosen), *idle_alone(chosen)]
    if idle:
        spell = chosen.spell
        raise UsageError(
            f"one rank exchanges nothing, which leaves nothing to {', '.join(map(spell, idle))}: "
            f"leave {'it' if len(idle) == 1 else 'them'} out, or take 2 {spell('ranks')} or more"
        )


_OWN_RULES: Mapping[str, Callable[[Choices], None]] = {
    "server": _check_server,
    "pipeline": _check_pipeline,
    "async": _check_async,
    "local": check_local,
    "tensor": partial(check_idle, "tensor"),  # whose replicas must all have a part
}
