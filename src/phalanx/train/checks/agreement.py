"""What every rank must bring alike, compared before it can do harm.

Ranks that differ in their data, or in how they train on it, would wait for each other for ever, or
train on and be wrong.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.data.batches import Batch
from phalanx.data.own.collected import Collected, tensors_of
from phalanx.data.own.paired import Paired
from phalanx.data.own.stream import Stream
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.state import State
from phalanx.strategies.base import Task
from phalanx.train.position import Position
from phalanx.train.samples import Source

#: Of targets all bytes up to here count, of inputs some samples.
_MOST_BYTES = 1 << 22
_FEWEST_SAMPLES, _MOST_SAMPLES = 4, 64
#: Of a stream, in an epoch.
_FIRST_BATCHES = 3
_PLAIN = (bool, int, float, str, tuple, type(None))


def agree(comm: Communicator, operation: str, facts: Mapping[str, Any]) -> None:
    """Collective. Refuse what ranks bring differently, in the words of what they bring."""
    if comm.size == 1:
        return
    everyone = comm.allgather_objects(dict(facts))
    for name in dict.fromkeys(name for one in everyone for name in one):
        brought = [one.get(name) for one in everyone]
        others = [rank for rank, one in enumerate(brought) if one != brought[0]]
        if others:
            whose = "rank" if len(others) == 1 else "ranks"
            raise UsageError(
                f"{operation}: {whose} {', '.join(map(str, others))} brought "
                f"{name} {brought[others[0]]}, rank 0 {brought[0]}: every rank must bring the same"
            )


def agreed(comm: Communicator, stream: Iterator[Batch], operation: str) -> Iterator[Batch]:
    """Collective. The batches of a stream, the first of which are compared over the ranks."""
    for _ in range(_FIRST_BATCHES if comm.size > 1 else 0):
        batch = next(stream, None)
        facts: dict[str, Any] = {"samples of a stream, in a batch": batch.size if batch else 0}
        if batch is not None and isinstance(batch.source, Collected):
            first = _digest(tensors_of(batch.source, [0]))
            facts["samples of a stream (cut by rank?) with the fingerprint"] = first
        agree(comm, operation, facts)
        if batch is None:
            return
        yield batch
    yield from stream


def check_state(state: State, task: Task) -> None:
    """Refuse a state with which the training would be another one."""
    for name in ("seed", "shards"):
        here = getattr(task, name)
        if state.values[name] != here:
            raise UsageError(
                f"the state is of a training with {name}={state.values[name]}, and this one "
                f"has {name}={here}: make the Trainer with the same"
            )


def facts_of_task(task: Task, *, strategy: object) -> dict[str, Any]:
    """What all ranks that train together must have in common."""
    names = ("seed", "shards", "clip_norm", "accumulate", "compile")
    return {
        "strategy": repr(strategy),
        **{name: getattr(task, name) for name in names},
        "autocast": str(task.autocast),
        "a loss that is a": task.loss.reduction,
        **facts_of_model(task.model),
        **facts_of_optimizer(task.optimizer),
    }


def facts_of_model(model: nn.Module) -> dict[str, Any]:
    """The names, shapes and types of its parameters and buffers, and which are trained."""
    trained = {
        f"parameter '{name}'": f"{_look(one)}{'' if one.requires_grad else ', frozen'}"
        for name, one in model.named_parameters()
    }
    return trained | {f"buffer '{name}'": _look(one) for name, one in model.named_buffers()}


def facts_of_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Its kind and its hyper-parameters, group by group."""
    facts: dict[str, Any] = {"optimizer": type(optimizer).__name__}
    for number, group in enumerate(optimizer.param_groups):
        facts[f"parameters in group {number}"] = len(group["params"])
        for name, value in group.items():
            plain = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            if name != "params" and isinstance(plain, _PLAIN):
                facts[f"{name} (group {number})"] = plain
    return facts


def facts_of_training(position: Position, optimizer: Optimizer) -> dict[str, Any]:
    """Where it stands, and how it goes on from there."""
    facts = asdict(position) | facts_of_optimizer(optimizer)
    facts.pop("seconds")
    return facts


def facts_of_samples(samples: Source | None, kind: str) -> dict[str, Any]:
    """How many samples there are, what they look like, and a fingerprint of what they are."""
    if samples is None:
        return {f"{kind} samples": "none"}
    if isinstance(samples, Split | Paired):
        split = samples.split if isinstance(samples, Paired) else samples
        return _facts_of_split(split, kind)
    if isinstance(samples, Stream):  # to look at a sample would take it away from the training
        return {f"{kind} samples": type(samples.dataset).__name__}
    count = min(_FEWEST_SAMPLES, len(samples))
    some = torch.linspace(0, len(samples) - 1, count, dtype=torch.float64).long().tolist()
    tensors = tensors_of(samples, some)
    return {
        f"{kind} samples": len(samples),
        f"{kind} batches": ", ".join(_look(one[:0]) for one in tensors),
        f"{kind} samples with the fingerprint": _digest(tensors),
    }


def _facts_of_split(split: Split, kind: str) -> dict[str, Any]:
    return {
        f"{kind} samples": len(split),
        f"{kind} inputs": f"{split.stored_dtype}{list(split.stored_shape)}",
        f"{kind} targets": _look(split.targets[:0]),
        f"scale of {kind} samples": split.scale,
        f"{kind} transforms": ", ".join(type(one).__name__ for one in split.transforms),
        f"{kind} samples with the fingerprint": _fingerprint(split),
    }


def weights_fingerprint(model: nn.Module) -> str:
    """Of a few elements of each parameter: enough to tell one training's from another's."""
    ends = [
        part.detach().cpu()
        for parameter in model.parameters()
        for flat in [parameter.detach().reshape(-1)]
        for part in (flat[:8], flat[-8:])
    ]
    return _digest(ends)


def _fingerprint(split: Split) -> str:
    if len(split) == 0:
        return "of nothing"
    targets = split.targets
    step = -(-targets.numel() * targets.element_size() // _MOST_BYTES)
    if targets.is_contiguous():  # else some samples, for all would take memory of their own
        targets = targets.reshape(-1)
    one = split.fetch(torch.tensor([0]))
    room = _MOST_BYTES // max(one.numel() * one.element_size(), 1)
    count = min(max(room, _FEWEST_SAMPLES), _MOST_SAMPLES, len(split))
    if split.source is not None:  # each may be a file to open
        count = min(count, _FEWEST_SAMPLES)
    some = torch.linspace(0, len(split) - 1, count, dtype=torch.float64).long()
    return _digest([targets[::step], split.fetch(some)])


def _digest(tensors: list[Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for tensor in tensors:
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _look(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
