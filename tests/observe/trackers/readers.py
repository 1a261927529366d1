"""What TensorBoard's and MLflow's own readers find."""

import warnings
from pathlib import Path
from typing import Any

Scalars = dict[str, list[tuple[int, float]]]


def tensorboard(folder: Path) -> tuple[Scalars, set[str]]:
    """The scalars by tag, and what the plugin for hyper-parameters has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    scalars = {
        tag: [(one.step, one.value) for one in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }
    plugins = events.summary_metadata.values()
    has = any(one.plugin_data.plugin_name == "hparams" for one in plugins)
    return scalars, set(events.PluginTagToContent("hparams")) if has else set()


def mlflow(uri: str, experiment: str = "phalanx") -> tuple[Scalars, Any]:
    """The metrics of the only run by name, and that run."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    (run,) = client.search_runs([found.experiment_id])
    scalars = {
        name: sorted((m.step, m.value) for m in client.get_metric_history(run.info.run_id, name))
        for name in run.data.metrics
    }
    return scalars, run
