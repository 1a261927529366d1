"""A GPU that is none: tensors compute in CPU memory, and say that they are on `cuda`.

What a machine without GPUs cannot show otherwise: whether all tensors of an operation are on one
device, and who waits for the GPU. Numbers are real, so that trainings can be compared.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from traceback import extract_stack
from typing import Any, final

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import _engine_run_backward
from torch.nn.utils import clip_grad
from torch.overrides import TorchFunctionMode
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
#: Operations that give the host a number, or memory of a size that only the GPU knows.
_WAITING = ("_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2")
#: The same for methods that do not ask torch's dispatcher.
_READING = ("tolist", "numpy", "__array__", "__repr__", "__format__")
#: Operations from one device to another.
_MOVING = ("copy_", "_to_copy", "set_")


class MixedDevicesError(AssertionError):
    """What CUDA would raise a RuntimeError for."""


@final
class PretendGpu:
    """Knows which memory is the GPU's, and who has waited for it."""

    def __init__(self) -> None:
        self._memory: dict[int, Any] = {}  # kept, so that no other memory gets the same address
        self._plain = False
        self._uncounted = 0
        #: What the host has waited for.
        self.waits: list[str] = []
        #: The operations that were started.
        self.started = 0

    def has(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._memory

    def take(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        self._memory[storage._cdata] = storage
        return tensor

    def wait(self, why: str) -> None:
        if not self._uncounted:
            frames = [one for one in extract_stack() if "/phalanx/" in one.filename]
            where = frames[-1] if frames else None
            self.waits.append(f"{why} at {where and where.filename}:{where and where.lineno}")

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Inside, waiting is what it takes."""
        self._uncounted += 1
        try:
            yield
        finally:
            self._uncounted -= 1

    @contextmanager
    def unmarked(self) -> Iterator[None]:
        self._plain = True
        try:
            yield
        finally:
            self._plain = False

    @property
    def marks(self) -> bool:
        return not self._plain


@final
class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, name = self._gpu, func._schema.name.removeprefix("aten::")
        tensors = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
        there = [one for one in tensors if gpu.has(one)]
        here = [one for one in tensors if not gpu.has(one) and one.dim() > 0]
        if there and here and name not in _MOVING:
            raise MixedDevicesError(f"{name}: tensors on the GPU and in CPU memory")
        gpu.started += bool(there)
        if there and (name in _WAITING or (name == "copy_" and not gpu.has(args[0]))):
            gpu.wait(name)
        found = func(*args, **(kwargs or {}))
        if there and gpu.marks and not (name == "copy_" and not gpu.has(args[0])):
            for one in tree_flatten(found)[0]:
                if isinstance(one, Tensor):
                    gpu.take(one)
        return found


def _is_gpu(device: Any) -> bool:
    return isinstance(device, torch.device | str) and torch.device(device).type == "cuda"


@final
class _Calls(TorchFunctionMode):
    def __init__(self, gpu: PretendGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs = self._gpu, dict(kwargs or {})
        first = args[0] if args and isinstance(args[0], Tensor) else None
        there = first is not None and gpu.has(first)
        if func == Tensor.device.__get__:
            return CUDA if there else func(*args)
        if func == Tensor.is_cpu.__get__:  # type: ignore[attr-defined]
            return not there
        if func == Tensor.is_cuda.__get__:  # type: ignore[attr-defined]
            return there
        name = getattr(func, "__name__", "")
        if name == "backward" and first is not None:
            gradient = args[1] if len(args) > 1 else kwargs.get("gradient")
            gradients = (torch.ones_like(first) if gradient is None else gradient,)
            how = (gradients, False, False, ())
            with self:  # for hooks, which else would see no GPU
                return _engine_run_backward(
                    (first,), *how, allow_unreachable=True, accumulate_grad=True
                )
        if there and name in _READING:
            gpu.wait(name)
        if first is not None and name in ("to", "cpu", "cuda"):
            return self._moved(name, first, args[1:], kwargs)
        if _is_gpu(kwargs.get("device")):
            return gpu.take(func(*args, **{**kwargs, "device": CPU}))
        if there and kwargs.get("device") == CPU:
            with gpu.unmarked():
                return func(*args, **kwargs)
        return func(*args, **kwargs)

    def _moved(self, name: str, tensor: Tensor, args: Any, kwargs: Any) -> Tensor:
        gpu = self._gpu
        given = [*args, kwargs.get("device")]
        device = {"cpu": CPU, "cuda": CUDA}.get(name)
        for one in given:
            if isinstance(one, torch.device) or (isinstance(one, str) and one):
                device = torch.device(one)
        args = [CPU if isinstance(one, torch.device | str) else one for one in args]
        kwargs = {**kwargs, "device": CPU} if kwargs.get("device") is not None else kwargs
        if name != "to":
            args, kwargs = [CPU], {}
        if device is None or _is_gpu(device) == gpu.has(tensor):
            return tensor.to(*args, **kwargs)  # which marks what it makes of the GPU's
        if gpu.has(tensor):
            gpu.wait(f"to {device}")
        with gpu.unmarked():
            copy = tensor.to(*args, **{**kwargs, "copy": True})
        return gpu.take(copy) if _is_gpu(device) else copy


@contextmanager
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendGpu]:
    """Inside, `cuda` is there; NCCL is gloo, and messages through host memory cost nothing."""
    from phalanx.comm.device import group, staged

    gpu, open_group = PretendGpu(), group._open
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: gpu.wait("synchronize"))
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device=None: torch.get_rng_state())
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda one, device=None: torch.set_rng_state(one)
    )
    monkeypatch.setattr(group, "_open", lambda store, comm, _: open_group(store, comm, CPU))
    monkeypatch.setattr("phalanx.train.binding.compute_deterministically", lambda device: None)
    monkeypatch.setattr(clip_grad, "_group_tensors_by_device_and_dtype", _grouped)
    for kind in (staged.StagedCommunicator, staged._Pending):
        for name in ("run", "start", "wait", "test", "wait_any"):
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, _uncounted(gpu, getattr(kind, name)))
    with ExitStack() as stack:
        stack.enter_context(_Operations(gpu))
        stack.enter_context(_Calls(gpu))
        yield gpu


def _grouped(tensors: Any, *args: Any) -> Any:
    """What torch has gradients grouped by, in C++, which sees where they really are."""
    found = _group_tensors_by_device_and_dtype(tensors, *args)
    first: Any = {key: some[0][0][0] for key, some in found.items()}
    return {(first[key].device, key[1]): some for key, some in found.items()}


def _uncounted(gpu: PretendGpu, method: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with gpu.uncounted():
            return method(*args, **kwargs)

    return call
