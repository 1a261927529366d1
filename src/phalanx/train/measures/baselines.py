"""What simple models make of a data set, to see whether a network has learned more than they do.

The most frequent class, or the mean of the targets, which look at no input at all; and a linear
model of the inputs: least squares for numbers, a logistic regression for classes and labels, both a
little drawn towards 0. The linear one is left out where it would take more than about a second.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import LBFGS, Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.data.split import Dataset, Split
from phalanx.data.targets.tasks import CLASSIFICATION, REGRESSION
from phalanx.settings.metrics import BY_CLASS, OF_LOSS, RANKED
from phalanx.train.metrics import Meter, Metrics
from phalanx.train.optimizers import without_compiler

#: What a linear model is fitted to at most: training samples, inputs, and products for each step of
#: a logistic regression, or for the one of least squares.
_MOST_SAMPLES, _MOST_INPUTS, _MOST_PRODUCTS = 20_000, 1_000, 20_000_000
_MOST_SQUARES = 2_000_000_000
_STEPS = 30
#: What weights of standardised inputs are drawn towards 0 by, for each sample.
_DECAY = 1e-3
#: Smaller than any deviation that counts: such an input is the same in all samples.
_TINY = 1e-12


def baselines(comm: Communicator, dataset: Dataset, names: Sequence[str]) -> dict[str, Any]:
    """Collective. The metrics of simple models on the test samples, by their names; of one that was
    left out, why (`left_out`)."""
    with phase("evaluate"):
        found = _baselines(dataset, names) if comm.rank == 0 else None
        given: dict[str, Any] | None = comm.broadcast_object(found)
    return given or {}


def _baselines(dataset: Dataset, names: Sequence[str]) -> dict[str, Any]:
    plain = [name for name in names if name not in (*RANKED, *BY_CLASS, *OF_LOSS)]
    if dataset.train.targets.dim() > (1 if dataset.task == CLASSIFICATION else 2):
        return {}  # a class for each place of a sample, such as the words of a text
    train, test = dataset.train.targets, dataset.test.targets
    kind = "mean of the targets" if dataset.task == REGRESSION else "most frequent class"
    kind = kind if dataset.task in (REGRESSION, CLASSIFICATION) else "most frequent labels"
    constant = _constant(train, len(dataset.classes), task=dataset.task)
    unit = None if dataset.scale is None else dataset.scale.deviation
    found = {kind: _measured(constant.expand(len(test), -1), test, plain, unit)}
    name = "linear model" if dataset.task == REGRESSION else "logistic model"
    obstacle = _obstacle(dataset)
    if obstacle is not None:
        return found | {"left_out": f"{name}: {obstacle}"}
    return found | {name: _measured(_linear(dataset), test, plain, unit)}


def _measured(
    outputs: Tensor, targets: Tensor, names: Sequence[str], unit: Tensor | None
) -> dict[str, Any]:
    meter = Meter(names, unit)
    meter.add(0.0, outputs, targets)
    metrics: Metrics = meter.mine
    return {name: asdict(metrics)[name] for name in ("accuracy", "more")}


def _constant(targets: Tensor, classes: int, *, task: str | None) -> Tensor:
    """The outputs of whoever answers every sample alike."""
    if task == REGRESSION:
        return targets.to(torch.float64).mean(0)
    if task == CLASSIFICATION and not targets.is_floating_point():
        return torch.bincount(targets, minlength=classes).to(torch.float64)
    return targets.to(torch.float64).mean(0) - 0.5


def _obstacle(dataset: Dataset) -> str | None:
    """Why there is no linear model, if so."""
    train = dataset.train
    if train.source is not None or dataset.test.source is not None:
        return "the samples are not in memory"
    samples, inputs, outputs = len(train), _inputs(train), len(dataset.classes)
    steps = samples * inputs * outputs
    too_large = (
        steps * inputs > _MOST_SQUARES if dataset.task == REGRESSION else steps > _MOST_PRODUCTS
    )
    if samples > _MOST_SAMPLES or inputs > _MOST_INPUTS or too_large:
        return f"{samples:,} samples of {inputs:,} inputs would take long"
    return None


def _inputs(split: Split) -> int:
    return int(torch.Size(split.input_shape).numel())


def _linear(dataset: Dataset) -> Tensor:
    """The outputs of a linear model for the test samples."""
    train, test = (_rows(split) for split in (dataset.train, dataset.test))
    mean, deviation = train.mean(0), train.std(0, correction=0)
    deviation = torch.where(deviation > _TINY, deviation, 1.0)
    train, test = ((rows - mean) / deviation for rows in (train, test))
    targets = dataset.train.targets
    if dataset.task == REGRESSION:
        return _least_squares(train, targets.to(torch.float64), test)
    return _logistic(train, targets, test, outputs=len(dataset.classes))


def _rows(split: Split) -> Tensor:
    inputs: Tensor = split.take(torch.arange(len(split)), dtype=torch.float32).inputs
    return inputs.flatten(1).to(torch.float64)


def _least_squares(train: Tensor, targets: Tensor, test: Tensor) -> Tensor:
    middle = targets.mean(0)
    squares = train.T @ train + _DECAY * len(train) * torch.eye(train.shape[1], dtype=train.dtype)
    weights: Tensor = torch.linalg.solve(squares, train.T @ (targets - middle))
    return test @ weights + middle


def _logistic(train: Tensor, targets: Tensor, test: Tensor, *, outputs: int) -> Tensor:
    weights = torch.zeros(train.shape[1], outputs, dtype=torch.float64, requires_grad=True)
    biases = torch.zeros(outputs, dtype=torch.float64, requires_grad=True)
    make: Callable[..., Optimizer] = without_compiler(LBFGS)
    optimizer = make([weights, biases], max_iter=_STEPS, line_search_fn="strong_wolfe")
    by_label = targets.is_floating_point()
    wanted = targets.to(torch.float64) if by_label else targets

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = train @ weights + biases
        value = (
            F.binary_cross_entropy_with_logits(scores, wanted)
            if by_label
            else F.cross_entropy(scores, wanted)
        )
        value = value + _DECAY * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    with torch.random.fork_rng(devices=[]):
        optimizer.step(loss)  # type: ignore[arg-type]
    return (test @ weights + biases).detach()
