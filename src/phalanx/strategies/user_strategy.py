"""A user's own strategy: a class that derives from `phalanx.Strategy`."""

from collections.abc import Mapping
from typing import Any

from phalanx import user_code
from phalanx.strategies.base import Strategy
from phalanx.strategies.user import find


def make(name: str, options: Mapping[str, Any]) -> Strategy:
    """The user's strategy with these options, and the defaults of all other fields."""
    return user_code.load_class(find(name), Strategy)(**options)  # type: ignore[type-abstract]
