"""Other programs that a training can be followed in: TensorBoard and MLflow. Without torch."""

from importlib.util import find_spec

from phalanx.errors import UsageError
from phalanx.options import Option

TENSORBOARD = Option(
    "tensorboard",
    bool,
    "Write event files for TensorBoard into the run's folder (docs/trackers.md).",
)
MLFLOW = Option(
    "mlflow",
    bool,
    "Write to MLflow: to MLFLOW_TRACKING_URI, or the database mlflow.db (docs/trackers.md).",
)
#: The packages of each that must be there, which are those of an extra of its name.
_PACKAGES = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}


def check_tracker(name: str, *, asked_by: str) -> None:
    """Refuse a tracker whose packages are not installed."""
    missing = [package for package in _PACKAGES[name] if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"{asked_by} needs {' and '.join(missing)}, which is not installed: "
            f"pip install 'phalanx[{name}]'"
        )
