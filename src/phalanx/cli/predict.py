"""`phalanx predict RUN`: a trained model's answers, on the screen or as a file."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from phalanx.cli.flags.runs import (
    DataDir,
    Device,
    Ranks,
    Run,
    Threads,
    device_named,
    settings_on_ranks,
    weights_to_use,
)
from phalanx.cli.flags.trust import Dataset, Model, TrustCode
from phalanx.cli.generate import with_prompt
from phalanx.errors import UsageError
from phalanx.inference.answer_formats import answers_suffix, check_top
from phalanx.inference.input_files import check_input, check_reading
from phalanx.runs.folder import check_writable
from phalanx.runs.record import Record, read_record
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.wording import flag

if TYPE_CHECKING:
    from phalanx.inference.answers import Answers
    from phalanx.inference.user_samples import UserSamples

#: How a table is read: its encoding, whether bad rows are left out, and its column of IDs.
_Reading = tuple[str | None, bool, str | None]

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
    typer.Option(
        metavar="FILE",
        help="Where to write: a .csv, .parquet or .npz file [default: to the screen, as csv].",
    ),
]
Top = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Write the N likeliest classes by name, with their probabilities [default: the "
        "likeliest, and the probability of each class].",
    ),
]
Identity = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="COLUMN",
        help="A column of the table at --input, by name or number, to stand beside the answers.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        help="How the text of the table is encoded, such as cp1252 [default: what its "
        "byte order mark says, or utf-8]."
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Leave images and rows that cannot be read without an answer, rather than stop at the "
        "first.",
    ),
]


@with_prompt
def predict(
    run: Run,
    data: Input = None,
    output: Output = None,
    top: Top = None,
    identity: Identity = None,
    encoding: Encoding = None,
    skip_bad: SkipBad = False,
    data_dir: DataDir = None,
    ranks: Ranks = None,
    threads: Threads = 1,
    device: Device = None,
    model: Model = None,
    dataset: Dataset = None,
    trust_code: TrustCode = False,
) -> None:
    """Write a trained model's answers, one row a sample, in the order of the samples.

    A row has the sample's index, its file if it is an image, the column that --id names, its class,
    likeliest and true (`label`) if known, all classes' probabilities; or a regression's values.

    * `phalanx predict runs/digits-mlp-1 --output answers.parquet --top 3 --ranks 2`
    * `phalanx predict runs/csv-mlp-1 --input new.csv --id customer --skip-bad`
    """
    _check_output(run, output, top=top)
    _check_input(data, (encoding, skip_bad, identity), data_dir=data_dir, dataset=dataset)
    settings = settings_on_ranks(
        run,
        data_dir=data_dir,
        ranks=ranks,
        threads=threads,
        encoding=encoding,
        skip_bad=skip_bad,
        model=model,
        dataset=dataset,
        device=device_named(device),
        trust_code=trust_code,
        needs_data=data is None,
    )
    _write(_answers(run, settings, data, (encoding, skip_bad, identity), top=top), output)


def _write(answers: "Answers | None", output: Path | None) -> None:
    if answers is None:
        return
    if output is None:
        _print(answers)
    else:
        _save(answers, output)


def _save(answers: "Answers", output: Path) -> None:
    with writing(output):
        answers.save(output)
    print(f"{len(answers.outputs):,} predictions: {output}")


def _print(answers: "Answers") -> None:
    """Write where the progress was shown, so that neither hides the other."""
    from phalanx.cli.output.console import make_console

    answers.write(cast(TextIO, make_console().file))


def _check_output(run: Path, output: Path | None, *, top: int | None) -> None:
    check_writable(output)
    if output is not None:
        answers_suffix(output)
    recorded = read_record(run)
    if recorded.classes is not None:  # else ranks will see, once they have the data
        check_top(top, len(recorded.classes), task=recorded.task)


def _check_input(data: Path | None, reading: _Reading, **given: object) -> None:
    if data is not None:
        check_input(data)
    for name, value in given.items():
        if data is not None and value is not None:
            raise UsageError(f"--input needs no data set: leave out {flag(name)}, or --input")
    encoding, skip_bad, identity = reading
    check_reading(data, id_column=identity, encoding=encoding, skip_bad=skip_bad)


def _answers(
    run: Path, settings: Settings, data: Path | None, reading: "_Reading", *, top: int | None
) -> "Answers | None":
    """Collective. What the run's model makes of the samples, on one rank; None on the others."""
    from phalanx.cli.output.passes import shown_evaluation
    from phalanx.inference.answers import Answers, check_names
    from phalanx.inference.data import load_like_training, screened
    from phalanx.inference.finite import check_outputs
    from phalanx.inference.targets.answers import answer_kind
    from phalanx.inference.test_samples import test_samples
    from phalanx.runs.weights import load_weights
    from phalanx.train import evaluation as inference
    from phalanx.train.session import open_session

    recorded = read_record(run)
    own = None if data is None else _own_samples(data, settings, recorded, reading)
    load = partial(load_like_training, settings, recorded)
    if own is not None:
        load = partial(screened, own, recorded)
    session = open_session(settings, threads=settings.threads, load=load)
    dataset, weights = session.dataset, weights_to_use(run)
    load_weights(session.model, weights)
    asked = test_samples(dataset, settings) if own is None else own.kept(dataset.test.targets)
    make = partial(answer_kind, settings, dataset.classes, task=dataset.task, scale=dataset.scale)
    kind = make(top=top, beside=asked.beside)
    check_names(kind, asked.beside)
    with shown_evaluation(session, "predicting"):
        outputs = inference.predict(session.comm, session.model, dataset.test, dtype=session.dtype)
    if outputs is None:
        return None
    check_outputs(session.model, outputs, weights=weights)
    return Answers(
        outputs,
        kind,
        places=asked.places,
        count=asked.count,
        beside=asked.beside,
        labels=asked.labels,
    )


def _own_samples(
    data: Path, settings: Settings, recorded: Record, reading: "_Reading"
) -> "UserSamples":
    from phalanx.inference.data import pattern
    from phalanx.inference.user_samples import read_samples
    from phalanx.inference.user_table import Reading

    encoding, skip_bad, identity = reading
    return read_samples(
        data,
        like=pattern(recorded),
        settings=settings,
        form=recorded.table,
        classes=recorded.classes or (),
        reading=Reading(encoding=encoding, skip_bad=skip_bad, id_column=identity),
    )
