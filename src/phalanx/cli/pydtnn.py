"""`phalanx pydtnn`: PyDTNN's command line, as it is, and its output as it shows it."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from phalanx import data
from phalanx.cli.flags.settings import with_settings
from phalanx.cli.train import train_as
from phalanx.comm.launch.job import current_job, is_first_rank
from phalanx.comm.launch.process import available_cores
from phalanx.compat.pydtnn import Translation, translate
from phalanx.compat.pydtnn_schedules import weights_every
from phalanx.observe.plan import train_flags
from phalanx.runs.folder import check_writable
from phalanx.settings.table import Settings

if TYPE_CHECKING:
    from phalanx.cli.output.display import Display
    from phalanx.train.companions.callbacks import Callback
    from phalanx.train.session import Session


def pydtnn(context: typer.Context) -> None:
    """Train what a command line of PyDTNN says, and show it as PyDTNN does.

    `mpirun -np 4 phalanx pydtnn --model=simplecnn --dataset=mnist --dataset_train_path=DIR
    --dataset_test_path=DIR --batch_size=64 --validation_split=0.2 --num_epochs=10
    --optimizer=Adam --learning_rate=0.01
    --loss_func=categorical_accuracy,categorical_cross_entropy --parallel=data --blocking_mpi
    --dtype=float32 --evaluate`

    The options are those of PyDTNN's benchmark program, with the same defaults; `--batch_size` is
    that of each rank. Options that have no equivalent are named, or refused. The first line shows
    the command of ours that does the same.
    """
    translation = translate(context.args)
    threads, note = _threads()
    found: list[Settings] = []
    with_settings(found.append)(**translation.settings, **threads)
    (settings,) = found
    every = weights_every(translation.parameters)
    if (history := translation.parameters.get("history_file")) is not None:
        check_writable(Path(str(history)))
    if is_first_rank():
        _introduce(translation, settings, [*translation.notes, *note])

    def shown() -> "Display":
        from phalanx.cli.output.console import make_console
        from phalanx.cli.output.pydtnn import PyDTNNDisplay

        return PyDTNNDisplay(make_console(), translation)

    def weights(session: "Session", _run: Path | None) -> "Sequence[Callback]":
        from phalanx.train.companions.pydtnn_weights import PyDTNNWeights

        if every is None:
            return []
        name, shape = str(translation.parameters["model"]), session.dataset.input_shape
        how = {"every": every, "watch": settings.watch}
        return [PyDTNNWeights(name, **how, input_shape=shape, folder=Path())]  # type: ignore[arg-type]

    train_as(settings, shown=shown, also=weights)


def _threads() -> tuple[dict[str, int], list[str]]:
    """One a rank where the ranks of this host ask for many more than it has cores: they would wait
    for each other without end."""
    asked, job = os.environ.get("OMP_NUM_THREADS", ""), current_job()
    here = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", 1 if job is None else job.size))
    cores = available_cores() if job is None else os.cpu_count() or 1
    if not asked.isdecimal() or int(asked) < 2 or here < 2 or here * int(asked) <= cores:
        return {}, []
    threads = max(1, cores // here)
    return {"threads": threads}, [
        f"{here} ranks of {asked} threads each are more than the {cores} cores here can bear: "
        f"{threads} a rank"
    ]


def _introduce(translation: Translation, settings: Settings, notes: Sequence[str]) -> None:
    """Our command for the same, PyDTNN's table of the model, and its list of parameters."""
    command = ["phalanx", "train", *train_flags(Settings(**translation.settings))]
    print(f"$ {shlex.join(command)}")
    for note in notes:
        print(f"note: {note}")
    job = current_job()
    print(f"**** Running with {1 if job is None else job.size} processes...")
    _show_model(translation, settings)
    print("**** Parameters:")
    width = max(map(len, translation.parameters))
    for name, value in translation.parameters.items():
        print(f"  {name:{width}} : {value}")
    print(f"**** Loading {translation.parameters['dataset']} dataset...", flush=True)


def _show_model(translation: Translation, settings: Settings) -> None:
    """PyDTNN's table, where the samples' shape is known without reading them."""
    found = [one for one in data.describe() if one.name == settings.dataset]
    shape = tuple(side for one in found for side in one.input_shape if isinstance(side, int))
    classes = found[0].classes if found else None
    if settings.dataset == "synthetic":
        shape = tuple(map(int, str(settings.shape).split("x")))
        classes = settings.classes
    if len(shape) != 3 or not isinstance(classes, int):
        return
    from phalanx.cli.output.pydtnn import show_model

    print(f"**** Creating {translation.parameters['model']} model...", flush=True)
    show_model(settings.model, settings.model_options, input_shape=shape, classes=classes)
