"""A user's own strategy by name: found, and its options read, but not run. Without torch."""

from phalanx import user_code
from phalanx.declared import Declared, read_declared
from phalanx.user_code import Kind, Source

_STRATEGY = Kind("strategy", made_by="Class")
FORMS = _STRATEGY.forms


def find(name: str) -> Source:
    """The file or module that a strategy's name stands for, which must exist; it is not run."""
    return user_code.find(name, _STRATEGY)


def declared(name: str) -> Declared:
    """The options that the class declares: its fields with defaults."""
    return read_declared(find(name))
