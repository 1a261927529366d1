"""A user's own model, named as `path/to/file.py:function` or `package.module:function`."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from phalanx.errors import UsageError

if TYPE_CHECKING:
    from torch import nn

FORMS = "path/to/file.py:function or package.module:function"


@dataclass(frozen=True)
class Source:
    """Where a model comes from: a file, or a module if `file` is None."""

    name: str
    file: Path | None
    module: str
    function: str


def find(name: str) -> Source:
    """The file or module that a model's name stands for, which must exist; it is not run.

    A relative path starts at the current folder, which modules are searched in as well, last.
    """
    source = _parse(name)
    if source.file is None:
        _make_importable(Path.cwd())
        if not _module_exists(source.module):
            raise UsageError(
                f"model {name}: no module {source.module!r} here ({Path.cwd()}) or installed"
            )
    elif not source.file.is_file():
        raise UsageError(f"model {name}: there is no file {source.file}")
    return source


def build(name: str, *, input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Call the user's function and return the module it makes."""
    from torch import nn

    source = find(name)
    function = _function(source)
    available = {"input_shape": input_shape, "classes": classes}
    model = function(**_accepted_by(function, name=name, available=available))
    if not isinstance(model, nn.Module):
        raise UsageError(
            f"model {name}: {source.file or source.module} must return a torch.nn.Module, "
            f"got {type(model).__name__}"
        )
    return model


def _parse(name: str) -> Source:
    target, _, function = name.rpartition(":")
    if function.isidentifier():
        if target.endswith(".py"):
            file = Path(target).resolve()
            return Source(name, file, _module_name(file), function)
        if all(part.isidentifier() for part in target.split(".")):
            return Source(name, None, target, function)
    raise UsageError(f"model {name!r} is not of the form {FORMS}")


def _module_name(file: Path) -> str:
    """A name of its own for each file, the same on every rank so that its classes pickle."""
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    return f"phalanx_user_{digest}_{file.stem}"


def _module_exists(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:
        # A package above may fail on an import of its own: that error is the user's to see.
        missing = error.name or ""
        if module == missing or module.startswith(f"{missing}."):
            return False
        raise


def _function(source: Source) -> Callable[..., object]:
    module = _import(source)
    function: Callable[..., object] | None = getattr(module, source.function, None)
    if not callable(function):
        state = "is not a function" if hasattr(module, source.function) else "is not there"
        raise UsageError(
            f"model {source.name}: {source.function} {state} in {source.file or source.module}"
        )
    return function


def _import(source: Source) -> ModuleType:
    if source.file is None:
        return importlib.import_module(source.module)
    if source.module in sys.modules:
        return sys.modules[source.module]
    # As when Python runs a script, the file may import its neighbours.
    _make_importable(source.file.parent)
    spec = importlib.util.spec_from_file_location(source.module, source.file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look their module up by name.
    sys.modules[source.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[source.module]
        raise
    return module


def _make_importable(folder: Path) -> None:
    """Add a folder at the end of the search path, where it hides nothing installed."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
        importlib.invalidate_caches()


def _accepted_by(
    function: Callable[..., object], *, name: str, available: dict[str, object]
) -> dict[str, object]:
    """The arguments among those available that the function declares."""
    parameters = inspect.signature(function).parameters.values()
    by_keyword = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    for parameter in parameters:
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        given = parameter.name in by_keyword and parameter.name in available
        if not variable and not given and parameter.default is parameter.empty:
            raise UsageError(
                f"model {name}: its parameter {parameter.name!r} needs a default; "
                f"{' and '.join(available)} are what can be passed, by keyword"
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return available
    return {key: value for key, value in available.items() if key in by_keyword}
