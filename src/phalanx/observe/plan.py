"""The trainings of a comparison, planned before the first one starts: the same but for the way.

Nothing here imports torch, unless a device other than the CPU is asked for.
"""

import dataclasses
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.comm.launch.process import available_cores
from phalanx.errors import PhalanxError, UsageError
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies import registry
from phalanx.wording import unknown

CPU = "cpu"
_CUDA = "cuda"
_FIELDS = {field.name: field for field in dataclasses.fields(Settings)}


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
        flags = train_flags(dataclasses.replace(self.settings, output=None, profile=True))
        return [*flags, f"--device={self.device}"]


def train_flags(settings: Settings) -> list[str]:
    """The flags that give `phalanx train` these settings."""
    flags = []
    for name, field in _FIELDS.items():
        value = getattr(settings, name)
        flag = "--" + name.replace("_", "-")
        if value == field.default:
            continue
        if isinstance(value, bool):
            flags.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            flags.append(f"{flag}={','.join(map(str, value))}")
        else:
            flags.append(f"{flag}={value}")
    return flags


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
    common = _without_options(
        settings,
        # By the rank, a batch would depend on the ranks.
        batch_size=settings.batch(ranks),
        batch_size_per_rank=None,
        profile=False,
        output=None,
    )
    planned = []
    for device in devices:
        for name in sorted(dict.fromkeys(names), key=lambda name: name != "single"):
            if name == "single":
                planned += _baselines(common, device)
                continue
            entry = registry.STRATEGIES.get(name)
            own = {key: value for key, value in options.items() if entry and key in entry.options}
            asked = dataclasses.replace(common, strategy=name, ranks=ranks, **own)
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
            dataclasses.replace(common, strategy="single", ranks=1, threads=threads),
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
    if ranks < 1:
        raise UsageError(f"--ranks must be at least 1, not {ranks}")
    for name in names:
        if name not in registry.STRATEGIES:  # a user's own, or unknown
            registry.check(name, ranks)
    check_settings(_without_options(settings, strategy="single", ranks=1), 1)


def _check_options(options: dict[str, Any], names: Iterable[str]) -> None:
    """Raise for an option that none of the strategies has, or a value that none can take."""
    chosen = [registry.STRATEGIES[name] for name in names if name in registry.STRATEGIES]
    for name, value in options.items():
        owner = next((entry for entry in chosen if name in entry.options), None)
        if owner is None:
            owners = [one.name for one in registry.STRATEGIES.values() if name in one.options]
            raise UsageError(
                f"--{name.replace('_', '-')} is an option of {' and '.join(owners)}, and the "
                f"strategies to compare are {', '.join(names)}: add one, or leave out the option"
            )
        alone = Settings(strategy=owner.name, **{name: value})
        check_settings(alone, max(2, owner.least_ranks))


def _without_options(settings: Settings, **changes: Any) -> Settings:
    defaults: dict[str, Any] = {name: _FIELDS[name].default for name in registry.OPTIONS}
    return dataclasses.replace(settings, **(defaults | changes))


def missing_device(device: str) -> str | None:
    """Why there is no training on a device here, or None if there is."""
    if device not in (CPU, _CUDA):
        raise unknown("device", device, known=(CPU, _CUDA))
    import torch

    return None if device == CPU or torch.cuda.is_available() else "no such device here"


def command(flags: Iterable[str]) -> list[str]:
    """The command that trains with these flags, in a process of its own."""
    return [sys.executable, "-m", "phalanx", "train", *flags]
