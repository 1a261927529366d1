"""One pass, forward and backward, over a few samples: as torch does it, or compiled as a whole.

Compiled, the forward pass, the loss and the gradients are one function of the weights, without
autograd's engine in between. That helps small models, whose time goes into calling kernels; others
it does not help. So both are timed on the first samples, and the faster one is kept.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value

from phalanx.clock import phase
from phalanx.data.batches import plain
from phalanx.data.own.nest import map_leaves
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of
from phalanx.strategies.base import Objective, Task
from phalanx.strategies.building_blocks.preserve import preserved, settle
from phalanx.wording import a

log = logging.getLogger("phalanx.compile")

#: Adds the gradients of some samples, times their share in the batch, to every `.grad`; returns
#: their loss and the model's outputs.
Pass = Callable[[Any, Any, float], tuple[Tensor, Any]]

_TRIALS = 20
_AS_IS = nullcontext()


def make_pass(task: Task) -> Pass:
    """The pass that a task asks for."""
    if task.objective is not None:
        return ObjectivePass(task, task.objective)
    return CompiledPass(task) if task.compile else EagerPass(task)


def no_tensor(model: nn.Module, outputs: object) -> UsageError:
    """About a model's answer that is no tensor."""
    return UsageError(
        f"{type(model).__name__} gives {a(outputs)}, and a loss takes one tensor: "
        "return that alone (of several, put a module around the model that picks one)"
    )


def _no_number(loss: object) -> UsageError:
    what = f"a tensor of {list(loss.shape)}" if isinstance(loss, Tensor) else f"{loss!r:.60}"
    return UsageError(f"the loss gives {what}, and must give one number: their mean, for one")


class EagerPass:
    """As in any torch loop."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, inputs: Any, targets: Any, share: float) -> tuple[Tensor, Any]:
        with phase("forward"), precision(self._task.model, self._task.autocast):
            outputs = self._task.model(plain(inputs))
            if not isinstance(outputs, Tensor):
                raise no_tensor(self._task.model, outputs)
            loss: Tensor = self._task.loss.function(outputs, plain(targets))
            check_loss(loss)
        backward(loss, self._task.scaled(share))
        return loss, outputs.detach()


class ObjectivePass:
    """A function of the user's own, of the model and a whole batch."""

    def __init__(self, task: Task, objective: Objective) -> None:
        self._task, self._objective = task, objective

    def __call__(self, inputs: Any, targets: Any, share: float) -> tuple[Tensor, Any]:
        with phase("forward"), precision(self._task.model, self._task.autocast):
            loss, outputs = evaluate_objective(self._objective, self._task.model, plain(inputs))
        backward(loss, self._task.scaled(share))
        return loss, map_leaves(_detached, outputs)


def evaluate_objective(objective: Objective, model: nn.Module, batch: Any) -> tuple[Tensor, Any]:
    """The loss of a batch, and the outputs if there are any."""
    found = objective.function(model, batch)
    loss, outputs = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    check_loss(loss)
    return loss, outputs


def check_loss(loss: object) -> None:
    """Refuse what is no loss."""
    if not isinstance(loss, Tensor) or loss.dim() > 0:
        raise _no_number(loss)


def backward(loss: Tensor, share: float) -> None:
    """The backward pass of samples that count for a share of their batch."""
    with phase("backward"):
        # Not from the share on, as `loss.backward(share)`: for a gradient that it is given torch
        # imports sympy, a third of a second for every process. The bits are the same.
        counted = loss if share == 1.0 else loss * share
        counted.backward()  # type: ignore[no-untyped-call]


def precision(model: nn.Module, autocast: torch.dtype | None) -> AbstractContextManager[None]:
    """What forward passes compute in."""
    if autocast is None:
        return _AS_IS
    return torch.autocast(device_of(model).type, dtype=autocast)


def _detached(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


class CompiledPass:
    """Compiled on the first call, if that is faster."""

    def __init__(self, task: Task, *, backend: str = "inductor") -> None:
        self._task = task
        self._eager = EagerPass(task)
        self._chosen: Pass | None = None
        #: What the eager pass has given no gradient: it is to get none here either.
        self._idle: frozenset[str] = frozenset()
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
            # A gradient of zeros is how this function says that a parameter has no part in it.
            used = [n for n in trained if n not in self._idle or bool(gradients[n].any())]
            self._add([trained[name] for name in used], [gradients[name] for name in used], share)
        return loss, outputs

    def _without_gradient(self, inputs: Tensor, targets: Tensor) -> frozenset[str]:
        """The parameters that an eager pass gives no gradient."""
        trained = [(name, p) for name, p in self._task.model.named_parameters() if p.requires_grad]
        before = [_version(parameter.grad) for _, parameter in trained]
        self._eager(inputs, targets, 0.0)
        pairs = zip(trained, before, strict=True)
        return frozenset(name for (name, p), version in pairs if _version(p.grad) == version)

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
                self._idle = self._without_gradient(inputs, targets)
                for name, way in (("compiled", self._run), ("eager", self._eager)):
                    way(inputs, targets, 0.0)
                    settle(self._task.model)
                    started = time.perf_counter()
                    for _ in range(_TRIALS):
                        way(inputs, targets, 0.0)  # a share of 0 leaves all gradients as they are
                    settle(self._task.model)
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


def _version(gradient: Tensor | None) -> int:
    """How often a gradient has been added to; autograd makes one at first."""
    return -1 if gradient is None else gradient._version
