"""Every choice of a training, in one table: command-line flags, config-file keys and config.json.

Nothing here imports torch: settings are read and checked before any rank starts.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phalanx import data, models
from phalanx.options import Option, names_of, was_given
from phalanx.settings.checkpoints import CHECKPOINT_EVERY, KEEP
from phalanx.settings.failures import ON_FAILURE, REPLACE, RESTARTS, STALL_AFTER
from phalanx.settings.fields import of, options_of, setting, with_options, with_texts
from phalanx.settings.metrics import METRICS, parse_goal
from phalanx.settings.optimizers import OPTIMIZERS, parse_options
from phalanx.settings.parallelism import RANKS, THREADS
from phalanx.settings.task_options import CALLBACK, LOSS, OBJECTIVE, RAW_TARGETS, TASK
from phalanx.settings.trackers import MLFLOW, TENSORBOARD
from phalanx.strategies.options import ACCUMULATE, CLIP_NORM, SHARDS
from phalanx.strategies.registry import OPTIONS, default_strategy, training_ranks


@dataclass(frozen=True, kw_only=True)
@with_options
class Settings:
    """What to train on what, how, and over how many ranks.

    Besides what stands here there is a field for each option that a data set, a model or a strategy
    declares; where it was not given, it is None, or False for a switch.
    """

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    dataset: str = setting(
        "digits", "Data", "A name from `phalanx datasets`, or FILE.py:FUNCTION, or MODULE:FUNCTION."
    )
    data_dir: Path | None = setting(
        None,
        "Data",
        "Folder with the data set's files, or for csv, mat and npz the file "
        "[default: $PHALANX_DATA/DATASET]",
    )
    task: str | None = of(TASK, "Data")
    raw_targets: bool = of(RAW_TARGETS, "Data")
    validation_split: float = setting(
        0.0,
        "Data",
        "Share of the training samples held out and evaluated after every epoch.",
        at_least=0,
        below=1,
    )
    test_as_validation: bool = setting(
        False, "Data", "Evaluate on the test samples after every epoch, and hold out none."
    )

    model: str = setting(
        "mlp", "Model", "A name from `phalanx models`, or FILE.py:FUNCTION, or MODULE:FUNCTION."
    )
    weights: Path | None = setting(
        None,
        "Model",
        "A file with the weights to start from: a run's model.safetensors, PyDTNN's .npz, or for "
        "mlp a .mat with Theta1, Theta2 and so on, a row an output, its bias first.",
    )

    epochs: int = setting(
        5, "Training", "Passes over the training samples [default: by data and model]", at_least=0
    )
    batch_size: int | Literal["full"] | None = setting(
        None,
        "Training",
        "Samples a step, over all ranks together: full for all there are, 1 for one by one "
        "[default: 64, or what suits the data]",
        at_least=1,
    )
    batch_size_per_rank: int | None = setting(
        None,
        "Training",
        "Samples a step and rank that trains: the other way to say it.",
        at_least=1,
    )
    steps_per_epoch: int | None = setting(
        None,
        "Training",
        "Steps after which an epoch is over [default: all samples once]",
        at_least=1,
    )
    optimizer: str = setting("adam", "Training", "The optimizer.", choices=tuple(OPTIMIZERS))
    learning_rate: float | None = setting(
        None,
        "Training",
        "The learning rate [default: by model for adam, 0.05 for sgd, torch's own for others]",
        at_least=0,
    )
    momentum: float | None = setting(
        None, "Training", "sgd, rmsprop: its momentum [default: 0]", at_least=0
    )
    optimizer_options: str = setting(
        "", "Training", 'More of the optimizer\'s options, such as "eps=1e-6 betas=0.9,0.95".'
    )
    scale_learning_rate: str = setting(
        "no",
        "Training",
        "Multiply the learning rate by the ranks that train, or by their square root.",
        choices=("no", "linear", "sqrt"),
    )
    warm_up: float = setting(
        0.0,
        "Training",
        "Epochs, or parts of one, in which the learning rate rises to its value.",
        at_least=0,
    )
    warm_up_steps: int | None = setting(
        None, "Training", "The same in steps, in place of --warm-up.", at_least=1
    )
    schedule: str = setting(
        "constant",
        "Training",
        "How the learning rate falls: in steps, as half a cosine, or when the loss stays put.",
        choices=("constant", "step", "cosine", "plateau"),
    )
    schedule_epochs: int | None = setting(
        None,
        "Training",
        "step: epochs between two falls; plateau: epochs to wait for a better loss [default: 10]",
        at_least=1,
    )
    schedule_factor: float | None = setting(
        None,
        "Training",
        "step, plateau: what a fall multiplies the learning rate by [default: 0.1]",
        above=0,
        below=1,
    )
    schedule_min_rate: float | None = setting(
        None,
        "Training",
        "step, cosine, plateau: the rate that they do not fall below [default: 0]",
        at_least=0,
    )
    patience: int | None = setting(
        None, "Training", "Stop after N epochs without a better loss [default: never]", at_least=1
    )
    watch: str = setting(
        "loss",
        "Training",
        "What --patience, --keep-best and a plateau go by: loss, accuracy or one of --metrics, of "
        "the validation if there is one; training-loss and the like for that of the training.",
    )
    stop_at: str | None = setting(
        None, "Training", "Stop when a metric has a value, such as accuracy=0.98 or loss=0.1."
    )
    keep_best: bool = setting(
        False, "Training", "Keep the weights of the epoch with the lowest loss, not the last ones."
    )
    clip_norm: float | None = of(CLIP_NORM, "Training")
    accumulate: int = of(ACCUMULATE, "Training", always=True)
    loss: str | None = of(LOSS, "Training")
    objective: str | None = of(OBJECTIVE, "Training")
    callback: str | None = of(CALLBACK, "Training")
    reduction: str = setting(
        "mean", "Training", "The loss is a mean or a sum over a batch.", choices=("mean", "sum")
    )
    dtype: str = setting(
        "float32",
        "Training",
        "What weights and samples are kept in.",
        choices=("float32", "float64", "bfloat16"),
    )
    precision: str | None = setting(
        None,
        "Training",
        "What passes compute in where torch deems that safe; tf32 is of GPUs "
        "[default: as weights are]",
        choices=("bf16", "fp16", "tf32"),
    )
    compile: bool = setting(
        False, "Training", "Compile forward and backward into one function, if that is faster."
    )
    memory_format: str = setting(
        "auto",
        "Training",
        "How images are laid out; auto is channels-last for models with convolutions.",
        choices=("auto", "channels-last", "preserve"),
    )
    metrics: tuple[str, ...] = setting(
        (),
        "Training",
        f"What else to measure, such as top-5,confusion. Known: {', '.join(METRICS)}.",
    )
    seed: int = setting(
        0, "Training", "Decides initial weights, data order and dropout.", at_least=0, below=2**63
    )
    evaluate_first: bool = setting(
        False, "Training", "Evaluate on the test samples before the first epoch, too."
    )

    strategy: str | None = setting(
        None,
        "Parallelism",
        "How ranks work together; `phalanx strategies` explains. Your own is FILE.py:CLASS. "
        "[default: single on one rank, central on more]",
    )
    ranks: int | None = of(RANKS, "Parallelism")
    shards: int | None = of(SHARDS, "Parallelism")
    threads: int | None = of(THREADS, "Parallelism")
    bind: bool = setting(True, "Parallelism", "Bind each rank to cores of its own.")
    device: str = setting(
        "auto",
        "Parallelism",
        "Where to compute; auto is a GPU a rank, where all ranks have one, and else the CPU.",
        choices=("auto", "cpu", "cuda"),
    )

    stall_after: str = of(STALL_AFTER, "Parallelism", always=True)

    profile: bool = setting(
        False, "Output", "Show where the time went, phase by phase and rank by rank."
    )
    trace: Path | None = setting(
        None, "Output", "Write a trace for ui.perfetto.dev or chrome://tracing, a track a rank."
    )
    output: Path | None = setting(
        None, "Output", "The run's folder, new or empty [default: the next free runs/NAME]"
    )
    quiet: bool = setting(
        False, "Output", "Show nothing but warnings and errors: results are in the run's folder."
    )
    tensorboard: bool = of(TENSORBOARD, "Output")
    mlflow: bool = of(MLFLOW, "Output")
    checkpoint_every: str | int = of(CHECKPOINT_EVERY, "Output", always=True)
    keep: int = of(KEEP, "Output", always=True)
    on_failure: str = of(ON_FAILURE, "Parallelism", always=True)
    restarts: int | None = of(RESTARTS, "Parallelism")
    replace: bool = of(REPLACE, "Parallelism")

    #: What a user's own code declares, by "strategy", "model", "dataset", "objective", "callback".
    own: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def global_batch(self, ranks: int, *, samples: int) -> int:
        """Samples a step over all ranks, of so many there are."""
        batch = self.batch(ranks)
        return max(samples, 1) if batch == "full" else batch

    def batch(self, ranks: int) -> int | Literal["full"]:
        """Samples a step over all ranks, as far as settings know."""
        if self.batch_size_per_rank is not None:
            name = self.strategy or default_strategy(ranks, self.strategy_options)
            return self.batch_size_per_rank * max(1, training_ranks(name, ranks))
        return 64 if self.batch_size is None else self.batch_size

    @property
    def data_options(self) -> dict[str, Any]:
        """The options for the data set and its samples that were given, the seed and the task."""
        task = {} if self.task is None else {"task": self.task}
        return self._given(data.OPTIONS, "dataset") | {"seed": self.seed, **task}

    @property
    def model_options(self) -> dict[str, Any]:
        """The options for the model that were given."""
        return self._given(models.OPTIONS, "model")

    @property
    def strategy_options(self) -> dict[str, Any]:
        """The options for the strategy that were given."""
        return self._given(OPTIONS, "strategy")

    def _given(self, options: Iterable[Option], part: str) -> dict[str, Any]:
        values = [(option, getattr(self, option.name)) for option in options]
        given = {option.name: one for option, one in values if was_given(option, one)}
        return given | dict(self.own.get(part, {}))

    @property
    def optimizer_choices(self) -> dict[str, Any]:
        """The options for the optimizer that were given."""
        given = parse_options(self.optimizer, self.optimizer_options)
        return given if self.momentum is None else {"momentum": self.momentum, **given}

    @property
    def goal(self) -> tuple[str, float] | None:
        """The metric that ends the training, and its value."""
        return None if self.stop_at is None else parse_goal(self.stop_at)

    def changed(self, **values: Any) -> "Settings":
        """The same but for these values."""
        return dataclasses.replace(self, **values)

    def with_strategy(self, name: str | None, options: Mapping[str, Any]) -> "Settings":
        """The same by another strategy, with these options and no others of any strategy."""
        names = names_of(OPTIONS)
        none = {one.name: one.default for one in dataclasses.fields(self) if one.name in names}
        ours = {one: value for one, value in options.items() if one in none}
        own = {one: value for one, value in options.items() if one not in none}
        kept = {part: given for part, given in self.own.items() if part != "strategy"}
        whole = kept | ({"strategy": own} if own else {})
        return self.changed(strategy=name, **(none | ours), own=whole)

    def for_json(self) -> dict[str, Any]:
        """All settings by name, as JSON knows them."""
        plain = dataclasses.asdict(self)
        plain["own"] = {part: with_texts(given) for part, given in plain["own"].items()}
        return with_texts(plain)


#: What every setting but `own` is, takes and says of itself.
SETTINGS = options_of(Settings)
