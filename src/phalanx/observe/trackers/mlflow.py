"""MLflow: a run in its store, which is a server or a database."""

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, final

from phalanx import __version__
from phalanx.errors import UsageError
from phalanx.observe.trackers.tracker import Tracker, plain
from phalanx.settings.trackers import check_tracker
from phalanx.state import State
from phalanx.strategies.registry import name_of

if TYPE_CHECKING:
    from phalanx.train.trainer import Trainer

_EXPERIMENT = "phalanx"
#: What is written in every epoch, by which one sees how far a run came.
_ALWAYS = "loss/train"
#: Where a training's state has the run.
_STATE = "mlflow"
#: Limits of MLflow's: parameters in one call, and characters of one.
_AT_ONCE, _LONGEST = 100, 500


@final
class MLflow(Tracker):
    """Writes metrics by epoch, parameters (`params`), tags and a final result to a run of MLflow's.

    Without `tracking_uri` and `experiment` MLflow's own variables count, MLFLOW_TRACKING_URI and
    MLFLOW_EXPERIMENT_NAME. The run's number is a part of the training's state: one that goes on,
    goes on in the same run. MLflow forgets nothing, so epochs that are done again, with the same
    results, are not written again.
    """

    def __init__(
        self,
        *,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        check_tracker("mlflow", asked_by="MLflow")
        super().__init__(params)
        self.run_id: str | None = None
        self._uri, self._name, self._tags = tracking_uri, name, dict(tags or {})
        self._experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
        self._client: Any = None
        #: The last epoch that was written by an earlier turn.
        self._written = 0

    def on_train_begin(self, trainer: "Trainer") -> None:
        super().on_train_begin(trainer)
        self.run_id = trainer.comm.broadcast_object(self.run_id)

    def open(self, trainer: "Trainer") -> None:
        # Ranks may have no way to the outside, and nobody has asked for it.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient

        try:
            self._client = MlflowClient(tracking_uri=self._uri)
            if self.run_id is None:
                self.run_id = self._new_run(trainer)
            else:
                self._go_on()
        except MlflowException as error:
            raise UsageError(f"MLflow: {error}") from error

    def write(self, epoch: int, scalars: Mapping[str, float]) -> None:
        if epoch > self._written:
            self._log(epoch, scalars)

    def close(self, *, stopped: bool) -> None:
        self._client.set_terminated(self.run_id, "KILLED" if stopped else "FINISHED")

    def write_result(
        self, epoch: int, scalars: Mapping[str, float], tags: Mapping[str, str]
    ) -> None:
        self._log(epoch, scalars)
        for name, value in tags.items():
            self._client.set_tag(self.run_id, name, value)

    def state(self) -> State:
        return State(values={_STATE: self.run_id})

    def load(self, state: State) -> None:
        self.run_id = state.values.get(_STATE, self.run_id)

    def _new_run(self, trainer: "Trainer") -> str:
        from mlflow.entities import Param

        found = self._client.get_experiment_by_name(self._experiment)
        experiment = self._client.create_experiment(self._experiment) if found is None else None
        tags = {
            "phalanx.version": __version__,
            "phalanx.strategy": name_of(trainer.strategy) or type(trainer.strategy).__name__,
            "phalanx.ranks": str(trainer.comm.size),
            "phalanx.device": trainer.device.type,
            **self._tags,
        }
        where = experiment or found.experiment_id
        run: str = self._client.create_run(where, run_name=self._name, tags=tags).info.run_id
        params = [Param(name, str(one)[:_LONGEST]) for name, one in plain(self.params).items()]
        for start in range(0, len(params), _AT_ONCE):
            self._client.log_batch(run, params=params[start : start + _AT_ONCE])
        return run

    def _go_on(self) -> None:
        self._client.update_run(self.run_id, status="RUNNING")
        history = self._client.get_metric_history(self.run_id, _ALWAYS)
        self._written = max((one.step for one in history), default=0)

    def _log(self, epoch: int, scalars: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, epoch) for name, value in scalars.items()]
        self._client.log_batch(self.run_id, metrics=metrics)
