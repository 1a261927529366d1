"""What `advise_check` has found, as the tables of docs/advise.md."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.machine import machine

HERE, SIZES = "here", "sizes"
_TITLES = {
    HERE: "2 ranks of one host",
    "1gbit": "1 + 1 ranks, 1 Gbit/s",
    "100mbit": "1 + 1 ranks, 100 Mbit/s",
}
_BEGIN = "<!-- what python -m benchmarks.questions.advise_check --write puts here -->"
_END = "<!-- until here -->"

Kept = Mapping[tuple[str, str], Mapping[str, Any]]


def write_tables(page: Path, kept: Kept) -> None:
    """Put the tables where the page has room for them."""
    before, rest = page.read_text(encoding="utf-8").split(_BEGIN)
    _, after = rest.split(_END)
    text = "\n".join(tables(kept))
    page.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


def tables(kept: Kept) -> Iterator[str]:
    """All of them, line by line."""
    about, dates = machine(), sorted({one["date"] for one in kept.values()})
    yield (
        f"On {about['cores']} cores of an {about['processor']}, {' and '.join(dates)}; one thread "
        "a rank. An epoch, predicted by advice on the same ranks and hosts, and then measured:"
    )
    yield ""
    yield "| | | predicted | between | measured | off by |"
    yield f"| --- | --- |{' ---: |' * 4}"
    for (name, place), one in kept.items():
        if place != SIZES:
            between = f"{_seconds(one['least'])} and {_seconds(one['most'])}"
            off = _off(one["predicted"], one["measured"])
            cells = (_seconds(one["predicted"]), between, _seconds(one["measured"]), off)
            yield f"| {name} | {_TITLES[place]} | {' | '.join(cells)} |"
    yield from _elsewhere(kept)
    yield from _used(kept)
    for (_, place), one in kept.items():
        if place == SIZES:
            yield from _sizes(one)


def _elsewhere(kept: Kept) -> Iterator[str]:
    """What advice on one host has said about hosts that it did not see."""
    yield ""
    yield "The same epochs, predicted on one host by `--network` and `--ranks-per-host 1`:"
    yield ""
    yield "| | | predicted | measured | off by |"
    yield f"| --- | --- |{' ---: |' * 3}"
    for (name, place), one in kept.items():
        guess = kept.get((name, HERE), {}).get(f"predicted for {place}")
        if guess is not None:
            cells = (_seconds(guess), _seconds(one["measured"]), _off(guess, one["measured"]))
            yield f"| {name} | {_TITLES[place]} | {' | '.join(cells)} |"


def _used(kept: Kept) -> Iterator[str]:
    yield ""
    yield "| | it says | one rank, predicted | measured | off by |"
    yield f"| --- | --- |{' ---: |' * 3}"
    for (name, place), one in kept.items():
        if place == HERE:
            guess, truth = one["predicted for one"], one["measured on one"]
            use = "use 1 rank" if one["use"] == 1 else f"use {one['use']} ranks"
            off = _off(guess, truth)
            yield f"| {name} | {use} | {_seconds(guess)} | {_seconds(truth)} | {off} |"


def _sizes(one: Mapping[str, Any]) -> Iterator[str]:
    """The question of the network's size."""
    yield ""
    yield (
        "How large must a network be for 2 ranks? The efficiency of `mlp` on digits, two hidden "
        "layers of the same width, batch 64: predicted from one rank's steps, and measured."
    )
    yield ""
    yield "| parameters | predicted | measured |"
    yield "| ---: | ---: | ---: |"
    for (size, guess), (_, truth) in zip(one["predicted"], one["measured"], strict=True):
        yield f"| {size:,} | {guess:.0%} | {truth:.0%} |"
    yield ""
    yield "| efficiency | predicted from | measured from | factor |"
    yield "| ---: | ---: | ---: | ---: |"
    for level, (guess, truth) in one["crossings"].items():
        factor = "" if guess is None or truth is None else f"{guess / truth:.2f}"
        cells = (f"{float(level):.0%}", _parameters(guess), _parameters(truth), factor)
        yield f"| {' | '.join(cells)} |"


def _off(guess: float, truth: float) -> str:
    return f"{guess / truth - 1:+.0%}"


def _parameters(count: float | None) -> str:
    return "none of these" if count is None else f"{count:,.0f} parameters"


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
