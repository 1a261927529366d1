"""A user's own strategy: a class that derives from `phalanx.Strategy`."""

import inspect
from collections.abc import Mapping
from typing import Any

from phalanx import user_code
from phalanx.strategies.base import Strategy
from phalanx.strategies.user import find
from phalanx.user_code import Source


def make(name: str, options: Mapping[str, Any]) -> Strategy:
    """The user's strategy with these options, and the defaults of all other fields."""
    source = find(name)
    strategy = _class(source)
    for parameter in inspect.signature(strategy).parameters.values():
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not variable and parameter.default is parameter.empty:
            raise source.refusal(
                f"its field {parameter.name!r} needs a default; or pass an instance to a Trainer"
            )
    return strategy(**options)


def _class(source: Source) -> type[Strategy]:
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
