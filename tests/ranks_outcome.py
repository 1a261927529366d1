"""What came of a test on all ranks, as one outcome."""

from dataclasses import dataclass, field
from typing import Any, Literal

#: What a rank wrote about the setup, the call or the teardown of a test.
Report = dict[str, Any]


@dataclass
class Outcome:
    """What came of one test on all ranks."""

    result: Literal["passed", "failed", "skipped"]
    explanation: Any = None
    sections: list[tuple[str, str]] = field(default_factory=list)
    duration: float = 0.0
    expected_failure: str | None = None


def merge(by_rank: list[list[Report]], *, trouble: str | None) -> Outcome:
    """One outcome out of every rank's reports, and of what was wrong with the job."""
    results = [_result(reports) for reports in by_rank]
    sections = [
        (f"rank {rank}: {name}", text)
        for rank, reports in enumerate(by_rank)
        for name, text in (reports[-1]["sections"] if reports else [])
    ]
    duration = max(sum(report["duration"] for report in reports) for reports in by_rank)
    texts = _tracebacks(by_rank)
    if trouble is not None:
        return Outcome("failed", "\n\n".join([*texts, trouble]), sections, duration)
    if "failed" in results:
        return Outcome("failed", "\n\n".join(texts), sections, duration)
    expected = [r["expected_failure"] for reports in by_rank for r in reports]
    reason = next((text for text in expected if text is not None), None)
    if len(set(results)) > 1 and reason is None:
        return Outcome("failed", f"skipped on some ranks only: {results}", sections, duration)
    if "skipped" not in results:
        return Outcome("passed", None, sections, duration, reason)
    report = next(r for reports in by_rank for r in reports if r["result"] == "skipped")
    text = report["explanation"]
    return Outcome(
        "skipped", tuple(text) if isinstance(text, list) else text, sections, duration, reason
    )


def _result(reports: list[Report]) -> str:
    results = {report["result"] for report in reports}
    return next((result for result in ("failed", "skipped") if result in results), "passed")


def _tracebacks(by_rank: list[list[Report]]) -> list[str]:
    """The failures, each told once, after the ranks that had it."""
    ranks: dict[str, list[int]] = {}
    for rank, reports in enumerate(by_rank):
        for report in reports:
            if report["result"] == "failed":
                ranks.setdefault(report["explanation"], []).append(rank)
    return [
        f"rank{'s' * (len(who) > 1)} {', '.join(map(str, who))}:\n{text}"
        for text, who in ranks.items()
    ]
