"""`phalanx predict RUN`: a trained model's answers as a csv file."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phalanx.cli.flags.runs import DataDir, Ranks, Run, Threads, settings_on_ranks
from phalanx.errors import UsageError
from phalanx.inference.input_files import check_input
from phalanx.runs.folder import check_writable
from phalanx.settings.table import Settings

if TYPE_CHECKING:
    from phalanx.inference.answers import Answers


Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        metavar="PATH",
        help="Samples of your own: a .npy or .npz file, shaped and scaled as the data set's "
        "files are; a .csv file with the columns that the model was trained on; for models "
        "trained on images, an image or a folder of them [default: the test samples].",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="Where to write [default: to the screen]."),
]


def predict(
    run: Run,
    data: Input = None,
    output: Output = None,
    data_dir: DataDir = None,
    ranks: Ranks = None,
    threads: Threads = 1,
) -> None:
    """Write a trained model's answers, one row a sample, in the order of the samples.

    A row has the sample's index, its file if it is an image of yours, the class it most likely is,
    and every class's probability. What a run does to samples it knows by itself: samples of your
    own need nothing of the data that it was trained on.

    `phalanx predict runs/digits-mlp-1 --output answers.csv --ranks 3`
    """
    check_writable(output)
    if data is not None:
        check_input(data)
        if data_dir is not None:
            raise UsageError("--input needs no data set: leave out --data-dir, or --input")
    settings = settings_on_ranks(
        run, data_dir=data_dir, ranks=ranks, threads=threads, needs_data=data is None
    )
    answers = _answers(run, settings, data)
    if answers is None:
        return
    if output is None:
        answers.write(sys.stdout)
        return
    answers.save(output)
    print(f"{len(answers.outputs):,} predictions: {output}")


def _answers(run: Path, settings: Settings, data: Path | None) -> "Answers | None":
    """Collective. What the run's model makes of the samples, on one rank; None on the others."""
    from phalanx.inference.answers import Answers, probability_form
    from phalanx.inference.data import load_like_training, pattern, screened
    from phalanx.inference.user_samples import UserSamples, read_samples
    from phalanx.runs.record import read_record
    from phalanx.runs.weights import load_weights
    from phalanx.train import evaluation as inference
    from phalanx.train.session import open_session

    recorded = read_record(run)
    own: UserSamples | None = None
    load = partial(load_like_training, settings, recorded)
    if data is not None:
        like, form = pattern(recorded), recorded.table
        own = read_samples(data, like=like, settings=settings, form=form)
        load = partial(screened, own.split, recorded)
    session = open_session(settings, threads=settings.threads, load=load)
    load_weights(session.model, run / "model.safetensors")
    test = session.dataset.test
    outputs = inference.predict(session.comm, session.model, test, dtype=session.dtype)
    if outputs is None:
        return None
    return Answers(
        outputs,
        session.dataset.classes,
        form=probability_form(settings.loss, settings.output_activation),
        files=None if own is None else own.files,
        places=None if own is None else test.targets.tolist(),
    )
