"""Whatever a check does, the others are carried out, and there is a verdict."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.errors import UsageError
from phalanx.observe.doctor import asking, examination
from phalanx.observe.doctor.asking import ask
from phalanx.observe.doctor.examination import examine
from phalanx.observe.doctor.finding import Finding, Group, fine, odd, worst
from phalanx.observe.doctor.scope import Scope

never = threading.Event()


def works(_scope: Scope) -> Iterator[Finding]:
    yield fine("one", "as it should be", number=1)
    yield odd("two", "strange", "look at it")


def fails(_scope: Scope) -> Iterator[Finding]:
    yield fine("before", "this much is known")
    raise TypeError("no such thing")


def refuses(_scope: Scope) -> Iterator[Finding]:
    raise UsageError("a cause, and a fix")
    yield


def hangs_for_good(_scope: Scope) -> Iterator[Finding]:
    yield fine("before", "this much is known")
    never.wait()


def test_a_check_that_fails_or_hangs_is_broken_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(examination, "_MORE_SECONDS", 1.0)
    groups = [Group("A", (fails, hangs_for_good)), Group("B", (refuses, works))]
    found = list(examine(Scope(seconds=1.0), groups))
    assert [(title, one.name, one.verdict) for title, one in found] == [
        ("A", "before", "fine"),
        ("A", "fails", "broken"),
        ("A", "before", "fine"),
        ("A", "hangs for good", "broken"),
        ("B", "refuses", "broken"),
        ("B", "one", "fine"),
        ("B", "two", "odd"),
    ]
    assert "TypeError: no such thing" in found[1][1].said
    assert found[4][1].said == "a cause, and a fix"
    never.set()


def test_the_worst_verdict_counts() -> None:
    assert worst([]) == "fine"
    assert worst(["odd", "fine"]) == "odd"
    assert worst(["fine", "broken", "odd"]) == "broken"


def test_a_program_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SECONDS_TO_END", 1.0)
    # Deaf to what asks it to end, with a child that holds its pipes open.
    answer = ask(["sh", "-c", "trap '' TERM; echo begun; sleep 1000 & wait"], seconds=2)
    assert answer.code is None
    assert answer.output == "begun\n"
    assert answer.why == "it did not end in time"


def test_how_a_program_failed_is_told_in_a_line() -> None:
    raised = ask([sys.executable, "-c", "import no_such_thing"], seconds=100)
    assert raised.why == "ModuleNotFoundError: No module named 'no_such_thing' (exit code 1)"
    assert ask(["sh", "-c", "kill -ABRT $$"], seconds=100).why == "ended by SIGABRT"
    said = ask(["sh", "-c", "echo ----- >&2; echo first >&2; exit 3"], seconds=100)
    assert said.why == "first (exit code 3)"


def test_its_parts_are_imported_without_torch() -> None:
    parts = "phalanx.cli.output.doctor, phalanx.cli.doctor"
    code = f"import sys, {parts}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(os.sep))
