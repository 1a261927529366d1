"""A user's own code, named as `path/to/file.py:name` or `package.module:name`.

A name is found before any rank starts, without running the code; ranks then load it.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from phalanx.errors import UsageError
from phalanx.wording import shortened

_Class = TypeVar("_Class")


@dataclass(frozen=True)
class Kind:
    """What is looked for: a model made by a function, for one."""

    name: str
    made_by: str

    @property
    def forms(self) -> str:
        """How a user names it."""
        return f"path/to/file.py:{self.made_by} or package.module:{self.made_by}"


@dataclass(frozen=True)
class Source:
    """Where code comes from: a file, or a module if `file` is None."""

    kind: Kind
    name: str
    file: Path | None
    module: str
    attribute: str

    def refusal(self, cause: str) -> UsageError:
        """The error that says why it cannot be used."""
        return UsageError(f"{self.kind.name} {self.name}: {cause}")

    @property
    def place(self) -> str:
        """The file or module, for messages."""
        return str(self.file or self.module)


def find(name: str, kind: Kind) -> Source:
    """The file or module that a name stands for, which must exist; it is not run.

    A file is read: it must be Python, and have something of that name as far as its text tells. A
    relative path starts at the current folder, which modules are searched in as well, last.
    """
    source = _parse(name, kind)
    if source.file is None:
        _make_importable(Path.cwd())
        if not _module_exists(source.module):
            raise source.refusal(f"no module {source.module!r} here ({Path.cwd()}) or installed")
    elif not source.file.is_file():
        raise source.refusal(f"there is no file {source.file}")
    else:
        _check_text(source, source.file)
    return source


def load(source: Source) -> object:
    """Run the file or module, once in a process; what it calls by the name."""
    module = _import(source)
    if not hasattr(module, source.attribute):
        raise _not_there(source)
    found: object = getattr(module, source.attribute)
    return found


def load_function(source: Source) -> Callable[..., object]:
    """Run the file or module, once in a process; the function, or class, that it calls so."""
    function = load(source)
    if not callable(function):
        raise source.refusal(f"{source.attribute} is not a function in {source.place}")
    return function


def load_class(source: Source, base: type[_Class]) -> type[_Class]:
    """Run the file or module, once in a process; the class of that name, which derives from one of
    ours and can be made without arguments."""
    found = load(source)
    place = f"{source.attribute} in {source.place}"
    if not isinstance(found, type) or not issubclass(found, base):
        what = f"of type {type(found).__name__}"
        if isinstance(found, type):
            what = f"the class {found.__name__}"
        raise source.refusal(
            f"{place} must be a class that derives from phalanx.{base.__name__}, and it is {what}"
        )
    if inspect.isabstract(found):
        missing: Iterable[str] = getattr(found, "__abstractmethods__", ())
        raise source.refusal(f"{place} lacks {', '.join(sorted(missing))}")
    for parameter in inspect.signature(found).parameters.values():
        variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if not variable and parameter.default is parameter.empty:
            raise source.refusal(
                f"its field {parameter.name!r} needs a default; or pass an instance to a Trainer"
            )
    return found


def arguments(
    function: Callable[..., object], *, source: Source, available: Mapping[str, object]
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
            raise source.refusal(
                f"its parameter {parameter.name!r} needs a default; "
                f"{' and '.join(available)} are what can be passed, by keyword"
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(available)
    return {key: value for key, value in available.items() if key in by_keyword}


def _check_text(source: Source, file: Path) -> None:
    """Refuse a file that no rank could load this from, as far as its text tells."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else str(file)
        text = f": {shortened(error.text.strip())}" if error.text else ""
        raise source.refusal(f"{where}: not Python: {error.msg}{text}") from error
    except (OSError, ValueError) as error:  # of bytes that are no text
        raise source.refusal(f"{file} cannot be read: {error}") from error
    names = set(_names(tree))
    if source.attribute not in names and not names & _ANY_NAME:
        raise _not_there(source)


#: What a file can get names by that its text does not tell.
_ANY_NAME = {"*", "__getattr__", "globals", "vars", "locals", "exec", "setattr", "modules"}


def _names(tree: ast.AST) -> Iterator[str]:
    """All names in a file: those that are bound, and the others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.partition(".")[0]
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name is not None:
            yield node.name


def _not_there(source: Source) -> UsageError:
    return source.refusal(f"{source.attribute} is not there in {source.place}")


def _parse(name: str, kind: Kind) -> Source:
    target, _, attribute = name.rpartition(":")
    if attribute.isidentifier():
        if target.endswith(".py"):
            file = Path(target).resolve()
            return Source(kind, name, file, _module_name(file), attribute)
        if all(part.isidentifier() for part in target.split(".")):
            return Source(kind, name, None, target, attribute)
    raise UsageError(f"{kind.name} {name!r} is not of the form {kind.forms}")


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
