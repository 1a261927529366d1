"""The options that a user's own code declares, read from its text: the code is not run.

They are the fields of a dataclass, or the parameters of a function or of a class's `__init__`, that
have a default. What a field or parameter takes is what its annotation says, or else what its
default is; one of another kind is no option. A comment above it that begins with `#:` is its help.
"""

import ast
import importlib.util
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.errors import UsageError
from phalanx.kinds import alternatives
from phalanx.options import Option, names_of
from phalanx.user_code import Source
from phalanx.wording import Spelling

_KINDS: dict[str, Any] = {"int": int, "float": float, "bool": bool, "str": str, "Path": Path}
_TUPLES: dict[str, Any] = {"int": tuple[int, ...], "str": tuple[str, ...]}
#: A default that there is, but that only running the code would tell.
_COMPUTED = object()

_Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Declared:
    """What a user's code declares; with an obstacle, nothing is known about that."""

    source: Source
    options: tuple[Option, ...] = ()
    obstacle: str = ""
    #: How many values a function can be called with at least and at most, by position; None if
    #: that is not known, or without end.
    positional: tuple[int, int] | None = None

    def check(self, given: Collection[str], *, spell: Spelling) -> None:
        """Raise a UsageError for the name of an option that is not declared."""
        known = names_of(self.options)
        for name in given:
            if name not in known:
                takes = self.obstacle or f"it takes {', '.join(known) or 'none'}"
                raise self.source.refusal(f"{spell(name)} is no option of it: {takes}")


def read_declared(source: Source, *, without: Collection[str] = ()) -> Declared:
    """The options that the code at a source declares, but for names that are given to it anyway."""
    try:
        file = _file(source)
        text = file.read_text(encoding="utf-8")
        found = _definition(ast.parse(text), source.attribute, file=file)
    except (OSError, SyntaxError, ValueError, UsageError) as error:
        return Declared(source, obstacle=f"its options cannot be read without running it: {error}")
    lines = text.splitlines()
    options = [_option(one, lines) for one in _parameters(*found) if one.name not in without]
    declared = tuple(option for option in options if option is not None)
    return Declared(source, declared, positional=_positional(found[0]))


def _positional(node: _Definition) -> tuple[int, int] | None:
    if not isinstance(node, ast.FunctionDef) or node.args.vararg is not None:
        return None
    most = len(node.args.posonlyargs) + len(node.args.args)
    return most - len(node.args.defaults), most


def _file(source: Source) -> Path:
    if source.file is not None:
        return source.file
    spec = importlib.util.find_spec(source.module)
    origin = None if spec is None else spec.origin
    if origin is None or not origin.endswith(".py"):
        raise UsageError(f"module {source.module} is no file of Python code")
    return Path(origin)


def _definition(
    tree: ast.Module, name: str, *, file: Path
) -> tuple[_Definition, dict[str, ast.ClassDef]]:
    """The function or class of a name, and all classes beside it."""
    defined = {
        node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    if name not in defined:
        raise UsageError(f"{file} has no def and no class of the name {name}")
    classes = {key: one for key, one in defined.items() if isinstance(one, ast.ClassDef)}
    return defined[name], classes


@dataclass(frozen=True)
class _Parameter:
    name: str
    annotation: ast.expr | None
    default: Any
    line: int


def _parameters(node: _Definition, classes: dict[str, ast.ClassDef]) -> Iterator[_Parameter]:
    if isinstance(node, ast.FunctionDef):
        yield from _of_function(node)
        return
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            yield from _of_function(part)
            return
    found: dict[str, _Parameter] = {}
    for base in node.bases:  # of the same file: what others declare, their own files say
        if isinstance(base, ast.Name) and base.id in classes and base.id != node.name:
            found |= {one.name: one for one in _parameters(classes[base.id], classes)}
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        found |= {one.name: one for one in _fields(node)}
    yield from found.values()


def _of_function(node: ast.FunctionDef) -> Iterator[_Parameter]:
    named, keywords = node.args.args, node.args.kwonlyargs
    defaults = [None] * (len(named) + len(node.args.posonlyargs)) + [*node.args.defaults]
    pairs = [*zip(reversed(named), reversed(defaults), strict=False)][::-1]
    for one, default in [*pairs, *zip(keywords, node.args.kw_defaults, strict=True)]:
        if default is not None:
            yield _Parameter(one.arg, one.annotation, _literal(default), one.lineno)


def _fields(node: ast.ClassDef) -> Iterator[_Parameter]:
    for part in node.body:
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        value: ast.expr | None = part.value
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field"):
            words = {word.arg: word.value for word in value.keywords}
            if "init" in words or not {"default", "default_factory"} & set(words):
                continue
            value = words.get("default", value)
        if value is not None and "ClassVar" not in ast.unparse(part.annotation):
            yield _Parameter(part.target.id, part.annotation, _literal(value), part.lineno)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return _COMPUTED


def _option(found: _Parameter, lines: list[str]) -> Option | None:
    kind, choices = _kind(found.annotation)
    if kind is None:
        kind = _kind_of_value(found.default)
    if kind is None or len(alternatives(kind)) != 1:
        return None
    computed = found.default is _COMPUTED
    return Option(
        found.name,
        kind,
        _comment(lines, found.line),
        default=None if computed else found.default,
        default_words="as the code says" if computed else "",
        choices=choices,
    )


def _kind(node: ast.expr | None) -> tuple[Any, tuple[str, ...]]:
    """What an annotation stands for, None if for nothing known; and the texts of a Literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        with suppress(SyntaxError):  # what is no annotation stands for nothing
            node = ast.parse(node.value, mode="eval").body
    if isinstance(node, ast.Attribute):  # as in typing.Literal or pathlib.Path
        node = ast.Name(node.attr)
    if isinstance(node, ast.Name):
        return _KINDS.get(node.id), ()
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        sides = [side for side in (node.left, node.right) if ast.unparse(side) != "None"]
        return _kind(sides[0]) if len(sides) == 1 else (None, ())
    if not isinstance(node, ast.Subscript):
        return None, ()
    outer, inner = ast.unparse(node.value).rpartition(".")[2], node.slice
    if outer == "Optional":
        return _kind(inner)
    if outer in ("tuple", "Tuple", "Sequence", "list"):
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        items = {ast.unparse(part) for part in parts} - {"..."}
        return _TUPLES.get(items.pop()) if len(items) == 1 else None, ()
    values = _literal(inner) if outer == "Literal" else None
    texts = values if isinstance(values, tuple) else (values,)
    return (str, texts) if all(isinstance(text, str) for text in texts) else (None, ())


def _kind_of_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple[int, ...] if value and all(type(one) is int for one in value) else None
    return type(value) if type(value) in (bool, int, float, str) else None


def _comment(lines: list[str], line: int) -> str:
    """The `#:` comment right above a line, as one sentence."""
    words: list[str] = []
    for above in reversed(lines[: line - 1]):
        if not above.strip().startswith("#:"):
            break
        words.insert(0, above.strip().removeprefix("#:").strip())
    return " ".join(words)
