"""The table of models; their code is imported only when one is built."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from phalanx.errors import UsageError
from phalanx.models import initial, user
from phalanx.models.entries import ENTRIES, ModelEntry
from phalanx.models.options import INIT, Option
from phalanx.wording import unknown

if TYPE_CHECKING:
    from torch import nn


_TABLE = {entry.name: entry for entry in ENTRIES}


def model_names() -> tuple[str, ...]:
    """The names of the built-in models; `check` and `build` take user models besides."""
    return tuple(_TABLE)


def describe() -> tuple[ModelEntry, ...]:
    """Every built-in model's entry, in the order to list them."""
    return ENTRIES


def check(name: str, options: Mapping[str, object] | None = None) -> None:
    """Raise a UsageError for an unknown model or options it does not take; build nothing.

    A name with a colon is a user's model, `path/to/file.py:function` or `package.module:function`:
    its file or module must be there. Finding a module imports the packages above it.
    """
    given = options or {}
    if ":" in name:
        _check_options(name, given, takes=())
        user.find(name)
    else:
        _check_options(name, given, takes=_entry(name).options)


def build(
    name: str,
    *,
    input_shape: tuple[int, ...],
    classes: int,
    options: Mapping[str, object] | None = None,
) -> nn.Module:
    """Build a model for samples of `input_shape`, with one output a class.

    Weights come from torch's current random state, as the option `init` says; see
    `phalanx.models.initial`. A user's function gets whichever of `input_shape` and `classes` it
    declares; what it raises comes through as it is.
    """
    check(name, options)
    given = dict(options or {})
    init = given.pop(INIT.name, initial.OWN)
    if ":" in name:
        model = user.build(name, input_shape=input_shape, classes=classes)
    else:
        model = _build(_entry(name), given, input_shape=input_shape, classes=classes)
    initial.initialise(model, str(init))
    return model


def _build(
    entry: ModelEntry, options: Mapping[str, object], *, input_shape: tuple[int, ...], classes: int
) -> nn.Module:
    module = importlib.import_module(entry.module)
    model: nn.Module = module.build(
        input_shape=input_shape, classes=classes, **entry.fixed, **options
    )
    return model


def _check_options(name: str, options: Mapping[str, object], *, takes: tuple[Option, ...]) -> None:
    accepted = {option.name: option for option in (*takes, INIT)}
    for key, value in options.items():
        if key not in accepted:
            takes_what = ", ".join(accepted) if takes else f"no options but {INIT.name}"
            raise UsageError(f"model {name} takes {takes_what}, got {key}={value!r}")
        accepted[key].check(value)


def _entry(name: str) -> ModelEntry:
    if name in _TABLE:
        return _TABLE[name]
    raise unknown("model", name, known=_TABLE, note=f"; your own is named as {user.FORMS}")
