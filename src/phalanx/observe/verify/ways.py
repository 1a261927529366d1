"""The ways in which one training is done to compare them. Nothing here imports torch."""

from dataclasses import dataclass, replace

from phalanx.errors import UsageError
from phalanx.options import names_of
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies.registry import SHARDED, SPLIT_MODELS, default_strategy, options_of
from phalanx.wording import counted

#: What a training is interrupted under, or gone on with, whatever strategy it is for.
_OTHERS = {"central": "allreduce"}


@dataclass(frozen=True)
class Way:
    """One way to do the training: from its beginning, or from the middle of another one's."""

    name: str
    settings: Settings
    ranks: int
    #: The way from whose checkpoint it goes on, in fresh processes.
    after: str | None = None
    #: How far its weights may be from those of the first way; None for equal bits.
    tolerance: float | None = None


def ways_of(settings: Settings, *, ranks: int) -> list[Way]:
    """The first is what the others are compared with; raises for what promises no such thing."""
    strategy = settings.strategy or default_strategy(ranks, settings.strategy_options)
    if strategy == "async":
        raise UsageError(
            "--strategy async: applies gradients as they come, and no two trainings with it are "
            "alike: there is nothing to verify"
        )
    if settings.scale_learning_rate != "no":
        raise UsageError(
            f"--scale-learning-rate {settings.scale_learning_rate}: has other ranks train another "
            "training: leave it out, and give the learning rate itself"
        )
    common = settings.changed(
        # By the rank, a batch would depend on the ranks.
        batch_size=settings.batch(ranks),
        batch_size_per_rank=None,
        output=None,
        trace=None,
        profile=False,
    )
    asked = common.with_strategy(strategy, settings.strategy_options)
    check_settings(asked, 1 if strategy == "single" else ranks)
    if _keeps_bits(asked, strategy, ranks):
        return _exact(common, strategy, ranks)
    return _alike(common, strategy, ranks)


def _keeps_bits(asked: Settings, strategy: str, ranks: int) -> bool:
    """Whether shards, which are taken if nobody asks for them, have it come to the same bits."""
    if strategy not in SHARDED or strategy in SPLIT_MODELS:
        return False
    try:
        check_settings(asked.changed(shards=max(4, ranks)), 1 if strategy == "single" else ranks)
    except UsageError:  # some of its options
        return False
    return True


def _exact(common: Settings, strategy: str, ranks: int) -> list[Way]:
    """Shards promise the same bits on any ranks, and by any of these strategies."""
    common = common.changed(shards=common.shards or max(4, ranks))
    alone = _way(common, "single", 1)
    if strategy == "single":
        return [alone, _going_on(alone, alone)]
    on_two, on_all = _way(common, strategy, 2), _way(common, strategy, ranks)
    other = _way(common, _OTHERS.get(strategy, "central"), 2)
    whole = [alone, on_two] if ranks == 2 else [alone, on_two, on_all]
    return [*whole, _going_on(on_two, alone), _going_on(alone, on_all), _going_on(on_all, other)]


def _alike(common: Settings, strategy: str, ranks: int) -> list[Way]:
    """Without shards the same ranks promise the same bits, also after an interruption; where ranks
    share a model, its weights are those of one rank but for roundings."""
    whole = _way(common, strategy, ranks)
    found = [whole, _going_on(whole, whole)]
    if strategy in SPLIT_MODELS:
        alone = _way(common, "single", 1)
        found += [replace(one, tolerance=1e-4) for one in (alone, _going_on(whole, alone))]
    return found


def _way(common: Settings, strategy: str, ranks: int) -> Way:
    """With the options that were given, if they are this strategy's."""
    takes = names_of(options_of(strategy))
    own = {name: value for name, value in common.strategy_options.items() if name in takes}
    settings = common.with_strategy(strategy, own).changed(ranks=ranks)
    check_settings(settings, ranks)
    return Way(f"{counted(ranks, 'rank')}, {strategy}", settings, ranks)


def _going_on(first: Way, then: Way) -> Way:
    return replace(then, name=f"{first.name}, then {then.name}", after=first.name)
