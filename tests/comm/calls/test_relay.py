"""What ranks print, shown here: lines as they are, redrawn ones as often as they can be read."""

import io
import sys

import pytest

from phalanx.comm.calls.relay import RedrawnLine, Relay


def shown_by(written: str) -> list[str]:
    """The lines of a terminal that this was written to."""
    lines, column = [""], 0
    for character in written:
        if character == "\n":
            lines, column = [*lines, ""], 0
        elif character == "\r":
            column = 0
        else:
            lines[-1] = lines[-1][:column] + character + lines[-1][column + 1 :]
            column += 1
    return lines


@pytest.mark.parametrize(
    "pieces",
    [
        ["one\n", "two"],
        ["\r10 %", "\r20 %", "\r100 %", "\n", "done\n"],
        ["10 %\r", "20 %\r", "30 %\r", "and on"],
        ["a long line\rshort", "er\n"],
        ["ab", "c\rX", "Y\rZ", "\n"],
        ["windows\r\n", "lines\r\n"],
        ["\r", "\r\r", "x"],
    ],
)
def test_a_line_looks_as_if_all_had_been_written(pieces: list[str]) -> None:
    line = RedrawnLine()
    written = ""
    for index, piece in enumerate(pieces):
        written += line.draw(piece)
        assert shown_by(written) == shown_by("".join(pieces[: index + 1]))


def test_states_that_nobody_would_see_are_left_out() -> None:
    line = RedrawnLine()
    assert line.draw("\r1 %\r2 %\r3 %") == "\r3 %"
    assert line.draw("\r4 %\n") == "\r4 %\n"
    assert line.draw("\r\x1b[31m5 %\r6 %") == "\r\x1b[31m5 %\r6 %"  # its own means, its own matter


def test_lines_come_at_once_and_redrawn_ones_when_it_is_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("phalanx.comm.calls.relay.time.monotonic", lambda: now)
    shown = Relay("stderr")
    shown.feed("a whole line\nthe beginning of ä".encode()[:-1])  # in the middle of a character
    assert capsys.readouterr().err == "a whole line\nthe beginning of "
    shown.feed("ä".encode()[1:] + b"\n\r1 %")
    shown.feed(b"\r2 %")
    shown.feed(b"\r3 %")
    assert capsys.readouterr().err == "ä\n"
    now += 1
    shown.feed(b"")
    assert capsys.readouterr().err == "\r3 %"
    shown.feed(b"\r4 %")
    shown.finish()
    assert capsys.readouterr().err == "\r4 %"


def test_output_that_goes_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", plain)
    shown = Relay("stdout")
    shown.feed("grün\n".encode())
    assert plain.buffer.getvalue() == b"gr?n\n"
    plain.close()
    shown.feed(b"nobody hears this\n")
    monkeypatch.setattr(sys, "stdout", None)
    shown.feed(b"nor this\n")
