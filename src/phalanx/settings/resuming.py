"""Settings of a training that is gone on with: which of them may change on the way. Without torch.

Those that say how it is computed, how long and at which rate may. Those that say what it is may
not: it would be neither the training that was begun nor another one.
"""

from collections.abc import Collection
from typing import Any

from phalanx.errors import UsageError
from phalanx.settings.panels import names_in
from phalanx.settings.table import Settings
from phalanx.wording import flag

#: Parts of a training that may be a user's own code, which is named by its file.
PARTS = ("dataset", "model", "strategy", "objective", "callback")

_SAMPLES = "the samples would be others"
_MODEL = "what has been trained so far is the weights of that model"
_RATE = "the learning rate is in the middle of its way"
_PLACE = "the place inside an epoch is counted in batches"
_OPTIMIZER = "what it has kept about every weight so far depends on it"
_LOSS = "the training has made that one small so far"
#: Why a setting may not change; the samples themselves are compared, wherever they are.
FIXED = {
    **{name: _SAMPLES for name in names_in("Data") if name != "data_dir"},
    **dict.fromkeys(names_in("Model"), _MODEL),
    **dict.fromkeys(("optimizer", "momentum", "optimizer_options"), _OPTIMIZER),
    **dict.fromkeys(("schedule", "schedule_epochs", "schedule_factor"), _RATE),
    **dict.fromkeys(("schedule_min_rate", "warm_up", "warm_up_steps"), _RATE),
    "scale_learning_rate": _RATE,
    "watch": "the best epoch so far was found by it",
    **dict.fromkeys(("loss", "reduction", "objective"), _LOSS),
    "steps_per_epoch": _PLACE,
    "dtype": "the weights are kept in it",
    "metrics": "of the epochs so far there are those metrics alone",
    "seed": "it decides the order of the samples",
    "shards": "the sums over a batch depend on it, to the last bit",
}


def merged(saved: Settings, given: Settings, names: Collection[str]) -> Settings:
    """A run's settings, with those that were `given` by these names in their place.

    With another strategy the options of the one before are gone.
    """
    if "strategy" in names and given.strategy != saved.strategy:
        saved = saved.with_strategy(given.strategy, {})
    values = {name: getattr(given, name) for name in names}
    batch = ("batch_size", "batch_size_per_rank")
    if any(name in names for name in batch):  # the one that is not given does not count
        values |= {name: None for name in batch if name not in names}
    own = {
        part: {**saved.own.get(part, {}), **given.own.get(part, {})}
        for part in PARTS
        if part in saved.own or part in given.own
    }
    return saved.changed(**values, own=own)


def chosen_anew(settings: Settings, chosen: Collection[str]) -> Settings:
    """Settings without those that had been chosen for another number of ranks."""
    return settings.changed(**dict.fromkeys(chosen))


def check_changes(saved: Settings, now: Settings, *, ranks: int, run: str) -> None:
    """Refuse what would make another training of the run, which had `saved.ranks` ranks."""
    for name, why in FIXED.items():
        before, after = getattr(saved, name), getattr(now, name)
        moved = name in PARTS and all(":" in (one or "") for one in (before, after))
        if before != after and not moved:
            raise _refusal(flag(name), before, after, run=run, why=why)
    for part in ("dataset", "model", "objective"):
        before, after = (one.own.get(part, {}) for one in (saved, now))
        for name in dict.fromkeys((*before, *after)):
            if before.get(name) != after.get(name):
                why = FIXED[part]
                raise _refusal(flag(name), before.get(name), after.get(name), run=run, why=why)
    _check_batch(saved, now, ranks=ranks, run=run)


def _check_batch(saved: Settings, now: Settings, *, ranks: int, run: str) -> None:
    before, after = saved.batch(saved.ranks or 1), now.batch(ranks)
    if before == after:
        return
    if now.batch_size_per_rank is not None and now.batch_size_per_rank == saved.batch_size_per_rank:
        raise UsageError(
            f"{run}: was trained with {before} samples a step, {now.batch_size_per_rank} for each "
            f"rank that trains; it would be {after} now, and {_PLACE}: add --batch-size {before}"
        )
    raise _refusal("--batch-size", before, after, run=run, why=_PLACE)


def _refusal(spelled: str, before: Any, after: Any, *, run: str, why: str) -> UsageError:
    return UsageError(
        f"{spelled} {_shown(after)}: {run} was trained with {_shown(before)}, which cannot change "
        f"on the way, since {why}: leave it out, or start a new training"
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "it" if value else "nothing of it"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)
