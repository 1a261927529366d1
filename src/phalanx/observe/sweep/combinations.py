"""The trainings of a sweep, planned before the first one starts: what each is, and whether it can
be."""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from phalanx.errors import PhalanxError, UsageError
from phalanx.observe.plan import train_flags
from phalanx.observe.sweep.axes import Axis, shown
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.wording import counted, key

#: Names of folders are no longer than this, whatever the values.
_LONGEST = 120
#: More is a slip.
_MOST = 1_000


@final
@dataclass(frozen=True)
class Combination:
    """One training of a sweep; `settings` are all of them, `values` those that vary."""

    number: int
    values: Mapping[str, Any]
    settings: Settings
    #: Why it cannot be trained, as far as that is known beforehand.
    refusal: str | None = None

    @property
    def title(self) -> str:
        """What tells it from the others, such as: ranks=2 hidden=300,300."""
        return " ".join(f"{key(name)}={shown(value)}" for name, value in self.values.items())

    @property
    def folder(self) -> str:
        """The name of its run's folder, such as 03-ranks=2,hidden=300x300."""
        words = (
            f"{key(name)}={re.sub(r'[^A-Za-z0-9._+-]+', '-', shown(value).replace(',', 'x'))}"
            for name, value in self.values.items()
        )
        return f"{self.number:02}-{','.join(words)}"[:_LONGEST]

    @property
    def ranks(self) -> int:
        return self.settings.ranks or 1

    def flags(self) -> list[str]:
        """What to call `phalanx train` with, the run's folder aside."""
        return train_flags(self.settings)


def combine(
    axes: Sequence[Axis], settings_with: Callable[[Mapping[str, Any]], Settings]
) -> list[Combination]:
    """All combinations of the values, the last axis fastest; `settings_with` those of each.

    Raises for two that are the same training.
    """
    found: list[Combination] = []
    for number, values in enumerate(_products(axes), start=1):
        try:
            settings = settings_with(values)
        except PhalanxError as error:  # as flags are refused that do not go together
            found.append(Combination(number, values, Settings(), str(error)))
            continue
        found.append(planned(number, values, settings))
    _check_different(found)
    return found


def planned(number: int, values: Mapping[str, Any], settings: Settings) -> Combination:
    """One training, with the reason why it cannot be if there is one."""
    try:
        check_settings(settings, settings.ranks or 1)
    except PhalanxError as error:
        return Combination(number, values, settings, str(error))
    return Combination(number, values, settings)


def check_refusals(combinations: Sequence[Combination], *, skip: bool) -> None:
    """Raise if some cannot be trained, unless they are to be left out, or none is left."""
    reasons: dict[str, list[str]] = {}
    for one in combinations:
        if one.refusal is not None:
            reasons.setdefault(one.refusal, []).append(one.title)
    refused = sum(map(len, reasons.values()))
    if not refused or (skip and refused < len(combinations)):
        return
    if refused == len(combinations) and len(reasons) == 1:
        raise UsageError(next(iter(reasons)))
    lines = [f"  {'; '.join(titles)}: {reason}" for reason, titles in reasons.items()]
    left = "vary something else"
    if refused < len(combinations):
        left += ", or leave them out with --skip-refused"
    many = f"{refused} of {counted(len(combinations), 'combination')} cannot be trained"
    raise UsageError("\n".join((f"{many}: {left}:", *lines)))


def _products(axes: Sequence[Axis]) -> Iterator[dict[str, Any]]:
    count = 1
    for number, axis in enumerate(axes):
        count *= len(axis.values)
        if axis.name in (one.name for one in axes[:number]):
            raise UsageError(f"--vary {key(axis.name)}: stands there twice: name all values once")
    if count > _MOST:
        raise UsageError(f"these are {count:,} combinations, and {_MOST:,} at most are trained")
    for values in itertools.product(*(axis.values for axis in axes)):
        yield {axis.name: value for axis, value in zip(axes, values, strict=True)}


def _check_different(combinations: Sequence[Combination]) -> None:
    """Raise for values that only differ in how they are written: `ddp` and `allreduce`."""
    seen: dict[str, Combination] = {}
    for one in combinations:
        other = seen.setdefault(repr(one.settings), one)
        if other is not one and one.refusal is None:
            raise UsageError(f"{other.title} and {one.title} are the same training: leave one out")
