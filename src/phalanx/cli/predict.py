"""`phalanx predict RUN`: a trained model's answers as a csv file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.run_options import DataDir, Ranks, Run, Threads, settings_on_ranks


def predict(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE.npy",
            help="Samples of your own, one a row, shaped and scaled as the data set's files are "
            "[default: the test samples].",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Where to write [default: to the screen]."),
    ] = None,
    data_dir: DataDir = None,
    ranks: Ranks = None,
    threads: Threads = 1,
) -> None:
    """Write a trained model's answers, one row a sample, in the order of the samples.

    A row has the sample's index, the class it most likely is, and every class's probability.

    `phalanx predict runs/digits-mlp-1 --output answers.csv --ranks 3`
    """
    settings = settings_on_ranks(run, data_dir=data_dir, ranks=ranks, threads=threads)

    from phalanx.train import inference
    from phalanx.train.predictions import read_samples, write_predictions
    from phalanx.train.session import Session
    from phalanx.train.weights import load_weights

    session = Session(settings, threads=threads)
    load_weights(session.model, run / "model.safetensors")
    samples = session.dataset.test
    if data is not None:
        samples = read_samples(data, like=samples)
    outputs = inference.predict(session.comm, session.model, samples, dtype=session.dtype)
    if outputs is None:
        return
    if output is None:
        write_predictions(sys.stdout, outputs, session.dataset.classes)
        return
    beside = output.with_name(output.name + ".partial")
    with beside.open("w", newline="") as file:
        write_predictions(file, outputs, session.dataset.classes)
    beside.replace(output)
    print(f"{len(outputs):,} predictions: {output}")
