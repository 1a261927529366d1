"""A user's own strategy: a class that derives from `phalanx.Strategy`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from phalanx import user_code
from phalanx.user_code import Kind, Source

if TYPE_CHECKING:
    from phalanx.strategies.base import Strategy

_STRATEGY = Kind("strategy", made_by="Class")
FORMS = _STRATEGY.forms


def find(name: str) -> Source:
    """The file or module that a strategy's name stands for, which must exist; it is not run."""
    return user_code.find(name, _STRATEGY)


def make(name: str) -> Strategy:
    """The user's strategy, with the defaults of all its fields."""
    source = find(name)
    strategy = _class(source)
    for parameter in inspect.signature(strategy).parameters.values():
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not variable and parameter.default is parameter.empty:
            raise source.refusal(
                f"its field {parameter.name!r} needs a default; or pass an instance to a Trainer"
            )
    return strategy()


def _class(source: Source) -> type[Strategy]:
    from phalanx.strategies.base import Strategy

    found = user_code.load(source)
    if not isinstance(found, type) or not issubclass(found, Strategy):
        what = (
            f"the class {found.__name__}"
            if isinstance(found, type)
            else f"of type {type(found).__name__}"
        )
        raise source.refusal(
            f"{source.attribute} in {source.place} must be a class that derives from "
            f"phalanx.Strategy, and it is {what}"
        )
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise source.refusal(f"{source.attribute} in {source.place} lacks {missing}")
    return found
