"""`phalanx evaluate`: the metrics of a trained model, from its run or from a file of weights."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx.cli.flags.evaluate import with_run_or_weights
from phalanx.data.location import data_path
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import UsageError
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.settings.tokens import has_tokens

if TYPE_CHECKING:
    from phalanx.train.metrics import Metrics
    from phalanx.train.session import Session


@with_run_or_weights
def evaluate(settings: Settings, run: Path | None, output: Path | None) -> None:
    """Evaluate a trained model on test samples.

    * `phalanx evaluate runs/digits-mlp-1 --ranks 2` evaluates a run, with the settings it had.
    * `phalanx evaluate runs/csv-mlp-1 --data-dir new.csv` evaluates a run on other data: on its
      test part, or on all of it if it has none. `--test-split`, `--encoding`, `--skip-bad`
      and `--metrics` go with it.
    * `phalanx evaluate --weights FILE --model mlp --hidden 25 --dataset mat --data-dir FILE.mat`
      evaluates weights from elsewhere: on the data's test part, or on all of it if it has none.
    """
    from phalanx.cli.output.passes import shown_evaluation
    from phalanx.inference.data import load_like_training
    from phalanx.inference.finite import check_loss
    from phalanx.runs.record import read_record
    from phalanx.train.session import open_session

    load = None if run is None else partial(load_like_training, settings, read_record(run))
    session = open_session(settings, threads=settings.threads, load=load)
    if run is None:
        _check_scale(session)
    with shown_evaluation(session, "evaluating"):
        metrics = _evaluated(session)
    check_loss(session.model, metrics.loss, weights=settings.weights)
    if session.is_first:
        _show(session.settings, metrics, session.dataset.classes, of_run=run is not None)
        if output is not None:
            known = {"task": session.settings.task, "classes": session.dataset.classes}
            values = asdict(metrics) | known
            with writing(output):
                output.write_text(json.dumps(values, indent=2) + "\n")


def _evaluated(session: "Session") -> "Metrics":
    """Collective. The model's loss, or objective, and metrics over the test samples."""
    from phalanx.train.evaluation import evaluate
    from phalanx.train.samples import samples_of

    objective = session.objective
    return evaluate(
        session.comm,
        session.model,
        samples_of(session.dataset.test, use="evaluate", whole=objective is not None),
        loss=session.loss if objective is None else objective.as_loss(),
        objective=objective,
        dtype=session.dtype,
        metrics=_asked(session),
        unit=None if session.dataset.scale is None else session.dataset.scale.deviation,
    )


def _asked(session: "Session") -> tuple[str, ...]:
    """What to measure: of classes that are not tokens, the confusion, too."""
    settings = session.settings
    confused = settings.task == CLASSIFICATION and not has_tokens(settings)
    return (*(("confusion",) if confused else ()), *session.metrics)


def _check_scale(session: "Session") -> None:
    """Refuse weights that stand alone and learned targets of a scale that nobody knows."""
    if session.dataset.scale is not None:
        raise UsageError(
            "weights alone do not say what the targets of their training were standardised by: "
            "name the run's folder, or add --raw-targets if they were not"
        )


def _show(
    settings: Settings, metrics: "Metrics", classes: tuple[str, ...], *, of_run: bool
) -> None:
    from phalanx.cli.output.console import wide_console
    from phalanx.cli.output.tables import plain_table
    from phalanx.train.measures.tables import result_tables

    more = "".join(f"  {name} {value:.6g}" for name, value in metrics.more.items())
    whole = of_run and settings.test_split == 0
    path = data_path(settings.dataset, settings.data_dir)
    kind = f"samples, all of {path}" if whole else "test samples"
    console = wide_console()
    console.print(
        f"{settings.dataset}: {metrics.count:,} {kind}  "
        f"loss {metrics.loss:.6f}{metrics.accuracy_text}{more}",
        highlight=False,
        soft_wrap=True,
    )
    for table in result_tables(metrics, classes, task=settings.task):
        console.print(plain_table(table, width=console.width))
