"""The trainings of a comparison, planned before the first one starts: the same but for the way.

Nothing here imports torch.
"""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.comm.launch.process import available_cores
from phalanx.errors import PhalanxError, UsageError
from phalanx.options import names_of
from phalanx.settings.defaults import outright
from phalanx.settings.panels import default_of
from phalanx.settings.rules import check_settings
from phalanx.settings.table import SETTINGS, Settings
from phalanx.strategies import registry
from phalanx.wording import flag, negative_flag

CPU = "cpu"


@dataclass(frozen=True)
class Refusal:
    """Why a training cannot be: in a few words for a table, and in full."""

    short: str
    reason: str


@dataclass(frozen=True)
class Planned:
    """One training of a comparison; `settings` name its strategy, ranks and threads."""

    title: str
    settings: Settings
    device: str = CPU
    refusal: Refusal | None = None

    @property
    def strategy(self) -> str:
        assert self.settings.strategy is not None
        return self.settings.strategy

    @property
    def ranks(self) -> int:
        assert self.settings.ranks is not None
        return self.settings.ranks

    @property
    def folder(self) -> str:
        """A name for its folder, such as single-1-thread."""
        words = self.title.replace(",", "").replace("/", "-").replace(":", "-")
        return "-".join(words.split())

    def flags(self) -> list[str]:
        """What to call `phalanx train` with, the run's folder aside."""
        flags = train_flags(self.settings.changed(output=None, profile=True))
        return [*flags, f"--device={self.device}"]


def train_flags(settings: Settings) -> list[str]:
    """The flags that give `phalanx train` these settings."""
    ours = {name: getattr(settings, name) for name in SETTINGS}
    given = {name: value for name, value in ours.items() if value != default_of(name)}
    given |= outright(settings)
    for own in settings.own.values():
        given |= own
    return [_spelled(name, value) for name, value in given.items()]


def _spelled(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return flag(name) if value else negative_flag(name)
    text = ",".join(map(str, value)) if isinstance(value, tuple) else value
    return f"{flag(name)}={text}"


def plan(
    settings: Settings, names: Sequence[str], *, ranks: int, devices: Sequence[str] = (CPU,)
) -> list[Planned]:
    """The trainings of a comparison in their order; raises for what no strategy can do.

    `single` comes first, with 1 thread and with as many as there are cores. Options of strategies
    go to those that have them.
    """
    _check_common(settings, names, ranks=ranks)
    options = settings.strategy_options
    _check_options(options, names)
    common = settings.with_strategy(None, {}).changed(
        # By the rank, a batch would depend on the ranks.
        batch_size=settings.batch(ranks),
        batch_size_per_rank=None,
        profile=False,
        output=None,
        checkpoint_every="never",  # nobody goes on with it, and its time would count
    )
    planned = []
    for device in devices:
        for name in sorted(dict.fromkeys(names), key=lambda name: name != "single"):
            if name == "single":
                planned += _baselines(common, device)
                continue
            takes = names_of(registry.options_of(name))
            its = {key: value for key, value in options.items() if key in takes}
            asked = common.with_strategy(name, its).changed(ranks=ranks)
            planned.append(_planned(name, asked, device))
    if planned and all(one.refusal is not None for one in planned):
        first = planned[0].refusal
        assert first is not None
        raise UsageError(first.reason)
    return planned


def _baselines(common: Settings, device: str) -> list[Planned]:
    cores = available_cores()
    counts = dict.fromkeys((1, cores)) if device == CPU else {cores: None}
    return [
        _planned(
            f"single, {threads} thread{'s' if threads > 1 else ''}",
            common.changed(strategy="single", ranks=1, threads=threads),
            device,
        )
        for threads in counts
    ]


def _planned(title: str, settings: Settings, device: str) -> Planned:
    planned = Planned(title if device == CPU else f"{title}, {device}", settings, device)
    return dataclasses.replace(planned, refusal=_refusal(planned))


def _refusal(planned: Planned) -> Refusal | None:
    """Why this one cannot be trained, as far as that is known beforehand."""
    entry = registry.STRATEGIES.get(planned.strategy)
    try:
        check_settings(planned.settings, planned.ranks)
    except PhalanxError as error:
        few = entry is not None and planned.ranks < entry.least_ranks
        short = f"needs {entry.least_ranks} ranks" if entry and few else "refused"
        return Refusal(short, str(error))
    return None


def _check_common(settings: Settings, names: Iterable[str], *, ranks: int) -> None:
    """Raise for what is wrong whatever the strategy: names, the data, the model, the folder."""
    SETTINGS["ranks"].check(ranks, spell=flag)
    for name in names:
        if name not in registry.STRATEGIES:  # a user's own, or unknown
            registry.check(name, ranks, spell=flag)
    check_settings(settings.with_strategy("single", {}).changed(ranks=1), 1)


def _check_options(options: dict[str, Any], names: Sequence[str]) -> None:
    """Raise for an option that none of the strategies has, or a value that none can take."""
    for name, value in options.items():
        takers = [one for one in names if name in names_of(registry.options_of(one))]
        if not takers:
            owners = [one.name for one in registry.STRATEGIES.values() if one.takes(name)]
            raise UsageError(
                f"{flag(name)} is an option of {' and '.join(owners)}, and the "
                f"strategies to compare are {', '.join(names)}: add one, or leave out the option"
            )
        entry = registry.STRATEGIES.get(takers[0])
        alone = Settings().with_strategy(takers[0], {name: value})
        check_settings(alone, max(2, 1 if entry is None else entry.least_ranks))


def command(flags: Iterable[str]) -> list[str]:
    """The command that trains with these flags, in a process of its own."""
    return [sys.executable, "-m", "phalanx", "train", *flags]
