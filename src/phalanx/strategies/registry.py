"""The strategies by name. Nothing here imports torch: names are checked before any rank starts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from phalanx.comm.algorithm_names import AUTO
from phalanx.errors import UsageError
from phalanx.options import Option, check_values, names_of
from phalanx.strategies import options as declared
from phalanx.strategies import user
from phalanx.wording import Spelling, argument, nearest, unknown

if TYPE_CHECKING:
    from phalanx.strategies.base import Strategy


def _word(name: str) -> str:
    return "-".join(name.lower().replace("/", " ").replace("_", " ").split())


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
    #: Fields of the strategy that a user may set.
    options: tuple[Option, ...] = ()

    def takes(self, option: str, value: Any = None) -> bool:
        """Whether an option of this name is among its own, and this among the option's choices."""
        found = next((one for one in self.options if one.name == option), None)
        return found is not None and (value is None or value in (found.choices or (value,)))

    @property
    def aliases(self) -> tuple[str, ...]:
        """What others call it, as a word of the command line: `parameter-server`."""
        return tuple(_word(name) for name in self.also_called.split(", "))


_ENTRIES = (
    StrategyEntry(
        name="single",
        target="phalanx.strategies.single:Single",
        summary="one rank, no communication: the baseline",
        moves="nothing",
        also_called="sequential",
        when="as long as one process is fast enough, and to compare all others with",
        most_ranks=1,
    ),
    StrategyEntry(
        name="allreduce",
        target="phalanx.strategies.allreduce:Allreduce",
        summary="every rank holds the model; gradients are added up by MPI_Allreduce",
        moves="the flat gradient, once a step, between all ranks",
        also_called="collective, mirrored, Horovod, DDP",
        when="for optimizers that central refuses, and on GPUs",
        options=(declared.ALGORITHM, *declared.GRADIENTS),
    ),
    StrategyEntry(
        name="central",
        target="phalanx.strategies.central:Central",
        summary="one copy of parameters and optimizer state per host; every rank updates its slice",
        moves="nothing on a host, where ranks share memory; each slice once a step between hosts",
        also_called="central storage, ZeRO-1",
        when="nearly always: the fastest, and the least memory, for data parallelism",
        options=declared.GRADIENTS,
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
        options=(declared.BY_LAYER,),
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
        target="phalanx.strategies.local.strategy:Local",
        summary="ranks train alone, each with an optimizer of its own, and average their weights "
        "every few steps",
        moves="the flat weights, once every k steps, between all ranks",
        also_called="local SGD, weight averaging, federated averaging",
        when="slow networks, if fewer exchanges are worth other results than those of one rank",
        keeps_shards=False,
        options=declared.LOCAL,
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
_ALIASES = {alias: entry.name for entry in _ENTRIES for alias in entry.aliases}
#: Those under which a rank has a part of the model, not of the batch.
SPLIT_MODELS = tuple(entry.name for entry in _ENTRIES if entry.splits_model)
#: Those that take fixed shards.
SHARDED = tuple(entry.name for entry in _ENTRIES if entry.keeps_shards)
#: What gradients on GPUs may travel as, if not as they are.
_COMPRESSED_ON_GPUS = ("bf16", "fp16")
_UNDECIDED = ("exchange", "lossy")  # how whatever strategy is used may exchange


def _merged() -> Iterator[Option]:
    """Every option that some strategy has: one by each name, with all that it may be somewhere."""
    for name in dict.fromkeys(one.name for entry in _ENTRIES for one in entry.options):
        alike = {one for entry in _ENTRIES for one in entry.options if one.name == name}
        found = sorted(alike, key=lambda one: one.choices)
        choices = tuple(choice for one in found for choice in one.choices)
        yield replace(found[0], help="; ".join(one.help for one in found), choices=choices)


OPTIONS = tuple(_merged())


def resolve(name: str) -> str:
    """The name here of a strategy that may be named as others call it: `ddp` is `allreduce`.

    Any other name is left as it is, for `check` to judge.
    """
    return name if name in STRATEGIES else _ALIASES.get(_word(name), name)


def default_strategy(
    ranks: int, options: Mapping[str, Any] | None = None, *, central: bool = True
) -> str:
    """What trains when the user names no strategy: with options, one that takes them.

    `central` says whether that one can be used, which GPUs and some optimizers do not allow.
    """
    given = options or {}
    usual = "single" if ranks == 1 else "central" if central else "allreduce"
    taking = [one.name for one in _ENTRIES if all(one.takes(*pair) for pair in given.items())]
    if not taking or (usual in taking and all(name in _UNDECIDED for name in given)):
        return usual
    return taking[0]


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
        raise unknown_strategy(name, note=f"; your own is named as {user.FORMS}")
    _check_options(name, options or {}, spell=spell)
    check_ranks(name, ranks, spell=spell)


def unknown_strategy(name: str, *, note: str = "") -> UsageError:
    """The error for a name that is neither a strategy's nor one that others have for it."""
    meant = nearest(_word(name), (*STRATEGIES, *_ALIASES))
    hint = f" ({meant} is {_ALIASES[meant]})" if meant in _ALIASES else ""
    return unknown("strategy", name, known=STRATEGIES, note=f"{hint}{note}")


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
    name: str, options: Mapping[str, Any] | None = None, *, spell: Spelling = argument
) -> str | None:
    """Why a strategy with these options does not train on GPUs; None if it does, or might."""
    taken: dict[str, tuple[Any, ...]] = {"algorithm": (AUTO,), "compress_rank": (), "pieces": (1,)}
    taken |= {"compress": () if name in ("central", "local") else _COMPRESSED_ON_GPUS}
    taken |= {"lossy": (False,)} | ({"overlap": (False,)} if name == "central" else {})
    for option, value in (options or {}).items() if name in STRATEGIES else ():
        if value is not None and value not in taken.get(option, (value,)):
            others = " or ".join(one for one in taken[option] if isinstance(one, str))
            return (
                f"{spell(option)} {value} of strategy '{name}' is for gradients in CPU memory: on "
                f"GPUs {f'take {others}, or ' if others else ''}leave it out"
            )
    return None


def name_of(strategy: "Strategy") -> str:
    """What a strategy is called; one of a user's own is named by its class."""
    target = f"{type(strategy).__module__}:{type(strategy).__qualname__}"
    return next((entry.name for entry in _ENTRIES if entry.target == target), target)


def workers(name: str, ranks: int, options: Mapping[str, Any]) -> int:
    """How many workers share a batch: ranks that train, or copies of a model that ranks share."""
    if name in SPLIT_MODELS:
        return int(options.get("replicas", 1))
    return training_ranks(name, ranks)


def training_ranks(name: str, ranks: int) -> int:
    """How many of the ranks compute on samples, rather than only serve those that do."""
    return ranks - (STRATEGIES[name].serving_ranks if name in STRATEGIES else 0)


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
