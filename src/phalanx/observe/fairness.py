"""What makes a comparison of finished runs unfair: what differs besides the way they trained."""

from collections.abc import Mapping, Sequence
from typing import Any

from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.observe.rows import FinishedRun
from phalanx.settings.panels import names_in
from phalanx.settings.task_options import loss_of

#: Said by the global batch, or without any effect on the training.
_ELSEWHERE = ("data_dir", "batch_size", "batch_size_per_rank", "evaluate_first")


def differences(runs: Sequence[FinishedRun]) -> list[str]:
    """A line for each setting, host or version in which the runs differ."""
    facts = [_facts(run) for run in runs]
    names = [run.row.run for run in runs]
    lines = []
    for fact in dict.fromkeys(name for one in facts for name in one):
        by_value: dict[str, list[str]] = {}
        for name, one in zip(names, facts, strict=True):
            by_value.setdefault(_text(one.get(fact)), []).append(name)
        if len(by_value) > 1:
            parts = (f"{value} ({', '.join(of)})" for value, of in by_value.items())
            lines.append(f"{fact.replace('_', ' ')}: {'; '.join(parts)}")
    return lines


def _facts(run: FinishedRun) -> dict[str, Any]:
    settings = run.settings
    facts: dict[str, Any] = {
        name: getattr(settings, name)
        for name in names_in("Data", "Model", "Training")
        if name not in _ELSEWHERE
    }
    for part in ("dataset", "model", "objective", "callback"):
        facts |= settings.own.get(part, {})
    facts["task"] = settings.task or CLASSIFICATION  # which older runs do not say
    facts["loss"] = loss_of(settings.task, settings.loss)
    facts["batch"] = settings.batch(run.row.ranks or 1)
    facts["shards"] = settings.shards
    facts["host"] = host_name(run.host)
    return facts | {f"version of {name}": version for name, version in run.versions.items()}


def host_name(host: Mapping[str, Any]) -> str:
    """A host and its cores."""
    return f"{host.get('name', '?')}, {host.get('cores', '?')} cores"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return "default" if value is None else str(value)
