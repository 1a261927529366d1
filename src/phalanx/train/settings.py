"""Every choice of a training, in one table: command-line flags, config-file keys and config.json.

Nothing here imports torch: settings are read and checked before any rank starts.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.comm.algorithms import ALGORITHMS


def _setting(default: Any, group: str, help: str, *, choices: tuple[str, ...] = ()) -> Any:  # noqa: A002
    return dataclasses.field(
        default=default, metadata={"group": group, "help": help, "choices": choices}
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train on what, how, and over how many ranks."""

    dataset: str = _setting("digits", "Data", "The data set; `phalanx datasets` lists them.")
    data_dir: Path | None = _setting(
        None, "Data", "Folder with the data set's files [default: $PHALANX_DATA/DATASET]"
    )
    validation_split: float = _setting(
        0.0, "Data", "Share of the training samples held out and evaluated after every epoch."
    )

    model: str = _setting(
        "mlp", "Model", "A name from `phalanx models`, or FILE.py:FUNCTION, or MODULE:FUNCTION."
    )
    hidden: tuple[int, ...] | None = _setting(
        None, "Model", "mlp: sizes of the hidden layers, such as 128,64 [default: 128]"
    )
    activation: str | None = _setting(
        None,
        "Model",
        "mlp: what follows each hidden layer [default: relu]",
        choices=("relu", "tanh", "sigmoid"),
    )

    epochs: int = _setting(5, "Training", "How often to go through the training samples.")
    batch_size: int | None = _setting(
        None, "Training", "Samples a step, over all ranks together [default: 64]"
    )
    batch_size_per_rank: int | None = _setting(
        None, "Training", "Samples a step and rank: the other way to say it."
    )
    optimizer: str = _setting("sgd", "Training", "The optimizer.", choices=("sgd", "adam"))
    learning_rate: float | None = _setting(
        None, "Training", "The learning rate [default: 0.05 for sgd, 0.001 for adam]"
    )
    momentum: float | None = _setting(None, "Training", "sgd: its momentum [default: 0]")
    clip_norm: float | None = _setting(
        None, "Training", "Clip gradients to this global norm [default: no clipping]"
    )
    accumulate: int = _setting(
        1, "Training", "Compute each rank's share of a batch in N passes, to save memory."
    )
    loss: str = _setting(
        "cross-entropy", "Training", "The loss.", choices=("cross-entropy", "squared-error")
    )
    reduction: str = _setting(
        "mean", "Training", "The loss is a mean or a sum over a batch.", choices=("mean", "sum")
    )
    dtype: str = _setting(
        "float32",
        "Training",
        "What weights and samples are kept in.",
        choices=("float32", "float64"),
    )
    compile: bool = _setting(
        False, "Training", "Compile forward and backward into one function, if that is faster."
    )
    memory_format: str = _setting(
        "auto",
        "Training",
        "How images are laid out; auto is channels-last for models with convolutions.",
        choices=("auto", "channels-last", "preserve"),
    )
    seed: int = _setting(0, "Training", "Decides initial weights, data order and dropout.")
    evaluate_first: bool = _setting(
        False, "Training", "Evaluate on the test samples before the first epoch, too."
    )

    strategy: str | None = _setting(
        None,
        "Parallelism",
        "How ranks work together; `phalanx strategies` explains "
        "[default: single on one rank, central on more]",
    )
    ranks: int | None = _setting(
        None, "Parallelism", "Ranks to start [default: 1, or those mpirun or srun started]"
    )
    shards: int | None = _setting(
        None,
        "Parallelism",
        "Cut each batch into N parts, whatever the ranks: bit for bit the same weights on 1 to N "
        "ranks (and one thread a rank unless told otherwise) [default: a part a rank]",
    )
    algorithm: str | None = _setting(
        None,
        "Parallelism",
        "allreduce: how MPI adds up gradients; Open MPI alone has a switch for it [default: auto]",
        choices=ALGORITHMS,
    )
    overlap: bool = _setting(
        False, "Parallelism", "allreduce: exchange gradients while the backward pass goes on."
    )
    compress: str | None = _setting(
        None,
        "Parallelism",
        "allreduce: exchange gradients in 16 bits [default: as they are]",
        choices=("fp16", "bf16"),
    )
    threads: int | None = _setting(
        None, "Parallelism", "Threads a rank [default: OMP_NUM_THREADS, or cores ÷ ranks]"
    )
    bind: bool = _setting(True, "Parallelism", "Bind each rank to cores of its own.")

    output: Path | None = _setting(
        None, "Output", "The run's folder, new or empty [default: the next free runs/NAME]"
    )

    def global_batch(self, ranks: int) -> int:
        """Samples a step over all ranks."""
        if self.batch_size_per_rank is not None:
            return self.batch_size_per_rank * ranks
        return 64 if self.batch_size is None else self.batch_size

    @property
    def model_options(self) -> dict[str, Any]:
        """The options for the model that were given."""
        given = {"hidden": self.hidden, "activation": self.activation}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def strategy_options(self) -> dict[str, Any]:
        """The options for the strategy that were given."""
        given = {
            "algorithm": self.algorithm,
            "overlap": self.overlap or None,
            "compress": self.compress,
        }
        return {name: value for name, value in given.items() if value is not None}

    def for_json(self) -> dict[str, Any]:
        """All settings by name, as JSON knows them."""
        plain = dataclasses.asdict(self)
        return {name: str(v) if isinstance(v, Path) else v for name, v in plain.items()}
