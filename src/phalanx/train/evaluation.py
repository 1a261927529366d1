"""Evaluation and prediction over the ranks, with the same bits on any number of them.

Samples go through the model in chunks of a fixed size, because a matrix product's last bits depend
on the size of its operands. Ranks take whole chunks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch, cut, linked, plain
from phalanx.data.own.stream import Stream
from phalanx.data.split import Samples
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of
from phalanx.models.modes import kept_modes
from phalanx.strategies.base import Loss, Objective, Outcome, Piece, number
from phalanx.strategies.building_blocks.passes import evaluate_objective, no_tensor
from phalanx.strategies.model_parts import ModelParts
from phalanx.train.checks.agreement import agreed
from phalanx.train.companions.measures import Measures
from phalanx.train.measures.ranking import Scores
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.samples import Source
from phalanx.wording import a

#: The samples of a forward pass.
CHUNK = 256


def evaluate(
    comm: Communicator,
    model: nn.Module,
    split: Source,
    *,
    loss: Loss,
    dtype: torch.dtype,
    metrics: Sequence[str] = (),
    unit: Tensor | None = None,
    objective: Objective | None = None,
    measures: Measures | None = None,
    parts: ModelParts | None = None,
) -> Metrics:
    """Collective. The model's loss and accuracy over all samples, each rank doing its part.

    `unit` is what 1 stands for in each target. Of a model that ranks have in `parts`, those of a
    copy go through the same samples together.
    """
    meter, scored = Meter(metrics, unit), Scores(metrics)
    for samples in _chunks(comm, model, split, dtype, parts):
        outcome = _outcome(model, samples, loss, objective, parts)
        if outcome is None:
            continue
        meter.add_outcome(outcome)
        scored.add(outcome)
        if measures is not None:
            measures.add(outcome)
    total = meter.total(comm)
    whole, each = scored.total(comm)
    whole |= {} if measures is None else measures.total(comm)
    return replace(total, more=total.more | whole, by_output=total.by_output | each)


def _outcome(
    model: nn.Module,
    samples: Samples,
    loss: Loss,
    objective: Objective | None,
    parts: ModelParts | None,
) -> Outcome | None:
    """What came of some samples; None if another rank has it."""
    weight = loss.weight(samples.targets)
    with torch.inference_mode():
        if objective is not None:
            batch, count = plain(samples.inputs), len(samples.targets)
            if loss.averaged and weight == 0:
                return Outcome(0.0, None, None, 0.0, (Piece(batch, None, count),))
            value, found = evaluate_objective(objective, model, batch)
            if objective.answers and not isinstance(found, Tensor):
                found = _outputs(model, Samples(batch[0], batch[1]))
            total = loss.total(number(value), weight)
            return objective.outcome(total, Piece(batch, found, count), weight)
        outputs = _outputs(model, samples) if parts is None else _made(parts, samples)
        if outputs is None:
            return None
        value = loss.function(outputs, plain(samples.targets))
    total = loss.total(number(value), weight)
    if isinstance(samples.targets, Tensor):
        return Outcome(total, samples.targets, outputs, weight)
    piece = Piece(plain(samples.targets), outputs, len(samples.targets))
    return Outcome(total, None, None, weight, (piece,))


def predict(
    comm: Communicator,
    model: nn.Module,
    split: Source,
    *,
    dtype: torch.dtype,
    objective: Objective | None = None,
    parts: ModelParts | None = None,
) -> Tensor | None:
    """Collective. The model's outputs in the samples' order, on rank 0; None on the others."""
    chunks = _chunks(comm, model, split, dtype, parts)
    found = (_predicted(model, samples, objective, parts) for samples in chunks)
    rows = [one.cpu() for one in found if one is not None]
    everyone = comm.allgather_objects([len(one) for one in rows])
    form = next(
        filter(None, comm.allgather_objects((rows[0].shape[1:], rows[0].dtype) if rows else None)),
        None,
    )
    if form is None:
        raise UsageError("there is not one sample to predict")
    mine = torch.cat(rows) if rows else torch.empty(0, *form[0], dtype=form[1])
    counts = [sum(rows) for rows in everyone]
    whole = torch.empty(sum(counts), *form[0], dtype=mine.dtype) if comm.rank == 0 else None
    comm.gather(mine.contiguous(), whole, counts=counts)
    everyone = [one for one in everyone if one] if parts is not None else everyone
    return _dealt(whole, everyone) if whole is not None and isinstance(split, Stream) else whole


def _dealt(whole: Tensor, rows: Sequence[Sequence[int]]) -> Tensor:
    """What ranks had of a stream, chunk by chunk in turn, in its own order.

    `rows` has the samples of each chunk of each rank.
    """
    of_ranks = zip(torch.split(whole, [sum(counts) for counts in rows]), rows, strict=True)
    by_rank = [torch.split(part, list(counts)) for part, counts in of_ranks]
    order = range(max(len(parts) for parts in by_rank))
    return torch.cat([parts[at] for at in order for parts in by_rank if at < len(parts)])


@torch.inference_mode()
def _predicted(
    model: nn.Module, samples: Samples, objective: Objective | None, parts: ModelParts | None
) -> Tensor | None:
    if parts is not None:
        return _made(parts, samples)
    if objective is None:
        return _outputs(model, samples)
    outputs = evaluate_objective(objective, model, plain(samples.inputs))[1]
    if not isinstance(outputs, Tensor) or len(outputs) != len(samples.targets):
        raise UsageError(
            "predictions are the outputs that an objective returns beside the loss, one tensor "
            "with a row for each sample: have it return (loss, outputs)"
        )
    return outputs


def _outputs(model: nn.Module, samples: Samples) -> Tensor:
    outputs: Any = model(plain(samples.inputs))
    if not isinstance(outputs, Tensor):
        raise no_tensor(model, outputs)
    return outputs


def _made(parts: ModelParts, samples: Samples) -> Tensor | None:
    """Collective over the ranks of a copy. The outputs, on the rank that has them."""
    outputs: Any = parts.outputs(plain(samples.inputs))
    if outputs is not None and not isinstance(outputs, Tensor):
        raise UsageError(f"the model gives {a(outputs)}, and a tensor is needed")
    return outputs


def _chunks(
    comm: Communicator,
    model: nn.Module,
    split: Source,
    dtype: torch.dtype,
    parts: ModelParts | None,
) -> Iterator[Samples]:
    """This rank's chunks of the samples, while the model is in evaluation."""
    rank, size = (comm.rank, comm.size) if parts is None else (parts.copy.number, parts.copy.of)
    device = device_of(model)
    with kept_modes(model):
        model.eval()
        if isinstance(split, Stream):
            stream = split.batches(batch_size=CHUNK, seed=0, epoch=0)
            for number, batch in enumerate(agreed(comm, stream, "evaluate")):
                if number % size == rank:
                    yield batch.whole().to(device)
            return
        chunks = -(-len(split) // CHUNK)
        mine = cut(chunks, size)[rank]
        one_by_one = (
            Batch(
                split,
                torch.arange(chunk * CHUNK, min((chunk + 1) * CHUNK, len(split))),
                dtype,
                device=device,
            )
            for chunk in range(mine.start, mine.stop)
        )
        for batch in linked(one_by_one, ahead=split.ahead):
            yield batch.whole()
