"""A user's own objective and callbacks, as `phalanx train` has them: named, loaded on ranks."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx import user_code
from phalanx.settings.own_training import (
    callback_declared,
    callback_names,
    find_callback,
    find_objective,
    objective_declared,
    options_for,
)
from phalanx.settings.table import Settings
from phalanx.strategies.base import Objective
from phalanx.train.companions.callbacks import Callback

if TYPE_CHECKING:
    from phalanx.train.session import Session

#: What a run in a folder, if it has one, is to be accompanied by besides.
Callbacks = Callable[["Session", Path | None], Sequence[Callback]]


def objective_of(settings: Settings) -> Objective | None:
    """The function of the model and a batch that the settings name, with its options.

    It may also be a `phalanx.Objective`, which says what it is a mean over.
    """
    if settings.objective is None:
        return None
    source = find_objective(settings.objective)
    found = user_code.load(source)
    if isinstance(found, Objective):
        return Objective(found.function, found.weigh, answers=True)
    function = user_code.load_function(source)
    options = options_for(objective_declared(settings.objective), settings, "objective")
    named = partial(function, **options) if options else function
    return Objective(named, assumed=True, answers=True)


def callbacks_of(settings: Settings) -> list[Callback]:
    """A callback of each class that the settings name, with its options."""
    return [
        user_code.load_class(find_callback(name), Callback)(
            **options_for(callback_declared(name), settings, "callback")
        )
        for name in callback_names(settings)
    ]
