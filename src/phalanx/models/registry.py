"""The table of models; their code is imported only when one is built."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from phalanx.errors import UsageError
from phalanx.models import user
from phalanx.models.options import ACTIVATION, HIDDEN, Option
from phalanx.spelling import unknown

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known about a model without building it.

    `module` names the file with its `build`; `fixed` are arguments that this name stands for, so
    that one file serves a family of models.
    """

    name: str
    module: str
    summary: str
    options: tuple[Option, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)


#: The same as in vgg.py and resnet.py, which import torch.
_VGG_DEPTHS = (11, 13, 16, 19)
_RESNET_DEPTHS = (20, 32, 44, 56, 110)


def _vgg(depth: int, *, batch_norm: bool) -> Entry:
    return Entry(
        name=f"vgg{depth}{'-bn' if batch_norm else ''}",
        module="phalanx.models.vgg",
        summary=f"VGG of {depth} layers{' with BatchNorm' if batch_norm else ''}; "
        "for images of 32×32 pixels or more",
        fixed={"depth": depth, "batch_norm": batch_norm},
    )


def _resnet(depth: int) -> Entry:
    return Entry(
        name=f"resnet{depth}",
        module="phalanx.models.resnet",
        summary=f"residual network of {depth} layers, as for CIFAR-10; for small images",
        fixed={"depth": depth},
    )


_ENTRIES = (
    Entry(
        name="mlp",
        module="phalanx.models.mlp",
        summary="fully connected layers over inputs of any shape",
        options=(HIDDEN, ACTIVATION),
    ),
    Entry(
        name="simplecnn",
        module="phalanx.models.simplecnn",
        summary="two 3×3 convolutions, one pooling, two linear layers; for images",
    ),
    *(_vgg(depth, batch_norm=batch_norm) for batch_norm in (False, True) for depth in _VGG_DEPTHS),
    *(_resnet(depth) for depth in _RESNET_DEPTHS),
)

_TABLE = {entry.name: entry for entry in _ENTRIES}


def model_names() -> tuple[str, ...]:
    """The names of the built-in models; `check` and `build` take user models besides."""
    return tuple(_TABLE)


def describe() -> tuple[Entry, ...]:
    """Every built-in model's entry, in the order to list them."""
    return _ENTRIES


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

    Weights come from torch's current random state. A user's function gets whichever of
    `input_shape` and `classes` it declares; what it raises comes through as it is.
    """
    check(name, options)
    if ":" in name:
        return user.build(name, input_shape=input_shape, classes=classes)
    entry = _entry(name)
    module = importlib.import_module(entry.module)
    model: nn.Module = module.build(
        input_shape=input_shape, classes=classes, **entry.fixed, **(options or {})
    )
    return model


def _check_options(name: str, options: Mapping[str, object], *, takes: tuple[Option, ...]) -> None:
    accepted = {option.name: option for option in takes}
    for key, value in options.items():
        if key not in accepted:
            takes_what = f"takes {', '.join(accepted)}" if accepted else "takes no options"
            raise UsageError(f"model {name} {takes_what}, got {key}={value!r}")
        accepted[key].check(value)


def _entry(name: str) -> Entry:
    if name in _TABLE:
        return _TABLE[name]
    raise unknown("model", name, known=_TABLE, note=f"; your own is named as {user.FORMS}")
