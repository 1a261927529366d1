"""Metrics of a user's own: functions of outputs and targets, or objects of torchmetrics.

A function gives a number for each sample, and its mean over all samples is reported: sums are exact
over batches and ranks. An object has `update` and `compute`, and states that say how those of
several ranks make one, as every metric of torchmetrics has.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.settings.metrics import METRICS
from phalanx.state import State
from phalanx.state.parts import Part
from phalanx.strategies.base import Outcome
from phalanx.wording import a

#: What a user gives: by name, what to measure.
Wanted = Mapping[str, Any]
_STATES = "measures/"
_TAKEN = ("loss", "accuracy", *METRICS)


class Measure(ABC):
    """One metric, over what this rank has seen so far."""

    @abstractmethod
    def add(self, outputs: Any, targets: Any) -> None:
        """Count in some samples."""

    @abstractmethod
    def merged(self, comm: Communicator) -> dict[str, Tensor]:
        """Collective. What all ranks have seen, the same on every rank."""

    @abstractmethod
    def load(self, merged: dict[str, Tensor]) -> None:
        """Go on from what all had seen."""

    @abstractmethod
    def value(self, merged: dict[str, Tensor]) -> float:
        """What that comes to."""


@final
class MeanOf(Measure):
    """The mean of a function over all samples."""

    def __init__(self, name: str, function: Callable[[Any, Any], Any]) -> None:
        self._name, self._function = name, function
        self._sums = torch.zeros(2, dtype=torch.float64)

    def add(self, outputs: Any, targets: Any) -> None:
        values = torch.as_tensor(self._function(outputs, targets)).detach()
        if values.dim() != 1:
            raise UsageError(
                f"the metric '{self._name}' gives a tensor of {list(values.shape)}, and must give "
                "a number for each sample, so that their mean is the same on any number of ranks"
            )
        self._sums[0] += values.sum(dtype=torch.float64).cpu()
        self._sums[1] += len(values)

    def merged(self, comm: Communicator) -> dict[str, Tensor]:
        sums = self._sums.clone()
        comm.allreduce(sums)
        return {"sums": sums}

    def load(self, merged: dict[str, Tensor]) -> None:
        self._sums.copy_(merged["sums"])

    def value(self, merged: dict[str, Tensor]) -> float:
        total, count = merged["sums"].tolist()
        return total / count if count else float("nan")


@final
class OfTorchmetrics(Measure):
    """An object of torchmetrics, or one that is made alike."""

    def __init__(self, name: str, metric: Any) -> None:
        self._name, self._metric = name, deepcopy(metric)
        self._metric.reset()
        self._reductions: dict[str, Any] = metric._reductions
        unknown = [state for state, how in self._reductions.items() if _kind(how) is None]
        if unknown:
            raise UsageError(
                f"the metric '{name}' does not say how the '{unknown[0]}' of several ranks make "
                "one (dist_reduce_fx of sum, max, min or cat)"
            )

    def add(self, outputs: Any, targets: Any) -> None:
        self._metric.update(outputs, targets)

    def merged(self, comm: Communicator) -> dict[str, Tensor]:
        everyone = comm.allgather_objects(dict(self._states()))
        return {
            name: _merge(_kind(how), there)
            for name, how in self._reductions.items()
            if (there := [one[name] for one in everyone if name in one])
        }

    def _states(self) -> Iterator[tuple[str, Tensor]]:
        """What there is; of a list that is put together, nothing if it is empty."""
        for name in self._reductions:
            value = getattr(self._metric, name)
            if isinstance(value, Tensor):
                yield name, value.detach().cpu()
            elif value:
                rows = [one.reshape(1) if one.dim() == 0 else one for one in value]
                yield name, torch.cat(rows).detach().cpu()

    def load(self, merged: dict[str, Tensor]) -> None:
        _give(self._metric, merged)

    def value(self, merged: dict[str, Tensor]) -> float:
        whole = deepcopy(self._metric)
        whole.reset()
        _give(whole, merged)
        return float(whole.compute())


def _give(metric: Any, merged: dict[str, Tensor]) -> None:
    for name, tensor in merged.items():
        kept = [tensor.clone()] if isinstance(getattr(metric, name), list) else tensor.clone()
        setattr(metric, name, kept)
    metric._update_count = 1  # else it warns that nothing was ever counted in


def _kind(reduction: Any) -> str | None:
    name = getattr(reduction, "__name__", "")
    kinds = {"dim_zero_sum": "sum", "dim_zero_max": "max", "dim_zero_min": "min"}
    return (kinds | {"dim_zero_cat": "cat"}).get(name)


def _merge(kind: str | None, tensors: list[Tensor]) -> Tensor:
    if kind == "cat":
        return torch.cat(tensors)
    stacked = torch.stack(tensors)
    if kind == "sum":
        return stacked.sum(0)
    return stacked.amax(0) if kind == "max" else stacked.amin(0)


@final
class Measures:
    """All metrics of a user's own, over an epoch or an evaluation."""

    def __init__(self, wanted: Wanted) -> None:
        check_wanted(wanted)
        self.wanted = wanted
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self._measures = {name: _made(name, one) for name, one in self.wanted.items()}

    def add(self, outcome: Outcome) -> None:
        """Count in a step."""
        for measure in self._measures.values():
            if outcome.outputs is not None and not outcome.pieces:
                measure.add(outcome.outputs, outcome.targets)
            for piece in outcome.pieces:
                measure.add(piece.outputs, piece.batch)

    def total(self, comm: Communicator) -> dict[str, float]:
        """Collective. What all ranks have seen comes to."""
        return {name: one.value(one.merged(comm)) for name, one in self._measures.items()}

    def state(self, comm: Communicator) -> State:
        """Collective. What all ranks have seen of the epoch under way."""
        tensors: dict[str, Part] = {
            f"{_STATES}{name}/{key}": tensor
            for name, measure in self._measures.items()
            for key, tensor in measure.merged(comm).items()
        }
        return State(tensors)

    def load(self, state: State, *, first: bool) -> None:
        """Go on from there: the first rank with what all had seen, the others with nothing."""
        self.reset()
        for name, measure in self._measures.items():
            merged = dict(state.under(f"{_STATES}{name}/"))
            if merged and first:
                measure.load(merged)


def _made(name: str, wanted: Any) -> Measure:
    if hasattr(wanted, "update") and hasattr(wanted, "compute"):
        return OfTorchmetrics(name, wanted)
    return MeanOf(name, wanted)


def check_wanted(wanted: Wanted) -> None:
    """Refuse what is no metric, or has a name that is taken."""
    for name, one in wanted.items():
        if name in _TAKEN or "/" in name:
            raise UsageError(f"a metric of your own cannot be named '{name}'")
        if not callable(one):
            raise UsageError(
                f"the metric '{name}' is a function of outputs and targets that gives a number for "
                f"each sample, or a torchmetrics object, not {a(one)}"
            )
