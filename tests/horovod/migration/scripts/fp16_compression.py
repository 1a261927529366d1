"""Gradients in half precision, and a compressor derived from Horovod's own class."""

import horovod.torch as hvd
import torch
from horovod.torch.compression import Compression, Compressor
from torch import nn


class HalfOfLargeOnes(Compressor):
    """Halves what is large, and leaves alone what is small."""

    @staticmethod
    def compress(tensor):
        if tensor.numel() < 4:
            return tensor, None
        return Compression.fp16.compress(tensor)

    @staticmethod
    def decompress(tensor, ctx):
        return tensor if ctx is None else Compression.fp16.decompress(tensor, ctx)


hvd.init()
losses = []
for compression in (hvd.Compression.fp16, HalfOfLargeOnes):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.05),
        named_parameters=model.named_parameters(),
        compression=compression,
    )
    generator = torch.Generator().manual_seed(1 + hvd.rank())
    data = torch.randn(32, 4, generator=generator)
    for _ in range(10):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(data), data.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(hvd.allreduce(loss.detach(), compression=compression).item())

if hvd.rank() == 0:
    print(f"fp16_compression: loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
