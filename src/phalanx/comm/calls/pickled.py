"""Anything as bytes, for a process of ours: functions by value, and storage of tensors once.

Plain pickle sends, with each tensor, all of the memory that it is a view of, and the parameters of
a trained model may all be views of the same.
"""

import inspect
import io
import linecache
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import cloudpickle

from phalanx.errors import UsageError

#: What bytes begin with: those of pickle, and those of `torch.save`.
_PLAIN, _TENSORS = b"p", b"t"


class _HasTensorsError(Exception):
    pass


class _Plain(cloudpickle.Pickler):  # type: ignore[misc]
    """For what holds no tensors; who reads it need not import torch."""

    def persistent_id(self, value: Any) -> None:
        if type(value).__module__ == "torch.storage":
            raise _HasTensorsError


def dumps(value: Any) -> bytes:
    """The bytes of a value; whatever pickle raises if it cannot be sent."""
    written = io.BytesIO()
    written.write(_PLAIN)
    try:
        _Plain(written).dump(value)
    except _HasTensorsError:
        import torch

        written = io.BytesIO()
        written.write(_TENSORS)
        torch.save(value, written, pickle_module=cloudpickle, pickle_protocol=5)
    return written.getvalue()


def loads(given: bytes | memoryview) -> Any:
    """The value again. Only for bytes of a process that we have started, or that has started us."""
    if given[:1] == _PLAIN:
        return pickle.loads(memoryview(given)[1:])
    import torch

    return torch.load(io.BytesIO(memoryview(given)[1:]), pickle_module=pickle, weights_only=False)


class Call(NamedTuple):
    """What a rank is to do."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    keywords: dict[str, Any]
    #: The lines of code that is in no file, by the name that it goes by.
    sources: dict[str, list[str]]


def pack_call(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]
) -> bytes:
    """The bytes of a call; refused by the name of what cannot be sent."""
    try:
        return dumps(Call(function, tuple(args), dict(keywords), _sources()))
    except Exception as error:
        found = _culprit(function, args, keywords)
        what = f"{found} cannot" if found else "the function and its arguments cannot"
        raise UsageError(
            f"{what} be sent to other processes ({_first_line(error)}): have the function make "
            "it, or open it, on each rank"
        ) from error


def _sources() -> dict[str, list[str]]:
    """Lines of code that is in no file, such as a notebook's cells: tracebacks show them."""
    cached = linecache.cache.items()
    return {name: entry[2] for name, entry in cached if len(entry) == 4 and entry[1] is None}


def _culprit(function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any]) -> str:
    """What cannot be sent, in words; nothing if it is all of it together."""
    named = {f"argument {index}": value for index, value in enumerate(args, start=1)}
    named |= {f"argument {name}": value for name, value in keywords.items()}
    for name, value in named.items():
        if not _can_be_sent(value):
            return f"{name} (of type {type(value).__name__})"
    called = getattr(function, "__qualname__", type(function).__name__)
    if inspect.isfunction(function):
        known = inspect.getclosurevars(function)
        for name, value in {**known.globals, **known.nonlocals}.items():
            if not _can_be_sent(value):
                return f"{name} (of type {type(value).__name__}), which {called} uses,"
    return "" if _can_be_sent(function) else f"the function {called}"


def _can_be_sent(value: Any) -> bool:
    try:
        dumps(value)
    except Exception:
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
