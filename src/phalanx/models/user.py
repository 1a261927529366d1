"""A user's own model by name: found, and its options read, but not run. Without torch."""

from phalanx import user_code
from phalanx.declared import Declared, read_declared
from phalanx.user_code import Kind, Source

_MODEL = Kind("model", made_by="function")
FORMS = _MODEL.forms
#: What the function is given if it has parameters of these names; all others are options.
GIVEN = ("input_shape", "classes")


def find(name: str) -> Source:
    """The file or module that a model's name stands for, which must exist; it is not run."""
    return user_code.find(name, _MODEL)


def declared(name: str) -> Declared:
    """The options that the function declares: its parameters with defaults."""
    return read_declared(find(name), without=GIVEN)
