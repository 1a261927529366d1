"""The trackers that the settings of a command ask for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from phalanx.observe.trackers.mlflow import MLflow
from phalanx.observe.trackers.tensorboard import TensorBoard
from phalanx.observe.trackers.tracker import Tracker
from phalanx.settings.table import Settings
from phalanx.train.metrics import Metrics
from phalanx.train.session import Session

#: What of the settings is about this command alone, not about the training.
_LEFT_OUT = ("output", "trace", "tensorboard", "mlflow", "own")
#: Where a run's folder has event files.
FOLDER = "tensorboard"


@final
class RunTrackers:
    """Those of one run; made on every rank."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._trackers: list[Tracker] = []

    def start(self, session: Session, run: Path | None) -> list[Tracker]:
        """The callbacks for a training into a run's folder; again after ranks were lost."""
        params = _params(session.settings)
        self._trackers = []
        if self._settings.tensorboard:
            folder = Path(FOLDER) if run is None else run / FOLDER
            self._trackers.append(TensorBoard(folder, params=params))
        if self._settings.mlflow:
            tags = {} if run is None else {"phalanx.run": str(run.resolve())}
            name = None if run is None else run.name
            self._trackers.append(MLflow(name=name, params=params, tags=tags))
        return self._trackers

    def conclude(self, result: Mapping[str, Any]) -> None:
        """On rank 0: write what came of the training."""
        tags = {"weights_sha256": str(result["weights_sha256"])}
        for one in self._trackers:
            one.conclude(Metrics(**result["test"]), epoch=result["epochs"], **tags)


def _params(settings: Settings) -> dict[str, Any]:
    """All settings, and those of a user's own model, data and strategy."""
    given = {name: one for name, one in settings.for_json().items() if name not in _LEFT_OUT}
    return given | {name: one for part in settings.own.values() for name, one in part.items()}
