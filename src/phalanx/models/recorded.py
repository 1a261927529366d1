"""How tensors came to their values: every operation that wrote them, to be done again at will.

While a model is made, its weights are computed as ever, so that whatever its code does, random
numbers above all, comes out as ever. But the memory of those that have not been touched for a while
is taken back. When they are wanted again, their operations are done again, each with the state that
the random numbers had: the same bits, and never more than a few tensors in memory.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, UntypedStorage
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from phalanx.comm.launch.process import release_freed_memory
from phalanx.models.memory import Memory, Operation, Place

#: Memory that is kept of what was touched last: so many times that of the largest tensor, which is
#: about a layer; and all of what is small.
_KEPT, _SMALL = 3, 1 << 20
#: Freed memory that is worth a call to give it back to the kernel.
_WORTH_RELEASING = 32 << 20
#: What looks at a tensor's memory without an operation of torch's.
_LOOKS = frozenset(
    {
        *(Tensor.numpy, Tensor.tolist, Tensor.__array__, Tensor.__dlpack__, Tensor.data_ptr),
        *(Tensor.untyped_storage, Tensor.__deepcopy__, Tensor.__reduce_ex__),
    }
)


@final
class Record(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what is done inside of its `with` block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memories: list[Memory] = []
        self._numbers: dict[int, int] = {}
        self._operations: list[Operation] = []
        #: The state that random numbers had before each operation that drew some.
        self.random_states: list[Tensor] = []
        #: What is in memory at present and could be made again, the longest untouched first.
        self._present: OrderedDict[int, None] = OrderedDict()
        self._present_bytes, self._largest, self._freed = 0, 0, 0
        self._looks = _Looks(self.touch)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # torch would load its compiler, only to tell it to stay away

    def __enter__(self) -> "Record":
        self._looks.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._looks.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        read = frozenset(map(self.touch, _tensors((args, named))))
        written = {self.place(one).memory for one in _tensors(_changed(func, args, named))}
        for number in written:
            memory = self._memories[number]
            if memory.is_given and memory.before is None:
                memory.before = _copy(memory.storage)
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        state = _generator(named).get_state() if is_random else None
        result = func(*args, **named)
        found = _tensors(result)
        new = {self._add(one) for one in found if one.untyped_storage()._cdata not in self._numbers}
        if written or new:
            arguments, options = tree_map(self._placed, (args, named))
            outputs = tuple(map(self.place, found))
            operation = Operation(func, arguments, options, read, outputs, self._keep(state))
            for number in written | new:
                self._memories[number].writers.append(len(self._operations))
            self._operations.append(operation)
        self._drop(keep=read | new)
        return result

    def place(self, tensor: Tensor) -> Place:
        """Where a tensor is; one that is not known yet counts as given."""
        number = self._numbers.get(tensor.untyped_storage()._cdata)
        if number is None:
            number = self._add(tensor, is_given=True)
        view = (tuple(tensor.size()), tuple(tensor.stride()), int(tensor.storage_offset()))
        return Place(number, tensor.dtype, *view)

    def touch(self, tensor: Tensor) -> int:
        """Have a tensor's values in memory; the number of that memory."""
        number = self.place(tensor).memory
        if not self._memories[number].is_given:
            self._restore(number)
            self._present.move_to_end(number)
        return number

    def values(self, place: Place) -> Tensor:
        """A tensor as it was when the record ended, in memory of its own."""
        return place.view(self._again(place.memory))

    def finish(self) -> None:
        """Take back all memory but of what somebody still holds, which is there again then."""
        for number, memory in enumerate(self._memories):
            if memory.is_held:
                self._restore(number)
            elif not memory.is_given:
                self._take_back(memory)
        self._present.clear()
        self._numbers.clear()  # later tensors may come to the same addresses

    def fingerprint(self) -> str:
        """Of all that was done, and of values that came from elsewhere; not of random numbers."""
        digest = hashlib.blake2b(digest_size=8)
        for one in self._operations:
            digest.update(f"{one.function} {sorted(one.reads)} {one.outputs}".encode())
        for memory in self._memories:
            if memory.is_given:
                digest.update(_bytes(memory.given).numpy().data)
        return digest.hexdigest()

    def _placed(self, value: Any) -> Any:
        return self.place(value) if _is_recorded(value) else value

    def _keep(self, state: Tensor | None) -> int | None:
        if state is None:
            return None
        self.random_states.append(state)
        return len(self.random_states) - 1

    def _add(self, tensor: Tensor, *, is_given: bool = False) -> int:
        storage, number = tensor.untyped_storage(), len(self._memories)
        self._memories.append(Memory(storage, storage.nbytes(), is_given))
        self._numbers[storage._cdata] = number
        if not is_given:
            self._largest = max(self._largest, storage.nbytes())
            self._note_present(number)
        return number

    def _note_present(self, number: int) -> None:
        self._present[number] = None
        self._present_bytes += self._memories[number].size

    def _drop(self, keep: frozenset[int]) -> None:
        """Take back the memory of what has not been touched for the longest time."""
        room = max(_KEPT * self._largest, _SMALL)
        if self._present_bytes <= room:
            return
        self._freed += self._present_bytes
        for number in [*self._present]:
            memory = self._memories[number]
            if number not in keep and self._take_back(memory):
                del self._present[number]
                self._present_bytes -= memory.size
                if self._present_bytes <= room:
                    break
        self._freed -= self._present_bytes
        if self._freed > max(room, _WORTH_RELEASING):
            self._freed = 0
            release_freed_memory()  # small ones that stay are in between: it would grow and grow

    def _take_back(self, memory: Memory) -> bool:
        """Take back a piece of memory that can be made again; whether that could be done."""
        if not memory.is_held:
            self._numbers.pop(memory.storage._cdata, None)
            memory.storage = torch.empty(0).untyped_storage()
        elif memory.storage.resizable():
            memory.storage.resize_(0)
        else:
            return False
        return True

    def _restore(self, number: int) -> None:
        memory = self._memories[number]
        if number not in self._present and not memory.is_given:
            made = self._again(number)
            memory.storage.resize_(memory.size)
            _bytes(memory.storage).copy_(_bytes(made))
            self._note_present(number)

    @torch.no_grad()
    def _again(self, wanted: int) -> UntypedStorage:
        """A piece of memory as it is by now, made again from the beginning."""
        made: dict[int, UntypedStorage] = {}

        def view(value: Any) -> Any:
            if not isinstance(value, Place):
                return value
            if value.memory not in made:
                made[value.memory] = _copy(self._memories[value.memory].given)
            return value.view(made[value.memory])

        for number in self._needed(wanted):
            one = self._operations[number]
            arguments, named = tree_map(view, (one.arguments, one.named), is_leaf=_is_place)
            found = _tensors(self._run(one, arguments, named))
            for place, tensor in zip(one.outputs, found, strict=True):
                made.setdefault(place.memory, tensor.untyped_storage())
        return made[wanted] if wanted in made else _copy(self._memories[wanted].given)

    def _needed(self, wanted: int) -> list[int]:
        """The operations that a piece of memory comes from, in their order."""
        needed: set[int] = set()
        open_ends = [(wanted, len(self._operations))]
        while open_ends:
            memory, end = open_ends.pop()
            for writer in self._memories[memory].writers:
                if writer < end and writer not in needed:
                    needed.add(writer)
                    open_ends += [(one, writer) for one in self._operations[writer].reads]
        return sorted(needed)

    def _run(self, one: Operation, arguments: Any, named: dict[str, Any]) -> Any:
        if one.random is None:
            return one.function(*arguments, **named)
        generator = _generator(named)
        now = generator.get_state()
        generator.set_state(self.random_states[one.random])
        try:
            return one.function(*arguments, **named)
        finally:
            generator.set_state(now)


