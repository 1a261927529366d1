"""`python -m tools.suite NAME [ARGUMENT…]`: pytest, a second chance in the open, and a last page.

Hundreds of tests kill, stop and outwait processes on cores that others use, too. A test that fails
is tried once more at the end: alone, in a process or a job of ranks of its own. If it passes then,
it is *unsteady*: it lost a race, is to be mended, and is named, but does not undo hours of work.
What fails twice is red, and so are more than three unsteady tests: that is no bad luck any more.

The last page says where the time went and how to repeat what failed, and is kept in build/tests,
beside the seconds that each test took.
"""

import shlex
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: So many tests may fail the first time and a run still be green.
UNSTEADY = 3
#: When more than these have failed, they have a reason: no second chance is needed to see that.
TOO_MANY = 10
SLOWEST = 20


@dataclass(eq=False)  # pytest keeps its plugins in sets
class Record:
    """A pytest plugin that keeps what the last page tells."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.setdefault(report.nodeid, _first_line(report.longreprtext))
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")

    def slowest(self) -> list[tuple[str, float]]:
        """All tests with their seconds, those that take longest first."""
        return sorted(self.seconds.items(), key=lambda pair: -pair[1])


def main(name: str, *arguments: str) -> int:
    record = Record()
    code = int(pytest.main(list(arguments), plugins=[record]))
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return code  # interrupted, no tests, or a file that cannot be read: nothing to try again
    again = {} if len(record.failed) > TOO_MANY else {test: _alone(test) for test in record.failed}
    unsteady = {test: line for test, line in record.failed.items() if again.get(test)}
    broken = {test: line for test, line in record.failed.items() if test not in unsteady}
    page = "\n".join(_page(record, unsteady=unsteady, broken=broken))
    print(f"\n{page}", flush=True)
    file = Path("build", "tests", f"{name}.txt")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{page}\n")
    rows = (f"{seconds:8.2f}  {test}\n" for test, seconds in record.slowest())
    file.with_suffix(".seconds").write_text("".join(rows))
    return int(bool(broken) or len(unsteady) > UNSTEADY)


def _alone(test: str) -> bool:
    """Whether a test passes that has a process, and if need be a job of ranks, of its own."""
    print(f"\nOnce more, alone: {test}", flush=True)
    return subprocess.run([*_repeat(test)], check=False).returncode == 0


def _repeat(test: str) -> list[str]:
    return [sys.executable, "-m", "pytest", test]


def _first_line(text: str) -> str:
    """What a failure says: the first line of the error, or of all there is."""
    lines = text.splitlines()
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or ["no reason given"])[0][:160]


def _page(record: Record, *, unsteady: dict[str, str], broken: dict[str, str]) -> list[str]:
    lines = ["---------------- The last page ----------------", "Seconds by folder:"]
    folders: defaultdict[str, float] = defaultdict(float)
    for test, seconds in record.seconds.items():
        folders[str(Path(test.partition("::")[0]).parent)] += seconds
    lines += [f"{folders[name]:8.1f}  {name}" for name in sorted(folders)]
    slowest = record.slowest()[:SLOWEST]
    lines += ["Slowest:", *(f"{seconds:8.1f}  {test}" for test, seconds in slowest)]
    reasons: defaultdict[str, int] = defaultdict(int)
    for reason in record.skipped.values():
        reasons[reason] += 1
    if reasons:
        lines += ["Skipped:", *(f"{count:8}  {reason}" for reason, count in reasons.items())]
    if broken:
        lines.append("Failed:")
    for test, line in broken.items():
        lines += [f"  {test}", f"    {line}", f"    {shlex.join(_repeat(test))}"]
    lines.append(
        f"Unsteady (failed first, passed alone; at most {UNSTEADY} may be): {len(unsteady)}"
    )
    for test, line in unsteady.items():
        lines += [f"  {test}", f"    {line}"]
    return lines


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
