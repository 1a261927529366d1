"""Every choice of a training, in one table: command-line flags, config-file keys and config.json.

Nothing here imports torch: settings are read and checked before any rank starts.
"""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from phalanx import data
from phalanx.comm.algorithms import ALGORITHMS
from phalanx.models.initial import FORMS as INIT_FORMS
from phalanx.models.options import OUTPUT_ACTIVATIONS
from phalanx.settings.metrics import METRICS, parse_goal
from phalanx.settings.optimizers import OPTIMIZERS, parse_options
from phalanx.strategies.registry import OPTIONS


def _setting(default: Any, group: str, help: str, *, choices: tuple[str, ...] = ()) -> Any:  # noqa: A002
    return dataclasses.field(
        default=default, metadata={"group": group, "help": help, "choices": choices}
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to train on what, how, and over how many ranks."""

    dataset: str = _setting("digits", "Data", "The data set; `phalanx datasets` lists them.")
    data_dir: Path | None = _setting(
        None,
        "Data",
        "Folder with the data set's files, or for csv, mat and npz the file "
        "[default: $PHALANX_DATA/DATASET]",
    )
    validation_split: float = _setting(
        0.0, "Data", "Share of the training samples held out and evaluated after every epoch."
    )
    test_as_validation: bool = _setting(
        False, "Data", "Evaluate on the test samples after every epoch, and hold out none."
    )
    test_split: float | None = _setting(
        None,
        "Data",
        "csv, images, mat, npz: share of the samples to test with where there is no test part; "
        "0 tests on the training samples [default: 0.2]",
    )
    target: str | None = _setting(
        None, "Data", "csv: name or number of the column with the classes [default: the last]"
    )
    drop: str | None = _setting(
        None, "Data", "csv: columns to leave out, by name or number, separated by commas."
    )
    resize: str | None = _setting(
        None,
        "Data",
        "Size to bring images to, such as 64x48, height first [default for images: 64x64]",
    )
    pool: str | None = _setting(
        None, "Data", "Size to average images down to, such as 20x20, area by area."
    )
    normalise: bool = _setting(
        False,
        "Data",
        "Bring each channel or column to mean 0 and deviation 1, by training samples.",
    )
    flip: bool = _setting(False, "Data", "Mirror images left to right at random, in training.")
    crop: int | None = _setting(
        None, "Data", "Move images by up to N pixels at random, in training."
    )
    skip_bad: bool = _setting(
        False, "Data", "images: leave out files that cannot be read, rather than stop at the first."
    )
    cache: int | None = _setting(
        None, "Data", "images: MiB of decoded images that each rank keeps [default: 512]"
    )
    shape: str | None = _setting(
        None, "Data", "synthetic: the shape of a sample [default: 3x32x32]"
    )
    classes: int | None = _setting(None, "Data", "synthetic: the number of classes [default: 10]")
    samples: int | None = _setting(
        None, "Data", "synthetic: the number of training samples [default: 50000]"
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
    output_activation: str | None = _setting(
        None,
        "Model",
        "mlp: what follows the last layer [default: none]",
        choices=OUTPUT_ACTIVATIONS,
    )
    standardise: bool = _setting(
        False,
        "Model",
        "mlp: every linear layer but the first reads activations of mean 0 and standard deviation "
        "1 over each sample's features.",
    )
    init: str | None = _setting(
        None,
        "Model",
        f"Initial weights of linear and convolution layers: {INIT_FORMS}. Biases are zero, but "
        "under uniform drawn as well [default: torch]",
    )
    weights: Path | None = _setting(
        None,
        "Model",
        "A file with the weights to start from: a run's model.safetensors, or for mlp a .mat with "
        "Theta1, Theta2 and so on, a row an output, its bias first.",
    )

    epochs: int = _setting(5, "Training", "How often to go through the training samples.")
    batch_size: int | Literal["full"] | None = _setting(
        None,
        "Training",
        "Samples a step, over all ranks together: full for all there are, 1 for one by one "
        "[default: 64]",
    )
    batch_size_per_rank: int | None = _setting(
        None, "Training", "Samples a step and rank: the other way to say it."
    )
    steps_per_epoch: int | None = _setting(
        None, "Training", "Steps after which an epoch is over [default: all samples once]"
    )
    optimizer: str = _setting("sgd", "Training", "The optimizer.", choices=tuple(OPTIMIZERS))
    learning_rate: float | None = _setting(
        None, "Training", "The learning rate [default: 0.05 for sgd, torch's own for others]"
    )
    momentum: float | None = _setting(None, "Training", "sgd, rmsprop: its momentum [default: 0]")
    optimizer_options: str = _setting(
        "", "Training", 'More of the optimizer\'s options, such as "eps=1e-6 betas=0.9,0.95".'
    )
    scale_learning_rate: str = _setting(
        "no",
        "Training",
        "Multiply the learning rate by the ranks that train, or by their square root.",
        choices=("no", "linear", "sqrt"),
    )
    warm_up: float = _setting(
        0.0, "Training", "Epochs, or parts of one, in which the learning rate rises to its value."
    )
    schedule: str = _setting(
        "constant",
        "Training",
        "How the learning rate falls: in steps, as half a cosine, or when the loss stays put.",
        choices=("constant", "step", "cosine", "plateau"),
    )
    schedule_epochs: int | None = _setting(
        None,
        "Training",
        "step: epochs between two falls; plateau: epochs to wait for a better loss [default: 10]",
    )
    schedule_factor: float | None = _setting(
        None,
        "Training",
        "step, plateau: what a fall multiplies the learning rate by [default: 0.1]",
    )
    patience: int | None = _setting(
        None, "Training", "Stop after N epochs without a better loss [default: never]"
    )
    stop_at: str | None = _setting(
        None, "Training", "Stop when a metric has a value, such as accuracy=0.98 or loss=0.1."
    )
    keep_best: bool = _setting(
        False, "Training", "Keep the weights of the epoch with the lowest loss, not the last ones."
    )
    clip_norm: float | None = _setting(
        None, "Training", "Clip gradients to this global norm [default: no clipping]"
    )
    accumulate: int = _setting(
        1, "Training", "Compute each rank's share of a batch in N passes, to save memory."
    )
    loss: str = _setting(
        "cross-entropy",
        "Training",
        "The loss. Binary cross-entropy adds up over the outputs of a sample; squared and absolute "
        "error compare outputs with 1 for the right class and 0 for all others.",
        choices=(
            *("cross-entropy", "binary-cross-entropy"),
            *("squared-error", "absolute-error", "hinge"),
        ),
    )
    reduction: str = _setting(
        "mean", "Training", "The loss is a mean or a sum over a batch.", choices=("mean", "sum")
    )
    dtype: str = _setting(
        "float32",
        "Training",
        "What weights and samples are kept in.",
        choices=("float32", "float64", "bfloat16"),
    )
    autocast: str | None = _setting(
        None,
        "Training",
        "Compute forward passes in 16 bits where torch deems that safe [default: as weights are]",
        choices=("bfloat16",),
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
    metrics: tuple[str, ...] = _setting(
        (),
        "Training",
        "What to measure besides loss and accuracy, such as top-5,confusion. "
        f"Known: {', '.join(METRICS)}.",
    )
    seed: int = _setting(0, "Training", "Decides initial weights, data order and dropout.")
    evaluate_first: bool = _setting(
        False, "Training", "Evaluate on the test samples before the first epoch, too."
    )

    strategy: str | None = _setting(
        None,
        "Parallelism",
        "How ranks work together; `phalanx strategies` explains. Your own is FILE.py:CLASS. "
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
    exchange: str | None = _setting(
        None,
        "Parallelism",
        "server: what workers send, gradients or the weight changes that their own optimizers make "
        "[default: gradients]",
        choices=("gradients", "changes"),
    )
    max_staleness: int | None = _setting(
        None,
        "Parallelism",
        "async: how many batches a worker may run ahead of the slowest; 0 is in step [default: 4]",
    )
    staleness_aware: bool = _setting(
        False, "Parallelism", "async: the staler a gradient, the smaller its learning rate."
    )
    every: int | None = _setting(
        None, "Parallelism", "local: average the weights every N steps [default: 8]"
    )
    outer_momentum: float | None = _setting(
        None, "Parallelism", "local: momentum of the averaged weights' changes [default: 0]"
    )
    cut: tuple[int, ...] | None = _setting(
        None,
        "Parallelism",
        "pipeline: the layers that stages begin with, such as 3,7 [default: by measured times]",
    )
    micro_batches: int | None = _setting(
        None,
        "Parallelism",
        "pipeline: parts of a batch in flight [default: --shards, or twice the stages]",
    )
    replicas: int | None = _setting(
        None,
        "Parallelism",
        "pipeline, tensor: copies of the model, trained in data parallelism [default: 1]",
    )
    threads: int | None = _setting(
        None, "Parallelism", "Threads a rank [default: OMP_NUM_THREADS, or cores ÷ ranks]"
    )
    bind: bool = _setting(True, "Parallelism", "Bind each rank to cores of its own.")
    device: str = _setting(
        "auto",
        "Parallelism",
        "Where to compute; auto is a GPU a rank, where all ranks have one, and else the CPU.",
        choices=("auto", "cpu", "cuda"),
    )

    profile: bool = _setting(
        False, "Output", "Show where the time went, phase by phase and rank by rank."
    )
    trace: Path | None = _setting(
        None, "Output", "Write a trace for ui.perfetto.dev or chrome://tracing, a track a rank."
    )
    output: Path | None = _setting(
        None, "Output", "The run's folder, new or empty [default: the next free runs/NAME]"
    )

    def global_batch(self, ranks: int, *, samples: int) -> int:
        """Samples a step over all ranks, of so many there are."""
        batch = self.batch(ranks)
        return max(samples, 1) if batch == "full" else batch

    def batch(self, ranks: int) -> int | Literal["full"]:
        """Samples a step over all ranks, as far as settings know."""
        if self.batch_size_per_rank is not None:
            return self.batch_size_per_rank * ranks
        return 64 if self.batch_size is None else self.batch_size

    @property
    def data_options(self) -> dict[str, Any]:
        """The options for the data set and the steps on its samples that were given."""
        given = {name: getattr(self, name) for name in data.OPTIONS}
        return {
            name: value
            for name, value in given.items()
            if value is not None and value is not False  # 0 is a choice
        }

    @property
    def model_options(self) -> dict[str, Any]:
        """The options for the model that were given."""
        given = {
            "hidden": self.hidden,
            "activation": self.activation,
            "output_activation": self.output_activation,
            "standardise": self.standardise or None,
            "init": self.init,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def optimizer_choices(self) -> dict[str, Any]:
        """The options for the optimizer that were given."""
        given = parse_options(self.optimizer, self.optimizer_options)
        return given if self.momentum is None else {"momentum": self.momentum, **given}

    @property
    def goal(self) -> tuple[str, float] | None:
        """The metric that ends the training, and its value."""
        return None if self.stop_at is None else parse_goal(self.stop_at)

    @property
    def strategy_options(self) -> dict[str, Any]:
        """The options for the strategy that were given."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {
            name: value
            for name, value in given.items()
            if value is not None and value is not False  # 0 is a choice
        }

    def for_json(self) -> dict[str, Any]:
        """All settings by name, as JSON knows them."""
        plain = dataclasses.asdict(self)
        return {name: str(v) if isinstance(v, Path) else v for name, v in plain.items()}


def defaults(group: str) -> dict[str, Any]:
    """The settings of a group by name, as they are when a user says nothing."""
    fields = dataclasses.fields(Settings)
    return {field.name: field.default for field in fields if field.metadata["group"] == group}
