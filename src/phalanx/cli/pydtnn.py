"""`phalanx pydtnn`: PyDTNN's command line, as it is."""

import shlex

import typer

from phalanx.cli.train import train
from phalanx.comm.launch.job import is_first_rank
from phalanx.compat.pydtnn import translate
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
        command = ["phalanx", "train", *train_flags(Settings(**translation.settings))]
        print(f"$ {shlex.join(command)}")
        for note in translation.notes:
            print(f"note: {note}")
        print(flush=True)
    train(**translation.settings)
