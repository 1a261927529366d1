"""What a launcher hears of ranks that may be lost."""

import os
from pathlib import Path

import pytest

from phalanx.comm.launch import roll_call
from phalanx.comm.launch.banners import without_abort_banners
from phalanx.comm.launch.roll_call import RollCall


def told(call: RollCall, *reports: str) -> list[bytes]:
    return list(call.watch(f"\x1ephalanx:{one}\x1e\n".encode() for one in reports))


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        (("here:0", "here:0"), ""),
        (("begun:2", "done:2", "begun:2", "done:2"), ""),
        (("begun:3", "begun:3", "begun:3", "begun:2", "done:2", "begun:2", "done:2"), ""),
        (("begun:3", "done:3", "begun:2", "done:2", "done:2"), ""),  # one left early, and in order
        (("begun:2", "begun:2", "failed:7"), ""),
        (("begun:2", "begun:2"), "no rank has come to the end of its program\n"),
        (("begun:3", "done:3", "done:3"), "1 of the last 3 ranks did not come to their end\n"),
    ],
)
def test_a_job_that_mpiexec_calls_a_success(
    reports: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call = RollCall(listens=True)
    assert told(call, *reports) == []
    assert call.is_awaited
    assert call.has_begun == ("here:0" not in reports)
    code = 7 if "failed:7" in reports else int(bool(said))
    assert (call.code(), capsys.readouterr().err) == (code, said)


def test_other_lines_are_passed_on() -> None:
    lines = [b"a line\n", b"50% |##\x1ephalanx:done:1\x1e\n", b"\n", b"end"]
    call = RollCall(listens=True)
    assert list(call.watch(lines)) == [b"a line\n", b"50% |##", b"\n", b"end"]
    assert call.code() == 0


def test_what_a_rank_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_call, "_this", [])
    roll_call.arrive()  # nobody listens
    roll_call.begin(3)
    roll_call.end()
    for name, value in RollCall(listens=True).variables().items():
        monkeypatch.setenv(name, value)
    with open(tmp_path / "errors", "wb") as file:
        monkeypatch.setattr(os, "dup", lambda _: file.fileno())
        roll_call.arrive()
        roll_call.arrive()
        for ranks in (3, 2):
            roll_call.begin(ranks)
        roll_call.end()
    call = RollCall(listens=True)
    lines = (tmp_path / "errors").read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    assert list(call.watch(lines)) == []
    assert call.code() == 1  # one of two


def test_a_rank_that_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "errors", "wb") as file:
        monkeypatch.setattr(roll_call, "_this", [roll_call._Rank(1, file.fileno(), 2)])
        roll_call.fail(3)
    assert (tmp_path / "errors").read_bytes() == b"\x1ephalanx:failed:3\x1e\n"


def test_operations_that_fail_with_a_lost_rank_are_not_told_of() -> None:
    noise = b"NBC_Progress: an error 75 was found during schedule 0x55 at row-offset 0 - aborting\n"
    lines = [b"a\n", noise, b"\n", b"\n", b"b\n"]
    assert list(without_abort_banners(lines)) == [b"a\n", b"\n", b"b\n"]
    # Of two ranks at once, and with a line of somebody else's between.
    lines = [b"a\n", noise, noise, b"\n", b"b\n", b"\n", b"c\n", b"\n", b"d\n"]
    assert list(without_abort_banners(lines)) == [b"a\n", b"b\n", b"c\n", b"\n", b"d\n"]
