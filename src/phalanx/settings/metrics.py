"""The metrics by name, besides loss and accuracy. Nothing here imports torch."""

from phalanx.errors import UsageError
from phalanx.wording import unknown

#: Metrics that are one number each.
NUMBERS = ("top-5", "mse", "mae", "hinge")
#: Metrics that are better the larger they are, and at most 1.
SHARES = ("accuracy", "top-5")
#: Metrics that are one number a class, or a table.
BY_CLASS = ("precision", "recall", "confusion")
METRICS = (*NUMBERS, *BY_CLASS)


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
