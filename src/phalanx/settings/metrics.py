"""The metrics by name, besides loss and accuracy. Nothing here imports torch."""

from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.errors import UsageError
from phalanx.wording import unknown

#: Metrics that say a mean cross-entropy in other words: how many classes it is as good as a guess
#: among, and how many bits a right answer takes.
OF_LOSS = ("perplexity", "bits")
_OF_LABELS = ("f1-micro", "f1-macro")
#: Those that need all samples at once: of tests and validations alone.
RANKED = ("auroc", "average-precision")
#: Metrics that are one number a class, or a table.
BY_CLASS = ("precision", "recall", "confusion")
#: What a task may be measured by, and what it always is, besides the loss.
BY_TASK = {
    CLASSIFICATION: ("top-5", "mse", "mae", "hinge", *OF_LOSS, *_OF_LABELS, *RANKED, *BY_CLASS),
    REGRESSION: ("r2", "mae", "rmse", "mse"),
    MULTI_LABEL: (*_OF_LABELS, *RANKED),
}
ALWAYS = {
    CLASSIFICATION: ("accuracy",),
    REGRESSION: ("r2", "mae", "rmse"),
    MULTI_LABEL: _OF_LABELS,
}
METRICS = tuple(dict.fromkeys(name for names in BY_TASK.values() for name in names))
#: Metrics that are one number each.
NUMBERS = tuple(name for name in METRICS if name not in BY_CLASS)
#: Metrics from 0 to 1.
SHARES = ("accuracy", "top-5", *_OF_LABELS, *RANKED)
#: Metrics that are better the larger they are.
RISING = (*SHARES, "r2")
#: Before the name of a metric: that of the training, where samples are held out, too.
OF_TRAINING = "training-"


def rises(watched: str) -> bool:
    """Whether what is watched is better the larger it is."""
    return watched.removeprefix(OF_TRAINING) in RISING


def check_watched(watched: str) -> None:
    """Raise UsageError for what cannot be watched."""
    name, known = watched.removeprefix(OF_TRAINING), ("loss", "accuracy", *NUMBERS)
    if name not in known:
        raise unknown("metric to watch", name, known=known)


def check_metrics(names: tuple[str, ...]) -> None:
    """Raise UsageError for a metric that there is not."""
    for name in names:
        if name not in (*METRICS, "accuracy"):
            raise unknown("metric", name, known=METRICS)


def parse_goal(text: str) -> tuple[str, float]:
    """A metric and its value, written as `accuracy=0.98`."""
    name, _, value = text.partition("=")
    known = ("loss", "accuracy", *NUMBERS)
    if name not in known:
        raise unknown("metric to stop at", name, known=known)
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f"--stop-at '{text}' is not of the form {name}=0.98") from None
    if name in SHARES and not 0 < number <= 1:
        raise UsageError(f"--stop-at '{text}': {name} is a share, from 0 to 1, as in {name}=0.98")
    return name, number
