"""The table of models; their code is imported only when one is built."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from phalanx.errors import UsageError
from phalanx.models import initial, user
from phalanx.models.entries import ENTRIES, ModelEntry
from phalanx.models.options import INIT
from phalanx.options import Option, check_values, names_of
from phalanx.wording import Spelling, argument, unknown

if TYPE_CHECKING:
    from torch import nn


_TABLE = {entry.name: entry for entry in ENTRIES}


def model_names() -> tuple[str, ...]:
    """The names of the built-in models; `check` and `build` take user models besides."""
    return tuple(_TABLE)


def describe() -> tuple[ModelEntry, ...]:
    """Every built-in model's entry, in the order to list them."""
    return ENTRIES


def check(
    name: str, options: Mapping[str, object] | None = None, *, spell: Spelling = argument
) -> None:
    """Raise a UsageError for an unknown model or options it does not take; build nothing.

    A name with a colon is a user's model, `path/to/file.py:function` or `package.module:function`:
    its file or module must be there. Finding a module imports the packages above it.
    """
    given = dict(options or {})
    if ":" in name:
        declared = user.declared(name)
        declared.check([key for key in given if key != INIT.name], spell=spell)
        check_values((*declared.options, INIT), given, spell=spell)
    else:
        _check_options(name, given, takes=_entry(name).options, spell=spell)


def build(
    name: str,
    *,
    input_shape: tuple[int, ...],
    classes: int,
    options: Mapping[str, object] | None = None,
) -> nn.Module:
    """Build a model for samples of `input_shape`, with one output a class.

    Weights come from torch's current random state, as the option `init` says; see
    `phalanx.models.initialise`. A user's function gets whichever of `input_shape` and `classes` it
    declares, and the options; what it raises comes through as it is.
    """
    check(name, options)
    given = dict(options or {})
    init = given.pop(INIT.name, initial.OWN)
    if ":" in name:
        own = importlib.import_module("phalanx.models.user_model")
        model: nn.Module = own.build(name, given, input_shape=input_shape, classes=classes)
    else:
        model = _build(_entry(name), given, input_shape=input_shape, classes=classes)
    importlib.import_module("phalanx.models.initialise").initialise(model, str(init))
    return model


def _build(
    entry: ModelEntry, options: Mapping[str, object], *, input_shape: tuple[int, ...], classes: int
) -> nn.Module:
    module = importlib.import_module(entry.module)
    build = partial(
        module.build, input_shape=input_shape, classes=classes, **entry.fixed, **options
    )
    model: nn.Module = importlib.import_module("phalanx.models.sized").build_sized(
        entry.name, build
    )
    return model


def _check_options(
    name: str, options: Mapping[str, object], *, takes: tuple[Option, ...], spell: Spelling
) -> None:
    accepted = (*takes, INIT)
    for key, value in options.items():
        if key not in names_of(accepted):
            known = ", ".join(map(spell, names_of(accepted)))
            takes_what = known if takes else f"no options but {spell(INIT.name)}"
            raise UsageError(f"model {name} takes {takes_what}, not {spell(key)}={value!r}")
    check_values(accepted, options, spell=spell)


def _entry(name: str) -> ModelEntry:
    if name in _TABLE:
        return _TABLE[name]
    raise unknown("model", name, known=_TABLE, note=f"; your own is named as {user.FORMS}")
