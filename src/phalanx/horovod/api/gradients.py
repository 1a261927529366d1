"""Operations that gradients flow back through, with the gradients that Horovod gives them.

Horovod averages where it sends gradients back to the ranks they came from: of an allgather, of a
broadcast and of an averaging reducescatter. Scripts rely on it, so it is the same here.
"""

from typing import Any

import torch
from torch import Tensor

from phalanx.horovod.api.operations import first, request, run, split_rows
from phalanx.horovod.api.process_sets import ProcessSet
from phalanx.horovod.engine.reductions import Average, Sum

Context = Any


def needs_gradient(tensors: list[Tensor]) -> bool:
    """Whether autograd has to know of an operation on these."""
    return torch.is_grad_enabled() and any(
        [isinstance(tensor, Tensor) and tensor.requires_grad for tensor in tensors]
    )


def differentiable(function: type[torch.autograd.Function], *arguments: Any) -> Any:
    """Run one of the functions below, known to autograd."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


class Allreduce(torch.autograd.Function):
    """Of one tensor, or of a group."""

    @staticmethod
    def forward(
        ctx: Context,
        name: str | None,
        process_set: ProcessSet,
        fields: dict[str, Any],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.process_set, ctx.fields = process_set, fields
        asked = request("allreduce", tensors, name, process_set=process_set, **fields)
        return tuple(run(asked, tuple))

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        asked = request("allreduce", gradients, None, process_set=ctx.process_set, **ctx.fields)
        return (None, None, None, *run(asked, tuple))


class Allgather(torch.autograd.Function):
    """Of one tensor, or of a group."""

    @staticmethod
    def forward(
        ctx: Context,
        name: str | None,
        process_set: ProcessSet,
        fields: dict[str, Any],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.process_set, ctx.fields = process_set, fields
        ctx.shapes = [tensor.shape for tensor in tensors]
        asked = request("allgather", tensors, name, process_set=process_set, **fields)
        return tuple(run(asked, tuple))

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        where = {"process_set": ctx.process_set, **ctx.fields}
        averages = run(request("allreduce", gradients, None, op=Average.label, **where), tuple)
        rows = torch.tensor([[shape[0] if shape else 1 for shape in ctx.shapes]])
        everyone = run(request("allgather", [rows], None, process_set=ctx.process_set), first)
        starts = everyone[: ctx.process_set.rank()].sum(0).tolist()
        return (
            None,
            None,
            None,
            *(
                average.narrow(0, start, count).reshape(shape)
                for average, start, count, shape in zip(
                    averages, starts, rows[0].tolist(), ctx.shapes, strict=True
                )
            ),
        )


class Broadcast(torch.autograd.Function):
    """Of the tensor of one rank."""

    @staticmethod
    def forward(
        ctx: Context, tensor: Tensor, root: int, name: str | None, process_set: ProcessSet
    ) -> Any:
        ctx.root, ctx.process_set = root, process_set
        return run(request("broadcast", [tensor], name, process_set=process_set, root=root))

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        where = ctx.process_set
        average = run(request("allreduce", gradients, None, process_set=where, op=Average.label))
        if where.ranks[where.rank()] != ctx.root:
            average.zero_()
        return average, None, None, None


class Alltoall(torch.autograd.Function):
    """Gives the received splits, too."""

    @staticmethod
    def forward(
        ctx: Context, tensor: Tensor, splits: object, name: str | None, process_set: ProcessSet
    ) -> Any:
        ctx.process_set = process_set
        rows = split_rows(splits, tensor, process_set)
        asked = request("alltoall", [tensor], name, process_set=process_set, splits=rows)
        output, received = run(asked)
        ctx.received = tuple(received.tolist())
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        where = ctx.process_set
        back = request("alltoall", gradients[:1], None, process_set=where, splits=ctx.received)
        return run(back)[0], None, None, None


class Reducescatter(torch.autograd.Function):
    """Of one tensor, or of a group."""

    @staticmethod
    def forward(
        ctx: Context,
        name: str | None,
        process_set: ProcessSet,
        fields: dict[str, Any],
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.process_set, ctx.fields = process_set, fields
        asked = request("reducescatter", tensors, name, process_set=process_set, **fields)
        return tuple(run(asked, tuple))

    @staticmethod
    def backward(ctx: Context, *gradients: Tensor) -> Any:
        scale = ctx.fields["prescale"] * ctx.fields["postscale"]
        if ctx.fields["op"] == Sum.label:
            scale *= ctx.process_set.size()
        scaled = [gradient * scale for gradient in gradients]
        grouped = ctx.fields.get("grouped", False)
        back = request("allgather", scaled, None, process_set=ctx.process_set, grouped=grouped)
        return (None, None, None, *run(back, tuple))
