"""What the runs of Phalanx are compared with: NumPy alone, plain torch, logistic regression."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from phalanx import data
from phalanx.data.batches import order
from phalanx.data.split import hold_out

Array = np.ndarray[Any, np.dtype[np.float64]]

_EPSILON = 1e-5


@dataclass(frozen=True)
class Samples:
    """Inputs a row, the numbers of their classes, and these as rows of 0 and 1."""

    inputs: Array
    labels: np.ndarray[Any, np.dtype[np.int64]]
    wanted: Array


@dataclass(frozen=True)
class Parts:
    """The flowers to train with, those to look at after every epoch, and those to test with."""

    train: Samples
    validation: Samples
    test: Samples


@dataclass(frozen=True)
class Baseline:
    """How a training without Phalanx went."""

    losses: list[float]
    #: Of the validation, after every epoch.
    accuracies: list[float]
    #: Of the test, at the end.
    accuracy: float
    batch_size: int
    seconds: float


def iris(*, test_split: float = 0.1, validation_split: float = 0.1111) -> Parts:
    """The parts that Phalanx makes of the flowers, too, by settings of the same names."""
    dataset = data.load("iris", options={"test_split": test_split})
    train, validation = hold_out(dataset.train, validation_split, seed=0)
    assert validation is not None
    found = []
    for split in (train, validation, dataset.test):
        taken = split.take(torch.arange(len(split)))
        labels = taken.targets.numpy()
        wanted = np.eye(len(dataset.classes))[labels]
        found.append(Samples(taken.inputs.double().numpy(), labels, wanted))
    return Parts(*found)


def batches(count: int, size: int, *, epoch: int) -> Iterator[Any]:
    """The indices of every batch of an epoch, in the order that Phalanx takes them."""
    indices = order(count, seed=0, epoch=epoch).numpy()
    for start in range(0, count, size):
        yield indices[start : start + size]


class ThreeLayers:
    """The network of an .irisenv in NumPy: sigmoid layers, standardised between, squared error."""

    def __init__(self, *sizes: int, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        pairs = list(pairwise(sizes))
        self.weights = [random.uniform(-1, 1, pair) / np.sqrt(pair[0]) for pair in pairs]
        self.biases = [random.uniform(-1, 1, pair[1]) / np.sqrt(pair[0]) for pair in pairs]

    def forward(self, inputs: Array) -> Array:
        """The outputs; what each layer read and gave is kept for `gradients`."""
        self._reads: list[Array] = [inputs]
        self._gives: list[Array] = []
        self._deviations: list[Array] = []
        for number, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            gives = 1 / (1 + np.exp(-(self._reads[-1] @ weights + biases)))
            self._gives.append(gives)
            if number + 1 < len(self.weights):
                deviation = np.sqrt(gives.var(axis=1, keepdims=True) + _EPSILON)
                self._deviations.append(deviation)
                self._reads.append((gives - gives.mean(axis=1, keepdims=True)) / deviation)
        return self._gives[-1]

    def gradients(self, wanted: Array) -> list[tuple[Array, Array]]:
        """Of the summed squared error, for the weights and the biases of each layer."""
        found = []
        upstream = 2 * (self._gives[-1] - wanted)
        for number in reversed(range(len(self.weights))):
            gives = self._gives[number]
            upstream = upstream * gives * (1 - gives)
            found.append((self._reads[number].T @ upstream, upstream.sum(axis=0)))
            if number:
                upstream = self._through_standardising(upstream @ self.weights[number].T, number)
        return found[::-1]

    def _through_standardising(self, upstream: Array, number: int) -> Array:
        reads = self._reads[number]
        along = (upstream * reads).mean(axis=1, keepdims=True)
        centred = upstream - upstream.mean(axis=1, keepdims=True) - reads * along
        before: Array = centred / self._deviations[number - 1]
        return before

    def step(self, inputs: Array, wanted: Array, *, learning_rate: float) -> float:
        """Descend once; the loss before."""
        loss = float(np.square(self.forward(inputs) - wanted).sum())
        for number, (weights, biases) in enumerate(self.gradients(wanted)):
            self.weights[number] -= learning_rate * weights
            self.biases[number] -= learning_rate * biases
        return loss


def numpy_network(
    hidden: tuple[int, int], *, epochs: int, batch_size: int, learning_rate: float
) -> Baseline:
    """The same network from scratch."""
    parts = iris()
    train = parts.train
    network = ThreeLayers(train.inputs.shape[1], *hidden, train.wanted.shape[1])

    def step(batch: Any) -> float:
        return network.step(train.inputs[batch], train.wanted[batch], learning_rate=learning_rate)

    return _fit(step, network.forward, parts, epochs=epochs, batch_size=batch_size)


def plain_torch(
    hidden: tuple[int, int], *, epochs: int, batch_size: int, learning_rate: float
) -> Baseline:
    """The same network as one would write it in torch; `single` on one rank computes the same."""
    parts = iris()
    train = parts.train
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(train.inputs.shape[1], hidden[0]), nn.Sigmoid()),
        nn.LayerNorm(hidden[0], elementwise_affine=False),
        *(nn.Linear(hidden[0], hidden[1]), nn.Sigmoid()),
        nn.LayerNorm(hidden[1], elementwise_affine=False),
        *(nn.Linear(hidden[1], train.wanted.shape[1]), nn.Sigmoid()),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    inputs, wanted = torch.from_numpy(train.inputs).float(), torch.from_numpy(train.wanted).float()

    def step(batch: Any) -> float:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs[batch]), wanted[batch], reduction="sum")
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    def answer(given: Array) -> Array:
        with torch.no_grad():
            outputs: Array = model(torch.from_numpy(given).float()).double().numpy()
        return outputs

    return _fit(step, answer, parts, epochs=epochs, batch_size=batch_size)


def logistic_regression(*, epochs: int, batch_size: int, learning_rate: float) -> Baseline:
    """One linear layer and a softmax, in NumPy."""
    parts = iris()
    train = parts.train
    weights = np.zeros((train.inputs.shape[1] + 1, train.wanted.shape[1]))

    def outputs(inputs: Array) -> Array:
        scores = np.column_stack([np.ones(len(inputs)), inputs]) @ weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def step(batch: Any) -> float:
        shares, wanted = outputs(train.inputs[batch]), train.wanted[batch]
        inputs = np.column_stack([np.ones(len(batch)), train.inputs[batch]])
        weights[...] -= learning_rate * inputs.T @ (shares - wanted)
        return float(-np.log(shares[wanted == 1]).sum())

    return _fit(step, outputs, parts, epochs=epochs, batch_size=batch_size)


def _fit(
    step: Callable[[Any], float],
    answer: Callable[[Array], Array],
    parts: Parts,
    *,
    epochs: int,
    batch_size: int,
) -> Baseline:
    """Train for so many epochs, validate after each, and test at the end."""

    def accuracy(samples: Samples) -> float:
        return float((answer(samples.inputs).argmax(axis=1) == samples.labels).mean())

    losses, accuracies = [], []
    count = len(parts.train.labels)
    seconds = 0.0
    for epoch in range(epochs):
        started = time.perf_counter()
        total = sum(step(batch) for batch in batches(count, batch_size, epoch=epoch))
        seconds += time.perf_counter() - started
        losses.append(total / count)
        accuracies.append(accuracy(parts.validation))
    return Baseline(losses, accuracies, accuracy(parts.test), batch_size, seconds)
