"""A user's own objective and callbacks by name: found, and their options read, but not run."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from phalanx import user_code
from phalanx.declared import Declared, read_declared
from phalanx.errors import UsageError
from phalanx.options import check_values, names_of
from phalanx.settings.table import Settings
from phalanx.user_code import Kind, Source
from phalanx.wording import flag

_OBJECTIVE = Kind("objective", made_by="function")
_CALLBACK = Kind("callback", made_by="Class")
#: What an objective is called with; its other parameters are options.
_GIVEN = ("model", "batch")


def find_objective(name: str) -> Source:
    """The file or module that an objective's name stands for, which must exist."""
    return user_code.find(name, _OBJECTIVE)


def find_callback(name: str) -> Source:
    """The file or module that a callback's name stands for, which must exist."""
    return user_code.find(name, _CALLBACK)


def objective_declared(name: str) -> Declared:
    """The options that an objective declares: its parameters with defaults."""
    return read_declared(find_objective(name), without=_GIVEN)


def callback_declared(name: str) -> Declared:
    """The options that a callback declares: its parameters, or fields, with defaults."""
    return read_declared(find_callback(name))


def callback_names(settings: Settings) -> list[str]:
    """The callbacks that are asked for; several have commas between them."""
    return [name.strip() for name in (settings.callback or "").split(",") if name.strip()]


def options_for(declared: Declared, settings: Settings, part: str) -> dict[str, Any]:
    """Of the options that were given for a part of a training, those that this code declares."""
    known, given = names_of(declared.options), settings.own.get(part, {})
    return {name: value for name, value in given.items() if name in known}


def without(settings: Settings, *parts: str) -> Settings:
    """Settings without the code of these parts: a model is used without what it was trained by."""
    own = {part: given for part, given in settings.own.items() if part not in parts}
    return settings.changed(**dict.fromkeys(parts), own=own)


def check_own_training(settings: Settings) -> None:
    """Raise a UsageError for an objective or a callback that is not there, or does not go with
    other choices."""
    if settings.objective is not None:
        _check_beside(settings)
        _check_call(objective_declared(settings.objective))
    objectives = [] if settings.objective is None else [settings.objective]
    _check_part(settings, "objective", map(objective_declared, objectives))
    _check_part(settings, "callback", map(callback_declared, callback_names(settings)))


def _check_call(objective: Declared) -> None:
    if objective.positional is None:
        return
    least, most = objective.positional
    if not least <= len(_GIVEN) <= most:
        raise objective.source.refusal(
            f"{objective.source.place} is called with the model and a batch, and takes "
            f"{most if most < len(_GIVEN) else least} of them: define it as "
            f"{objective.source.attribute}({', '.join(_GIVEN)}); what else it takes needs a default"
        )


def _check_part(settings: Settings, part: str, codes: Iterator[Declared]) -> None:
    declared = [*codes]
    given = settings.own.get(part, {})
    known = {name for one in declared for name in names_of(one.options)}
    unknown = [name for name in given if name not in known]
    if unknown and not declared:
        raise UsageError(f"{flag(unknown[0])} is an option of no {part} here")
    for one in declared:
        one.check(unknown, spell=flag)
        check_values(one.options, given, spell=flag)


def _check_beside(settings: Settings) -> None:
    given = [name for name, is_given in _INSTEAD_OF_LOSS.items() if is_given(settings)]
    if given:
        raise UsageError(
            f"--objective {settings.objective} is what the training makes small, in place of a "
            f"loss: leave out {flag(given[0])}, or --objective"
        )


_INSTEAD_OF_LOSS: Mapping[str, Callable[[Settings], bool]] = {
    "loss": lambda settings: settings.loss is not None,
    "reduction": lambda settings: settings.reduction != "mean",
}
