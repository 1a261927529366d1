"""A Trainer's own evaluations and predictions: with the trained weights, on samples of a user's."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from phalanx.clock import phase
from phalanx.data.own.collected import Collate
from phalanx.errors import UsageError
from phalanx.strategies.building_blocks.passes import precision
from phalanx.train.checks.agreement import agree, facts_of_samples
from phalanx.train.companions.measures import Measures
from phalanx.train.evaluation import evaluate, predict
from phalanx.train.metrics import Metrics
from phalanx.train.samples import Source, read_beside

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer


def evaluate_with(
    trainer: "Trainer",
    data: Any,
    collate: Collate | None = None,
    *,
    workers: int = 0,
    more: Sequence[str] = (),
) -> Metrics:
    """Collective. Loss and metrics over samples, and `more` metrics than the trainer has."""
    _check_measurable(trainer)
    prepared = _prepared(trainer, data, "evaluate", collate)
    with read_beside(prepared, workers=workers) as (samples, _), phase("evaluate"), _cast(trainer):
        return evaluate(
            trainer.comm,
            trainer.model,
            samples,
            loss=trainer.task.loss,
            dtype=trainer.dtype,
            metrics=(*trainer.metrics, *more),
            unit=trainer.target_unit,
            objective=trainer.task.objective,
            measures=Measures(trainer.measures.wanted),
            parts=trainer.worker.model_parts,
        )


def predict_with(
    trainer: "Trainer", data: Any, collate: Collate | None, *, workers: int = 0
) -> Any:
    """Collective. The model's outputs in the samples' order, on rank 0."""
    prepared = _prepared(trainer, data, "predict", collate)
    objective = trainer.task.objective
    with read_beside(prepared, workers=workers) as (samples, _), phase("evaluate"), _cast(trainer):
        return predict(
            trainer.comm,
            trainer.model,
            samples,
            dtype=trainer.dtype,
            objective=objective,
            parts=trainer.worker.model_parts,
        )


def _cast(trainer: "Trainer") -> AbstractContextManager[None]:
    """Compute as the training does."""
    return precision(trainer.model, trainer.task.autocast)


def _check_measurable(trainer: "Trainer") -> None:
    """A step of a user's own says nothing of what there is to evaluate."""
    if trainer.worker.whole_batches and trainer.task.objective is None:
        raise UsageError(
            "a step of your own does not say what to evaluate: give the Trainer an objective= as "
            "well, a function of (model, batch)"
        )


def _prepared(trainer: "Trainer", data: Any, use: str, collate: Collate | None) -> Source:
    """Collective. The samples; every rank's model has the trained weights then."""
    samples = trainer.samples(data, use, collate)
    agree(trainer.comm, use, facts_of_samples(samples, "test"))
    trainer.sync()
    return samples
