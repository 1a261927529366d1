"""The options that say what is learnt, and by which loss. Without torch."""

from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION, TASKS
from phalanx.options import Option

#: The losses that go with a task; the first is what it has unless a user says otherwise.
LOSSES = {
    CLASSIFICATION: (
        *("cross-entropy", "binary-cross-entropy"),
        *("squared-error", "absolute-error", "hinge"),
    ),
    REGRESSION: ("squared-error", "absolute-error"),
    MULTI_LABEL: ("binary-cross-entropy",),
}

TASK = Option(
    "task",
    str,
    "What is learnt: a class a sample, numbers, or labels that are there or not.",
    default_words="what targets show",
    choices=TASKS,
)
RAW_TARGETS = Option(
    "raw_targets",
    bool,
    "regression: learn targets as they are, not brought to mean 0 and deviation 1, by training "
    "samples; answers and errors are in the unit of the targets either way.",
    default=False,
)
LOSS = Option(
    "loss",
    str,
    "The loss. Binary cross-entropy adds up over the outputs of a sample; squared and absolute "
    "error compare outputs with the targets of a regression, and those of classes with 1 for the "
    "right class and 0 for all others.",
    default_words="cross-entropy for classes, squared-error for regression, binary-cross-entropy "
    "for labels",
    choices=LOSSES[CLASSIFICATION],
)

OBJECTIVE = Option(
    "objective",
    str,
    "Your own in place of a loss: FILE.py:FUNCTION of the model and a batch, the pair (inputs, "
    "targets), that returns a loss, or a loss and the outputs.",
)
CALLBACK = Option(
    "callback",
    str,
    "What else is to be done at the start and the end of a training, of its epochs and steps: "
    "FILE.py:CLASS, derived from phalanx.Callback; several with commas between them.",
)


def loss_of(task: str | None, loss: str | None) -> str:
    """The loss of a training, of its task if none was named."""
    return LOSSES[task or CLASSIFICATION][0] if loss is None else loss
