"""What a check gives: findings, each of them fine, odd or broken."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from phalanx.observe.doctor.scope import Scope

#: In the order of their weight.
Verdict = Literal["fine", "odd", "broken"]


@dataclass(frozen=True)
class Finding:
    """One line about one thing."""

    name: str
    verdict: Verdict
    #: What was found; for what is odd or broken, why it is.
    said: str
    #: What to do about it.
    advice: str = ""
    #: The same for programs: numbers, paths, versions.
    facts: Mapping[str, Any] = field(default_factory=dict)


#: Gives one finding, or several about one thing.
Check = Callable[["Scope"], Iterator[Finding]]


class Group(NamedTuple):
    """Checks about one thing, under one heading."""

    title: str
    checks: tuple[Check, ...]


def fine(name: str, said: str, **facts: Any) -> Finding:
    """As it should be."""
    return Finding(name, "fine", said, facts=facts)


def odd(name: str, said: str, advice: str, **facts: Any) -> Finding:
    """Trainings run, but perhaps slower, or not in every way that there is."""
    return Finding(name, "odd", said, advice, facts)


def broken(name: str, said: str, advice: str, **facts: Any) -> Finding:
    """Something that is there, or must be, does not work."""
    return Finding(name, "broken", said, advice, facts)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The one with the most weight; fine, if there are none."""
    return max(verdicts, key=get_args(Verdict).index, default="fine")
