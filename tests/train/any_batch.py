"""One small problem in every form that samples may have."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from phalanx.comm.base import Communicator
from phalanx.data.batches import order
from phalanx.strategies.base import Objective, Strategy
from phalanx.train.trainer import Trainer

COUNT, BATCH, EPOCHS = 23, 6, 2  # the last batch of an epoch has 5
DRAW = torch.Generator().manual_seed(4)
INPUTS = torch.randn(COUNT, 4, generator=DRAW)
TARGETS = torch.randn(COUNT, 3, generator=DRAW)
#: What counts of each target. Of many samples nothing does: parts of a batch may have none.
MASK = (torch.rand(COUNT, 3, generator=DRAW) < 0.8) & (torch.arange(COUNT) % 3 == 0)[:, None]


class Named(NamedTuple):
    inputs: Any
    targets: Any
    mask: Any


@dataclass(frozen=True)
class Record:
    inputs: Tensor
    targets: Tensor
    mask: Tensor


class Rows(Dataset[Any]):
    """A sample is whatever `form` makes of the three."""

    def __init__(self, form: Callable[..., Any] = Named) -> None:
        self.form = form

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        return self.form(INPUTS[index], TARGETS[index], MASK[index])


class InOrder(IterableDataset[Named]):
    """The samples one after the other."""

    def __iter__(self) -> Iterator[Named]:
        for index in range(COUNT):
            yield Named(INPUTS[index], TARGETS[index], MASK[index])


def as_dict(inputs: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Any]:
    return {"inputs": inputs, "more": {"targets": targets, "mask": mask}, "name": "all the same"}


def as_texts(inputs: Tensor, targets: Tensor, mask: Tensor) -> dict[str, Any]:
    """As from a file of lines, which the objective has to read."""
    return {"line": ",".join(map(str, inputs.tolist())), "targets": targets, "mask": mask}


def as_record(samples: list[Named]) -> Record:
    return Record(*(torch.stack(column) for column in zip(*samples, strict=True)))


def read(batch: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, targets and mask of a batch of any form."""
    if isinstance(batch, dict) and "line" in batch:
        rows = [[float(one) for one in line.split(",")] for line in batch["line"]]
        return torch.tensor(rows), batch["targets"], batch["mask"]
    if isinstance(batch, dict):
        return batch["inputs"], batch["more"]["targets"], batch["more"]["mask"]
    if isinstance(batch, Record):
        return batch.inputs, batch.targets, batch.mask
    inputs, targets, mask = batch
    return inputs, targets, mask


#: Data, and how its samples are put together.
FORMS: dict[str, tuple[Any, Any]] = {
    "tensors": ((INPUTS, TARGETS, MASK), None),
    "arrays": ((INPUTS.numpy(), TARGETS.numpy(), MASK.numpy()), None),
    "dictionary": (as_dict(INPUTS, TARGETS, MASK), None),
    "named tuple": (Named(INPUTS, TARGETS, MASK), None),
    "tensor data set": (TensorDataset(INPUTS, TARGETS, MASK), None),
    "data set of named tuples": (Rows(), None),
    "data set of dictionaries": (Rows(as_dict), None),
    "data set of texts": (Rows(as_texts), None),
    "data set of dataclasses": (Rows(), as_record),
    "list": ([as_dict(*one) for one in zip(INPUTS, TARGETS, MASK, strict=True)], None),
    "stream": (InOrder(), None),
    "stream of dataclasses": (InOrder(), as_record),
}


def masked(model: nn.Module, batch: Any) -> Any:
    """A mean over what is not masked."""
    inputs, targets, mask = read(batch)
    return ((model(inputs) - targets).square() * mask).sum() / mask.sum()


def weigh(batch: Any) -> float:
    return float(read(batch)[2].sum())


def mean(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """A plain mean over the samples, and the model's outputs."""
    inputs, targets, _ = read(batch)
    outputs = model(inputs)
    return (outputs - targets).square().mean(), outputs


MASKED = Objective(masked, weigh=weigh)


def make_model() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 3))


def make_optimizer(model: nn.Module) -> SGD:
    return SGD(model.parameters(), lr=0.05, momentum=0.5)


def make_trainer(
    comm: Communicator, strategy: Strategy | str | None, objective: Any = MASKED, **how: Any
) -> Trainer:
    model = make_model()
    optimizer = make_optimizer(model)
    return Trainer(model, optimizer, objective=objective, strategy=strategy, comm=comm, **how)


def trained(
    comm: Communicator,
    strategy: Strategy | str | None = None,
    *,
    form: str = "data set of named tuples",
    objective: Any = MASKED,
    **how: Any,
) -> list[Tensor]:
    """The weights that a Trainer comes to."""
    data, collate = FORMS[form]
    with make_trainer(comm, strategy, objective, **how) as trainer:
        trainer.fit(data, epochs=EPOCHS, batch_size=BATCH, collate=collate)
    return weights_of(trainer.model)  # of a whole model, once the Trainer is closed


def weights_of(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def plain(
    objective: Callable[[nn.Module, Any], Any] = masked,
    *,
    shuffles: bool = True,
    clip_norm: float | None = None,
) -> list[Tensor]:
    """The weights that a plain loop comes to."""
    model = make_model()
    optimizer = make_optimizer(model)
    for epoch in range(EPOCHS):
        places = order(COUNT, seed=0, epoch=epoch) if shuffles else torch.arange(COUNT)
        for start in range(0, COUNT, BATCH):
            some = places[start : start + BATCH]
            optimizer.zero_grad()
            found = objective(model, (INPUTS[some], TARGETS[some], MASK[some]))
            (found[0] if isinstance(found, tuple) else found).backward()
            if clip_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
    return weights_of(model)


def assert_close(ours: list[Tensor], theirs: list[Tensor], what: str) -> None:
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            mine, wanted, rtol=0, atol=1e-5, msg=lambda text: f"{what}: {text}"
        )
