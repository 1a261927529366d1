"""What a user may choose, declared once: that gives the flag, the config key, the argument in
Python, the check and the help.

Whoever takes an option declares it: a strategy, a model, a data set, or a training as such. Nothing
here imports torch: options are read and checked before any rank starts.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from phalanx.errors import UsageError
from phalanx.kinds import convert, in_words, is_of
from phalanx.wording import Spelling, argument, nearest


@dataclass(frozen=True)
class Option:
    """One choice and what it takes; see `phalanx.kinds` for the kinds of values."""

    name: str
    kind: Any
    help: str
    _: KW_ONLY
    default: Any = None
    #: The default for people, where the value says too little.
    default_words: str = ""
    choices: tuple[str, ...] = ()
    #: Limits of numbers, each of them if there are several.
    at_least: float | None = None
    above: float | None = None
    below: float | None = None
    #: What else must be: raises a UsageError for a value, given how the option is spelt.
    rule: Callable[[Any, str], None] | None = None

    def check(self, value: Any, *, spell: Spelling = argument) -> None:
        """Raise a UsageError for a value that this option does not take."""
        if value is None:
            return
        if not is_of(value, self.kind):
            raise self._refusal(value, spell)
        if isinstance(value, str) and self.choices and value not in self.choices:
            near = nearest(value, self.choices)
            hint = f": did you mean '{near}'?" if near else ""
            known = ", ".join(self.choices)
            raise UsageError(f"{spell(self.name)} must be one of {known}, not '{value}'{hint}")
        numbers = value if isinstance(value, list | tuple) else [value]
        if not all(self._is_within(number) for number in numbers):
            raise self._refusal(value, spell)
        if self.rule is not None:
            self.rule(value, spell(self.name))

    def convert(self, value: Any, *, where: str) -> Any:
        """The value as its kind wants it, from a flag or from a file; `where` it stands."""
        return convert(value, self.kind, where=where)

    @property
    def text(self) -> str:
        """What it is for, its choices and its default, for people."""
        text = self.help
        if self.choices:
            text += f"{'' if text.endswith('.') else '.'} One of: {', '.join(self.choices)}."
        default = self.default_words or self._default_text()
        return f"{text} [default: {default}]".strip() if default else text

    def _default_text(self) -> str:
        if isinstance(self.default, bool):
            return "on" if self.default else ""
        values = self.default if isinstance(self.default, tuple) else (self.default,)
        return "" if self.default is None else ",".join(map(str, values))

    def _is_within(self, value: Any) -> bool:
        limited = (self.at_least, self.above, self.below) != (None, None, None)
        if not limited or isinstance(value, str):
            return True
        return (
            (isinstance(value, int) or math.isfinite(value))
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def _refusal(self, value: Any, spell: Spelling) -> UsageError:
        wanted = self._limits()
        if isinstance(value, list | tuple) or not is_of(value, self.kind):
            kind = in_words(self.kind)
            wanted = f"{kind}, {wanted}" if wanted and not isinstance(value, str) else kind
        return UsageError(f"{spell(self.name)} must be {wanted}, not {value!r}")

    def _limits(self) -> str:
        least, above, below = map(_number, (self.at_least, self.above, self.below))
        if least and below:
            return f"from {least} to below {below}"
        if above and below:
            return f"above {above} and below {below}"
        if least:
            return "0 or more" if least == "0" else f"at least {least}"
        return f"above {above}" if above else f"below {below}" if below else ""


def check_values(
    options: Iterable[Option], values: Mapping[str, Any], *, spell: Spelling = argument
) -> None:
    """Raise a UsageError for the first value that its option does not take."""
    for option in options:
        option.check(values.get(option.name), spell=spell)


def names_of(options: Iterable[Option]) -> tuple[str, ...]:
    """What the options are called in Python."""
    return tuple(option.name for option in options)


def is_switch(option: Option) -> bool:
    """Whether it is on or off, and off if nobody says otherwise: a `bool | None` may be neither."""
    return option.kind is bool


def was_given(option: Option, value: object) -> bool:
    """Whether somebody chose a value: where nobody did, it is None, or False for a switch."""
    return value is not None and not (value is False and is_switch(option))


def _number(value: float | None) -> str:
    """A limit for people: large powers of two as such."""
    if value is None:
        return ""
    if isinstance(value, int) and value > 1 << 20 and value.bit_count() == 1:
        return f"2^{value.bit_length() - 1}"
    return f"{value:g}"
