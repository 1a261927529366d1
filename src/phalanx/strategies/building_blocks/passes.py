"""One pass, forward and backward, over a few samples: as torch does it, or compiled as a whole.

Compiled, the forward pass, the loss and the gradients are one function of the weights, without
autograd's engine in between. That helps small models, whose time goes into calling kernels; others
it does not help. So both are timed on the first samples, and the faster one is kept.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.func import functional_call, grad_and_value

from phalanx.clock import phase
from phalanx.strategies.base import Task
from phalanx.strategies.building_blocks.preserve import preserved

log = logging.getLogger("phalanx.compile")

#: Adds the gradients of some samples, times their share in the batch, to every `.grad`; returns
#: their loss and the model's outputs.
Pass = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]

_TRIALS = 20
_AS_IS = nullcontext()


def make_pass(task: Task) -> Pass:
    """The pass that a task asks for."""
    return CompiledPass(task) if task.compile else EagerPass(task)


class EagerPass:
    """As in any torch loop."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, inputs: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
        with phase("forward"), self._precision(inputs.device.type):
            outputs = self._task.model(inputs)
            loss: Tensor = self._task.loss.function(outputs, targets)
        with phase("backward"):
            # From the share on, instead of from 1: the same as a product, without its two calls.
            start = None if share == 1.0 else loss.new_tensor(share)
            loss.backward(start)  # type: ignore[no-untyped-call]
        return loss, outputs.detach()

    def _precision(self, device: str) -> AbstractContextManager[None]:
        if self._task.autocast is None:
            return _AS_IS
        return torch.autocast(device, dtype=self._task.autocast)


class CompiledPass:
    """Compiled on the first call, if that is faster; every parameter counts as used then."""

    def __init__(self, task: Task, *, backend: str = "inductor") -> None:
        self._task = task
        self._eager = EagerPass(task)
        self._chosen: Pass | None = None
        function = grad_and_value(self._loss, has_aux=True)
        self._compiled = torch.compile(function, backend=backend)

    def __call__(self, inputs: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
        if self._chosen is None:
            self._chosen = self._choose(inputs, targets)
        return self._chosen(inputs, targets, share)

    def _loss(
        self,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor],
        inputs: Tensor,
        targets: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, dict[str, Tensor]]]:
        # Buffers change in place, which a transformed function may do to its own tensors only.
        buffers = {name: buffer.clone() for name, buffer in buffers.items()}
        outputs = functional_call(self._task.model, (parameters, buffers), (inputs,))
        return self._task.loss.function(outputs, targets), (outputs, buffers)

    def _run(self, inputs: Tensor, targets: Tensor, share: float) -> tuple[Tensor, Tensor]:
        model = self._task.model
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        fixed = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        buffers = dict(model.named_buffers())
        with torch.no_grad(), phase("forward"):  # and backward: they are one function here
            values = {name: parameter.detach() for name, parameter in trained.items()}
            gradients, (loss, (outputs, changed)) = self._compiled(
                values, fixed | buffers, inputs, targets
            )
            for name, buffer in buffers.items():
                buffer.copy_(changed[name])
            self._add(list(trained.values()), [gradients[name] for name in trained], share)
        return loss, outputs

    @staticmethod
    def _add(parameters: list[torch.nn.Parameter], gradients: list[Tensor], share: float) -> None:
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        kept = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_add_(kept, gradients, alpha=share)

    def _choose(self, inputs: Tensor, targets: Tensor) -> Pass:
        """Time both ways on these samples, leaving no trace in the model."""
        times = {}
        try:
            with preserved([self._task.model]):
                for name, way in (("compiled", self._run), ("eager", self._eager)):
                    way(inputs, targets, 0.0)
                    started = time.perf_counter()
                    for _ in range(_TRIALS):
                        way(inputs, targets, 0.0)  # a share of 0 leaves all gradients as they are
                    times[name] = (time.perf_counter() - started) / _TRIALS
        except Exception as error:  # whatever of a model cannot be compiled, the eager pass can do
            cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            log.warning("--compile: this model does not compile, so it runs as it is: %s", cause)
            return self._eager
        faster = times["compiled"] < times["eager"]
        log.info(
            "--compile: a pass takes %.3f ms compiled and %.3f ms as it is: %s",
            times["compiled"] * 1e3,
            times["eager"] * 1e3,
            "compiled it is" if faster else "that does not help, so it runs as it is",
        )
        return self._run if faster else self._eager
