"""`phalanx pydtnn`: PyDTNN's command line, as it is."""

import shlex

import typer

from phalanx import data
from phalanx.cli.train import train
from phalanx.comm.launch.job import is_first_rank
from phalanx.compat.pydtnn import Translation, translate
from phalanx.observe.plan import train_flags
from phalanx.settings.table import Settings


def pydtnn(context: typer.Context) -> None:
    """Train what a command line of PyDTNN says, and show the command of ours that does the same.

    `mpirun -np 4 phalanx pydtnn --model=simplecnn --dataset=mnist --dataset_train_path=DIR
    --dataset_test_path=DIR --batch_size=64 --validation_split=0.2 --num_epochs=10
    --optimizer=Adam --learning_rate=0.01
    --loss_func=categorical_accuracy,categorical_cross_entropy --parallel=data --blocking_mpi
    --dtype=float32 --evaluate`

    The options are those of PyDTNN's benchmark program, with the same defaults; `--batch_size` is
    that of each rank. Options that have no equivalent are named, or refused.
    """
    translation = translate(context.args)
    if is_first_rank():
        _introduce(translation)
    train(**translation.settings)


def _introduce(translation: Translation) -> None:
    """Our command for the same, PyDTNN's table of the model, and its list of parameters."""
    command = ["phalanx", "train", *train_flags(Settings(**translation.settings))]
    print(f"$ {shlex.join(command)}")
    for note in translation.notes:
        print(f"note: {note}")
    print()
    _show_model(translation)
    print("**** Parameters:")
    width = max(map(len, translation.parameters))
    for name, value in translation.parameters.items():
        print(f"  {name:{width}} : {value}")
    print(flush=True)


def _show_model(translation: Translation) -> None:
    """PyDTNN's table, where the samples' shape is known without reading them."""
    settings = Settings(**translation.settings)
    found = [one for one in data.describe() if one.name == settings.dataset]
    shape = tuple(side for one in found for side in one.input_shape if isinstance(side, int))
    classes = found[0].classes if found else None
    if len(shape) != 3 or not isinstance(classes, int):
        return  # Phalanx's own table will be there in any case
    from phalanx.cli.output.pydtnn import show_model

    print(f"**** Creating {translation.parameters['model']} model...")
    show_model(settings.model, settings.model_options, input_shape=shape, classes=classes)
