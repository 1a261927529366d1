"""The strategies by name. Nothing here imports torch: names are checked before any rank starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from phalanx.errors import UsageError
from phalanx.options import Option, check_values, names_of
from phalanx.strategies import options as declared
from phalanx.strategies import user
from phalanx.wording import Spelling, argument, unknown

if TYPE_CHECKING:
    from phalanx.strategies.base import Strategy


@dataclass(frozen=True)
class StrategyEntry:
    """A strategy as a user meets it."""

    name: str
    target: str
    summary: str
    moves: str
    also_called: str
    #: When to choose it.
    when: str
    least_ranks: int = 1
    most_ranks: int | None = None
    #: Ranks that compute nothing, but serve the others.
    serving_ranks: int = 0
    #: Whether ranks share a model, rather than a batch.
    splits_model: bool = False
    #: Whether weights with fixed shards are the same on any number of ranks.
    keeps_shards: bool = True
    #: Whether it trains models on GPUs.
    on_gpus: bool = False
    #: Fields of the strategy that a user may set.
    options: tuple[Option, ...] = ()

    def takes(self, option: str) -> bool:
        """Whether an option of this name is among its own."""
        return option in names_of(self.options)


_ENTRIES = (
    StrategyEntry(
        name="single",
        target="phalanx.strategies.single:Single",
        summary="one rank, no communication: the baseline",
        moves="nothing",
        also_called="sequential",
        when="as long as one process is fast enough, and to compare all others with",
        most_ranks=1,
        on_gpus=True,
    ),
    StrategyEntry(
        name="allreduce",
        target="phalanx.strategies.allreduce:Allreduce",
        summary="every rank holds the model; gradients are added up by MPI_Allreduce",
        moves="the flat gradient, once a step, between all ranks",
        also_called="collective, mirrored, Horovod, DDP",
        when="for optimizers that central refuses, and over slow networks with --overlap",
        on_gpus=True,
        options=(declared.ALGORITHM, declared.OVERLAP, declared.COMPRESS),
    ),
    StrategyEntry(
        name="central",
        target="phalanx.strategies.central:Central",
        summary="one copy of parameters and optimizer state per host; every rank updates its slice",
        moves="nothing on a host, where ranks share memory; each slice once a step between hosts",
        also_called="central storage, ZeRO-1",
        when="nearly always: the fastest, and the least memory, for data parallelism",
    ),
    StrategyEntry(
        name="server",
        target="phalanx.strategies.server:Server",
        summary="rank 0 keeps the main network and does not train; the others send it gradients",
        moves="each worker's gradient to rank 0 and the weights back, once a step",
        also_called="non-collective, send/receive, parameter server",
        when="to compare with, or where one rank must hold the optimizer",
        least_ranks=2,
        serving_ranks=1,
        options=(declared.EXCHANGE,),
    ),
    StrategyEntry(
        name="gather",
        target="phalanx.strategies.gather:Gather",
        summary="rank 0 scatters batches, gathers gradients, steps and broadcasts; it trains too",
        moves="samples from rank 0, gradients to it, weights from it, once a step",
        also_called="the textbook scheme",
        when="to see every phase of a parallel step, and where only rank 0 reads the data",
    ),
    StrategyEntry(
        name="async",
        target="phalanx.strategies.asynchronous.strategy:Asynchronous",
        summary="the same server, but gradients are applied as they come, up to a staleness",
        moves="a gradient to rank 0 and the weights back, for each part of a batch",
        also_called="asynchronous SGD, Hogwild over a server",
        when="ranks of very different speed, if a little staleness does no harm",
        least_ranks=2,
        serving_ranks=1,
        keeps_shards=False,
        options=(declared.MAX_STALENESS, declared.STALENESS_AWARE),
    ),
    StrategyEntry(
        name="local",
        target="phalanx.strategies.local:Local",
        summary="ranks train alone, each with an optimizer of its own, and average their weights "
        "every few steps",
        moves="the flat weights, once every k steps, between all ranks",
        also_called="local SGD, weight averaging, federated averaging",
        when="slow networks, if fewer exchanges are worth other results than those of one rank",
        keeps_shards=False,
        on_gpus=True,
        options=(declared.EVERY, declared.OUTER_MOMENTUM),
    ),
    StrategyEntry(
        name="pipeline",
        target="phalanx.strategies.pipeline.strategy:Pipeline",
        summary="consecutive layers on different ranks, micro-batches in flight between them",
        moves="activations and their gradients at each cut, once a micro-batch",
        also_called="model parallelism by layers, GPipe, 1F1B",
        when="sequential models too large for one rank",
        splits_model=True,
        options=(declared.CUT, declared.MICRO_BATCHES, declared.REPLICAS),
    ),
    StrategyEntry(
        name="tensor",
        target="phalanx.strategies.tensor.strategy:Tensor",
        summary="the weights of each linear and convolutional layer split over the ranks",
        moves="activations, once for each pair of layers, forward and backward",
        also_called="model parallelism inside layers, Megatron",
        when="single layers too large for one rank, over a fast connection",
        splits_model=True,
        options=(declared.REPLICAS,),
    ),
)
STRATEGIES = {entry.name: entry for entry in _ENTRIES}
#: Those under which a rank has a part of the model, not of the batch.
SPLIT_MODELS = tuple(entry.name for entry in _ENTRIES if entry.splits_model)
#: Those that take fixed shards.
SHARDED = tuple(entry.name for entry in _ENTRIES if entry.keeps_shards)
#: Those that train models on GPUs.
ON_GPUS = tuple(entry.name for entry in _ENTRIES if entry.on_gpus)
#: Options that are for gradients in CPU memory.
_ON_CPUS_ALONE = frozenset(names_of((declared.ALGORITHM, declared.COMPRESS)))
#: Every option that some strategy has.
OPTIONS = tuple({option.name: option for entry in _ENTRIES for option in entry.options}.values())


def default_strategy(ranks: int, options: Iterable[str] = (), *, central: bool = True) -> str:
    """What trains when the user names no strategy: with options, one that has them.

    `central` says whether that one can be used, which GPUs and some optimizers do not allow.
    """
    if wanted := set(options):
        for entry in _ENTRIES:
            if wanted <= set(names_of(entry.options)):
                return entry.name
    if ranks == 1:
        return "single"
    return "central" if central else "allreduce"


def options_of(name: str) -> tuple[Option, ...]:
    """What a strategy takes, one of a user's own as well; nothing if there is none of this name."""
    if ":" in name:
        return user.declared(name).options
    return STRATEGIES[name].options if name in STRATEGIES else ()


