"""Evaluation and prediction over the ranks, with the same bits on any number of them.

Samples go through the model in chunks of a fixed size, because a matrix product's last bits depend
on the size of its operands. Ranks take whole chunks.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import cut
from phalanx.data.split import Samples, Split
from phalanx.strategies.base import Loss
from phalanx.train.compute import device_of
from phalanx.train.metrics import Meter, Metrics

_CHUNK = 256


def evaluate(
    comm: Communicator,
    model: nn.Module,
    split: Split,
    *,
    loss: Loss,
    dtype: torch.dtype,
    metrics: Sequence[str] = (),
) -> Metrics:
    """Collective. The model's loss and accuracy over a whole split, each rank doing its part."""
    meter = Meter(metrics)
    for samples, outputs in _forward(comm, model, split, dtype):
        value = loss.function(outputs, samples.targets).item()
        meter.add(loss.total(value, len(outputs)), outputs, samples.targets)
    return meter.total(comm)


def predict(
    comm: Communicator, model: nn.Module, split: Split, *, dtype: torch.dtype
) -> Tensor | None:
    """Collective. The model's outputs in the split's order, on rank 0; None on the others."""
    parts = [outputs.cpu() for _, outputs in _forward(comm, model, split, dtype)]
    counts = comm.allgather_objects(sum(len(part) for part in parts))
    shape = next(
        shape
        for shape in comm.allgather_objects(tuple(parts[0].shape[1:]) if parts else None)
        if shape is not None
    )
    mine = torch.cat(parts) if parts else torch.empty(0, *shape, dtype=dtype)
    whole = torch.empty(len(split), *shape, dtype=mine.dtype) if comm.rank == 0 else None
    comm.gather(mine.contiguous(), whole, counts=counts)
    return whole


def _forward(
    comm: Communicator, model: nn.Module, split: Split, dtype: torch.dtype
) -> Iterator[tuple[Samples, Tensor]]:
    """This rank's chunks of the split, and what the model makes of them."""
    was_training = model.training
    model.eval()
    chunks = -(-len(split) // _CHUNK)
    mine = cut(chunks, comm.size)[comm.rank]
    device = device_of(model)
    try:
        for chunk in range(mine.start, mine.stop):
            indices = torch.arange(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(split)))
            samples = split.take(indices, dtype=dtype).to(device)
            with torch.inference_mode():
                outputs = model(samples.inputs)
            yield samples, outputs
    finally:
        model.train(was_training)
