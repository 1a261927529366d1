"""The page about runs: its sections, each made by a module of its own."""

from collections.abc import Sequence

from phalanx.observe.recorded import RecordedRun
from phalanx.observe.report.answers import answers
from phalanx.observe.report.document import Document, Section, Text
from phalanx.observe.report.learning import learning
from phalanx.observe.report.memory import memory
from phalanx.observe.report.phases import where_time_went
from phalanx.observe.report.speed import speed
from phalanx.observe.report.summary import summary, what_ran
from phalanx.observe.report.surroundings import surroundings
from phalanx.observe.scaling import scaled
from phalanx.wording import counted


def document_of(
    runs: Sequence[RecordedRun], *, title: str | None = None, notes: Sequence[str] = ()
) -> Document:
    """All that the page says."""
    beside = scaled(runs)
    said = [Text(note, "warning") for note in notes]
    unfinished = [run.name for run in runs if run.result is None]
    if unfinished:
        said.append(
            Text(f"Not at its end, and without a result: {', '.join(unfinished)}.", "warning")
        )
    first = summary(beside)
    sections = [
        Section(first.heading, [*said, *first.blocks], first.lead),
        learning(runs),
        answers(runs),
        speed(beside),
        where_time_went(runs),
        memory(runs),
        what_ran(runs),
        surroundings(runs),
    ]
    return Document(title or _title(runs), sections, lead=_lead(runs), footer=_footer(runs))


def _title(runs: Sequence[RecordedRun]) -> str:
    what = dict.fromkeys(_what(run) for run in runs)
    return next(iter(what)) if len(what) == 1 else f"{counted(len(runs), 'run')}"


def _what(run: RecordedRun) -> str:
    return f"{run.settings.get('model', '?')} on {run.settings.get('dataset', '?')}"


def _lead(runs: Sequence[RecordedRun]) -> str:
    if len(runs) > 1:
        return f"{counted(len(runs), 'run')} side by side"
    (run,) = runs
    ranks = "" if run.ranks is None else f" on {counted(run.ranks, 'rank')}"
    return f"{run.name}: {run.strategy}{ranks}"


def _footer(runs: Sequence[RecordedRun]) -> str:
    versions = dict.fromkeys(run.versions.get("phalanx", "?") for run in runs)
    return f"Trained with Phalanx {', '.join(versions)}. Charts are drawn by Apache ECharts 6.1.0."
