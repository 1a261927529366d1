"""Batch normalisation over the batches of all ranks, as if they were one."""

from typing import Any, final

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from phalanx.errors import UsageError
from phalanx.horovod.api.collectives import allreduce
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.api.redistribution import allgather
from phalanx.horovod.engine.reductions import Sum


@final
class SyncBatchNorm(_BatchNorm):
    """`torch.nn.BatchNorm*d`, whose statistics in training are those of all ranks' samples.

    Ranks may have batches of different sizes. Gradients of weight and bias are this rank's share;
    a DistributedOptimizer brings them together.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        if input.dim() < 2 or input.shape[1] != self.num_features:
            raise UsageError(
                f"SyncBatchNorm({self.num_features}) takes [batch, {self.num_features}, …], "
                f"not {list(input.shape)}"
            )

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        self._check_input_dim(input)
        use_batch = self.training or self.running_mean is None
        if not use_batch or not self.training or self.process_set.size() == 1:
            return super().forward(input)
        momentum = self.momentum or 0.0
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        output: Tensor
        output, mean, variance, count = _Normalise.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, self.eps, self.process_set
        )
        if self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                unbiased = variance * (count / max(count - 1, 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)
        return output


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        where: ProcessSet,
    ) -> Any:
        dtype, inputs = inputs.dtype, _widened(inputs)
        mean, variance, count = _statistics(inputs, where)
        shape = [1, -1] + [1] * (inputs.dim() - 2)
        scale = torch.rsqrt(variance + eps)
        normal = (inputs - mean.to(inputs.dtype).view(shape)) * scale.to(inputs.dtype).view(shape)
        ctx.where, ctx.shape, ctx.count, ctx.affine = where, shape, count, weight is not None
        ctx.dtype = dtype
        ctx.save_for_backward(normal, scale, weight)
        ctx.mark_non_differentiable(mean, variance)
        output = normal
        if weight is not None and bias is not None:
            output = normal * weight.view(shape) + bias.view(shape)
        return output.to(dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_rest: Any) -> Any:
        normal, scale, weight = ctx.saved_tensors
        gradient = _widened(gradient)
        dims = [0, *range(2, gradient.dim())]
        own_bias, own_weight = gradient.sum(dims), (gradient * normal).sum(dims)
        sums = torch.stack([own_bias, own_weight])
        if weight is not None:
            sums = sums * weight
        sums = allreduce(sums, op=Sum, process_set=ctx.where) / ctx.count
        inner = gradient if weight is None else gradient * weight.view(ctx.shape)
        inputs = inner - sums[0].view(ctx.shape) - normal * sums[1].view(ctx.shape)
        inputs = inputs * scale.to(inputs.dtype).view(ctx.shape)
        return (
            inputs.to(ctx.dtype),
            own_weight.to(weight.dtype) if ctx.affine else None,
            own_bias.to(weight.dtype) if ctx.affine else None,
            None,
            None,
        )


def _widened(tensor: Tensor) -> Tensor:
    """What sums over many values are made of: 16 bits would round them."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _statistics(inputs: Tensor, where: ProcessSet) -> tuple[Tensor, Tensor, int]:
    """Collective. Mean and variance a channel over all ranks' samples, and their number."""
    dims = [0, *range(2, inputs.dim())]
    channels = inputs.shape[1]
    count = inputs.numel() // channels
    own = torch.zeros(1, 1 + 2 * channels, dtype=torch.float64)
    if count:
        variance, mean = torch.var_mean(inputs.detach(), dims, correction=0)
        own[0, 0] = count
        own[0, 1:] = torch.cat([mean, variance]).double()
    everyone = allgather(own, process_set=where).to(inputs.device)
    counts, means, variances = torch.split(everyone, [1, channels, channels], dim=1)
    total = counts.sum()
    if total <= 1:
        raise UsageError("SyncBatchNorm needs more than one value a channel to train")
    mean = (counts * means).sum(0) / total
    variance = (counts * (variances + (means - mean).square())).sum(0) / total
    return mean, variance, int(total)
