"""How much faster runs are than the same training on one core, and how well they use theirs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phalanx.observe.recorded import RecordedRun
from phalanx.settings.panels import names_in

#: Of the settings, what does not make a training another one: how it is done in parallel, what is
#: written, and how long it goes on. What the batch is, is known otherwise.
_ELSEWHERE = {
    *names_in("Parallelism", "Output"),
    *("data_dir", "batch_size", "batch_size_per_rank", "evaluate_first", "metrics"),
    *("epochs", "seed"),
}


@dataclass(frozen=True)
class Scaled:
    """A run beside the same training with one rank and one thread; None is what is not known."""

    run: RecordedRun
    #: Which of the trainings it is, counted from 0.
    group: int
    speed_up: float | None = None

    @property
    def efficiency(self) -> float | None:
        """The part of its cores' speed that it makes use of."""
        cores = self.run.cores
        return None if self.speed_up is None or not cores else self.speed_up / cores


def scaled(runs: Sequence[RecordedRun]) -> list[Scaled]:
    """Each run beside its baseline: by samples a second, with the same data, model and batch."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(training_of(run), []).append(run)
    numbers = {key: number for number, key in enumerate(groups)}
    bases = {key: _base(members) for key, members in groups.items()}
    return [
        Scaled(run, numbers[key], _ratio(run.known("samples_per_second"), bases[key]))
        for run in runs
        for key in (training_of(run),)
    ]


def training_of(run: RecordedRun) -> str:
    """What is the same in runs that are the same training, however it is done in parallel."""
    settings = sorted(run.settings.items())
    facts = [(name, value) for name, value in settings if name not in _ELSEWHERE]
    return repr([*facts, run.batch, run.known("device")])


def _base(runs: Sequence[RecordedRun]) -> float | None:
    """The samples a second on one core; of `single`, if that is among them."""
    alone = [run for run in runs if run.cores == 1 and run.known("samples_per_second")]
    alone.sort(key=lambda run: run.strategy != "single")
    return alone[0].known("samples_per_second") if alone else None


def _ratio(rate: float | None, base: float | None) -> float | None:
    return rate / base if rate and base else None


def what_differs(runs: Sequence[RecordedRun], *, leave_out: Collection[str] = ()) -> list[str]:
    """For each run, what tells its training from those of the others, as a person says it."""
    known = [
        {
            name: value
            for name, value in run.settings.items()
            if name not in _ELSEWHERE and name not in leave_out
        }
        | ({} if "batch" in leave_out else {"batch": run.batch})
        for run in runs
    ]
    names = differing(known)
    return [", ".join(f"{said(name)} {text_of(one.get(name))}" for name in names) for one in known]


def said(name: str) -> str:
    """A setting as a person reads it."""
    return name.replace("_", " ")


def text_of(value: Any) -> str:
    """What a setting is, as a user would say it."""
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None or value == "" else str(value)


def differing(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names whose values are not the same in all."""
    names = dict.fromkeys(name for run in runs for name in run)
    return [name for name in names if any(run.get(name) != runs[0].get(name) for run in runs)]
