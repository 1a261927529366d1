"""`phalanx predict RUN`: a trained model's answers as a csv file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.run_options import DataDir, Ranks, Run, Threads, settings_on_ranks
from phalanx.train.input_names import check_input
from phalanx.train.runs import check_classes, check_writable


def predict(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="PATH",
            help="Samples of your own: a .npy or .npz file, shaped and scaled as the data set's "
            "files are; a .csv file with the columns that the model was trained on; for models "
            "trained on images, an image or a folder of them [default: the test samples].",
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

    A row has the sample's index, its file if it is an image of yours, the class it most likely is,
    and every class's probability.

    `phalanx predict runs/digits-mlp-1 --output answers.csv --ranks 3`
    """
    check_writable(output)
    if data is not None:
        check_input(data)
    settings = settings_on_ranks(run, data_dir=data_dir, ranks=ranks, threads=threads)

    from phalanx.train import inference
    from phalanx.train.own_samples import OwnSamples, read_samples
    from phalanx.train.predictions import probability_form, save_predictions, write_predictions
    from phalanx.train.session import Session
    from phalanx.train.weights import load_weights

    session = Session(settings, threads=threads)
    check_classes(run, session.dataset.classes)
    load_weights(session.model, run / "model.safetensors")
    samples = OwnSamples(session.dataset.test)
    if data is not None:
        samples = read_samples(data, like=session.dataset.test, settings=settings)
    outputs = inference.predict(session.comm, session.model, samples.split, dtype=session.dtype)
    if outputs is None:
        return
    classes, files = session.dataset.classes, samples.files
    form = probability_form(settings.loss, settings.output_activation)
    if output is None:
        write_predictions(sys.stdout, outputs, classes, form=form, files=files)
        return
    save_predictions(output, outputs, classes, form=form, files=files)
    print(f"{len(outputs):,} predictions: {output}")
