"""A small part of what pickles can do, carried out step by step: plain values, and known calls.

A pickle is a program for a machine with a stack and a memory. Python's own reader of pickles sets
attributes of whatever the program made, takes memory for numbers that stand in it, and looks at
keys that take for ever to hash. Here, steps that plain values and a few calls need are known, and
any other step is refused. Without torch.
"""

import pickletools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: A batch of CIFAR-10 takes 70 thousand.
MOST_STEPS = 1_000_000


class RefusedError(ValueError):
    """A step that is none of those needed."""


@dataclass(frozen=True)
class Named:
    """What a name stands for, and what calling it does."""

    name: str
    function: Callable[..., object] | None = None


class Made(ABC):
    """What a call makes, which may be given its state later on."""

    @abstractmethod
    def build(self, state: object) -> None: ...


def run_steps(program: bytes, known: Mapping[tuple[str, str], Named]) -> object:
    """What a pickle makes; a ValueError for one that is damaged or does more than it may."""
    machine = _Machine(known)
    try:
        for number, (code, argument, _) in enumerate(pickletools.genops(program)):
            if number >= MOST_STEPS:
                raise RefusedError(f"more than {MOST_STEPS:,} steps")
            if code.name == "STOP":
                return machine.pop()
            machine.step(code.name, argument)
    except (IndexError, TypeError) as error:  # too little on the stack, or too few arguments
        raise RefusedError(f"it is damaged: {error}") from error
    raise RefusedError("it does not end")


_IGNORED = ("PROTO", "FRAME")
_VALUES = (
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4"),
    *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
)
#: Texts of Python 2, which are bytes.
_OLD_TEXTS = ("STRING", "BINSTRING", "SHORT_BINSTRING")
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_GETS = ("GET", "BINGET", "LONG_BINGET")
_MARK = object()


class _Machine:
    def __init__(self, known: Mapping[tuple[str, str], Named]) -> None:
        self._known = known
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}

    def pop(self) -> Any:
        """The value on top, which is taken off."""
        value = self._stack.pop()
        if value is _MARK:
            raise RefusedError("it is damaged: a mark, where a value should be")
        return value

    def step(self, name: str, argument: Any) -> None:
        """Carry out one step."""
        if name in _VALUES:
            self._stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
        elif name in _OLD_TEXTS:
            self._stack.append(argument.encode("latin1"))
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _PUTS:
            self._memory[argument] = self._top()
        elif name == "MEMOIZE":
            self._memory[len(self._memory)] = self._top()
        elif name in _GETS:
            if argument not in self._memory:
                raise RefusedError(f"it is damaged: nothing is kept at {argument}")
            self._stack.append(self._memory[argument])
        elif name == "MARK":
            self._stack.append(_MARK)
        elif name not in _IGNORED:
            self._make(name, argument)

    def _make(self, name: str, argument: Any) -> None:
        if name in ("EMPTY_LIST", "EMPTY_DICT"):
            self._stack.append([] if name == "EMPTY_LIST" else {})
        elif name in _TUPLES:
            self._stack.append(tuple(reversed([self.pop() for _ in range(_TUPLES[name])])))
        elif name == "TUPLE":
            self._stack.append(tuple(self._marked()))
        elif name in ("APPEND", "APPENDS"):
            self._extend([self.pop()] if name == "APPEND" else self._marked())
        elif name in ("SETITEM", "SETITEMS"):
            pair = name == "SETITEM"
            self._update([self.pop(), self.pop()][::-1] if pair else self._marked())
        elif name == "GLOBAL":
            self._name(*argument.split(" ", 1))
        elif name == "STACK_GLOBAL":
            attribute, module = self.pop(), self.pop()
            self._name(module, attribute)
        elif name == "REDUCE":
            self._call()
        elif name == "BUILD":
            state, made = self.pop(), self._top()
            if not isinstance(made, Made):
                raise RefusedError("it sets attributes of what has none")
            made.build(state)
        else:
            raise RefusedError(f"it has a step {name}, which arrays of bytes do not need")

    def _top(self) -> Any:
        if self._stack[-1] is _MARK:
            raise RefusedError("it is damaged: a mark, where a value should be")
        return self._stack[-1]

    def _marked(self) -> list[Any]:
        """All values above the last mark, which are taken off with it."""
        values = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        return values[::-1]

    def _extend(self, values: list[Any]) -> None:
        into = self._top()
        if not isinstance(into, list):
            raise RefusedError("it is damaged: it adds values to what is no list")
        into += values

    def _update(self, items: list[Any]) -> None:
        into = self._top()
        keys = items[::2]
        if not isinstance(into, dict) or not all(isinstance(key, bytes | str) for key in keys):
            raise RefusedError("a dictionary whose keys are not texts")
        into.update(zip(keys, items[1::2], strict=True))

    def _name(self, module: object, attribute: object) -> None:
        known = None
        if isinstance(module, str) and isinstance(attribute, str):
            known = self._known.get((module, attribute))
        if known is None:
            told = ".".join(
                one[:50] if isinstance(one, str) else "?" for one in (module, attribute)
            )
            raise RefusedError(f"it names {told}, which is no part of an array of bytes")
        self._stack.append(known)

    def _call(self) -> None:
        arguments, called = self.pop(), self.pop()
        if not (isinstance(called, Named) and called.function and isinstance(arguments, tuple)):
            raise RefusedError("it calls what is no function")
        self._stack.append(called.function(*arguments))
