"""`phalanx evaluate`: the metrics of a trained model, from its run or from a file of weights."""

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx.cli.flags.evaluate import with_run_or_weights
from phalanx.data.location import data_path
from phalanx.settings.table import Settings

if TYPE_CHECKING:
    from phalanx.train.metrics import Metrics


@with_run_or_weights
def evaluate(settings: Settings, run: Path | None, output: Path | None) -> None:
    """Evaluate a trained model on test samples.

    * `phalanx evaluate runs/digits-mlp-1 --ranks 2` evaluates a run, with the settings it had.
    * `phalanx evaluate runs/csv-mlp-1 --data-dir new.csv` evaluates a run on other data: on its
      test part, or on all of it if it has none. `--test-split` and `--metrics` go with it.
    * `phalanx evaluate --weights FILE --model mlp --hidden 25 --dataset mat --data-dir FILE.mat`
      evaluates weights from elsewhere: on the data's test part, or on all of it if it has none.
    """
    from phalanx.inference.data import load_like_training
    from phalanx.runs.record import read_record
    from phalanx.train import evaluation as inference
    from phalanx.train.session import open_session

    load = None if run is None else partial(load_like_training, settings, read_record(run))
    session = open_session(settings, threads=settings.threads, load=load)
    metrics = inference.evaluate(
        session.comm,
        session.model,
        session.dataset.test,
        loss=session.loss,
        dtype=session.dtype,
        metrics=("confusion", *settings.metrics),
    )
    if session.is_first:
        _show(settings, metrics, session.dataset.classes, of_run=run is not None)
        if output is not None:
            values = asdict(metrics) | {"classes": session.dataset.classes}
            output.write_text(json.dumps(values, indent=2) + "\n")


def _show(
    settings: Settings, metrics: "Metrics", classes: tuple[str, ...], *, of_run: bool
) -> None:
    from phalanx.cli.output.console import wide_console
    from phalanx.cli.output.tables import plain_table
    from phalanx.train.metrics import confusion_table

    more = "".join(f"  {name} {value:.6g}" for name, value in metrics.more.items())
    whole = of_run and settings.test_split == 0
    path = data_path(settings.dataset, settings.data_dir)
    kind = f"samples, all of {path}" if whole else "test samples"
    print(
        f"{settings.dataset}: {metrics.count:,} {kind}  "
        f"loss {metrics.loss:.6f}  accuracy {metrics.accuracy:.2%}{more}"
    )
    if metrics.confusion:
        wide_console().print(plain_table(confusion_table(metrics, classes)))