def check(
    name: str,
    ranks: int,
    *,
    options: Mapping[str, Any] | None = None,
    spell: Spelling = argument,
) -> None:
    """Raise UsageError unless a strategy of this name takes the options and so many ranks.

    A name with a colon is a user's strategy, `path/to/file.py:Class` or `package.module:Class`: its
    file or module must be there. It takes any number of ranks, as far as is known here.
    """
    if ":" not in name and name not in STRATEGIES:
        raise unknown(
            "strategy", name, known=STRATEGIES, note=f"; your own is named as {user.FORMS}"
        )
    _check_options(name, options or {}, spell=spell)
    check_ranks(name, ranks, spell=spell)


def make(name: str, options: Mapping[str, Any] | None = None) -> "Strategy":
    """The strategy of this name; options that are not given are its defaults."""
    given = options or {}
    if ":" in name:
        _check_options(name, given)
        own: Strategy = import_module("phalanx.strategies.user_strategy").make(name, given)
        return own
    module, _, attribute = STRATEGIES[name].target.partition(":")
    strategy: Strategy = getattr(import_module(module), attribute)(**given)
    return strategy


def gpu_obstacle(
    name: str, options: Iterable[str] = (), *, spell: Spelling = argument
) -> str | None:
    """Why a strategy with these options does not train on GPUs; None if it does, or might."""
    if name in STRATEGIES and name not in ON_GPUS:
        return (
            f"strategy '{name}' trains in CPU memory alone: on GPUs take one of: "
            f"{', '.join(ON_GPUS)}"
        )
    if wrong := sorted(_ON_CPUS_ALONE & set(options)):
        return f"{spell(wrong[0])} is for gradients in CPU memory: leave it out on GPUs"
    return None


def name_of(strategy: "Strategy") -> str:
    """What a strategy is called; one of a user's own is named by its class."""
    target = f"{type(strategy).__module__}:{type(strategy).__qualname__}"
    return next((entry.name for entry in _ENTRIES if entry.target == target), target)


def workers(name: str, ranks: int, options: Mapping[str, Any]) -> int:
    """How many workers share a batch: ranks that train, or copies of a model that ranks share."""
    entry = STRATEGIES.get(name)
    if entry is not None and entry.splits_model:
        return int(options.get("replicas", 1))
    return ranks - (0 if entry is None else entry.serving_ranks)


def check_ranks(name: str, ranks: int, *, spell: Spelling = argument) -> None:
    """Raise UsageError for more or fewer ranks than a built-in strategy takes."""
    if name not in STRATEGIES:
        return
    least, most = STRATEGIES[name].least_ranks, STRATEGIES[name].most_ranks
    if ranks < least:
        start = "" if spell is argument else f" with {spell('ranks')} {least},"
        raise UsageError(
            f"strategy '{name}' needs {least} ranks or more, not {ranks}: "
            f"start them{start} with mpirun -n {least}, or take strategy 'single'"
        )
    if most is not None and ranks > most:
        others = [other.name for other in _ENTRIES if other.most_ranks is None]
        raise UsageError(
            f"strategy '{name}' trains on at most {most} rank, not on {ranks}; "
            f"for more ranks take one of: {', '.join(others)}"
        )


def _check_options(name: str, options: Mapping[str, Any], *, spell: Spelling = argument) -> None:
    takes = options_of(name)
    for option in options:
        if option in names_of(takes):
            continue
        if others := [entry.name for entry in _ENTRIES if entry.takes(option)]:
            raise UsageError(
                f"{spell(option)} is no option of strategy '{name}'; "
                f"strategies that take it: {', '.join(others)}"
            )
        if ":" in name:
            user.declared(name).check([option], spell=spell)
        raise UsageError(f"{spell(option)} is no option of strategy '{name}', nor of another")
    check_values(takes, options, spell=spell)