class _Looks(TorchFunctionMode):
    """Has values in memory for those who look there."""

    def __init__(self, touch: Callable[[Tensor], int]) -> None:
        super().__init__()
        self._touch = touch

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in _LOOKS and _is_recorded(args[0]):
            self._touch(args[0])
        return func(*args, **(kwargs or {}))


def _is_place(value: Any) -> bool:
    return isinstance(value, Place)


def _is_recorded(value: Any) -> bool:
    """Whether it is a tensor in this process' memory: what is elsewhere is left alone."""
    return isinstance(value, Tensor) and value.device.type == "cpu"


def _tensors(values: Any) -> list[Tensor]:
    return [one for one in tree_flatten(values)[0] if _is_recorded(one)]


def _changed(function: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
    """The arguments that an operation writes to."""
    known = function._schema.arguments
    values = dict(zip((one.name for one in known), arguments, strict=False)) | named
    return [
        values[one.name]
        for one in known
        if one.alias_info is not None and one.alias_info.is_write and one.name in values
    ]


def _generator(named: dict[str, Any]) -> torch.Generator:
    found: torch.Generator | None = named.get("generator")
    return torch.default_generator if found is None else found


def _copy(storage: UntypedStorage) -> UntypedStorage:
    return _bytes(storage).clone().untyped_storage()


def _bytes(storage: UntypedStorage) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)
