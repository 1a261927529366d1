"""`phalanx strategies`: each way to train in parallel, what it sends, and when to choose it."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from phalanx import data, models
from phalanx.cli.output.console import wide_console
from phalanx.errors import UsageError
from phalanx.observe.traffic import FORMULAS, Estimate, Workload, estimate
from phalanx.settings.table import SETTINGS
from phalanx.strategies.registry import (
    STRATEGIES,
    StrategyEntry,
    resolve,
    unknown_strategy,
)
from phalanx.wording import byte_size, flag

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Explain this one in full.")]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Work out the bytes a step for this model [default: simplecnn]"
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="… on samples of this data set [default: digits]"),
]
Ranks = Annotated[int | None, typer.Option(metavar="N", help="… on so many ranks [default: 4]")]
BatchSize = Annotated[
    int | None,
    typer.Option(metavar="N", help="… for so many samples a step over all [default: 64]"),
]


def strategies(
    name: Name = None,
    model: Model = None,
    dataset: Dataset = None,
    ranks: Ranks = None,
    batch_size: BatchSize = None,
) -> None:
    """Explain the ways to train in parallel.

    * `phalanx strategies` lists them, `phalanx strategies local` explains one in full.
    * `phalanx strategies --model vgg16 --dataset mnist --ranks 4` adds what they send.
    """
    if name is not None and (name := resolve(name)) not in STRATEGIES:
        raise unknown_strategy(name)
    work = None
    if any(value is not None for value in (model, dataset, ranks, batch_size)):
        work = _workload(
            model or "simplecnn",
            dataset or "digits",
            ranks=4 if ranks is None else ranks,
            batch_size=64 if batch_size is None else batch_size,
        )
    console = wide_console()
    for entry in STRATEGIES.values() if name is None else [STRATEGIES[name]]:
        _explain(console, entry, _in_short(entry, work) if name is None else _in_full(entry, work))
    if name is None:
        _print(
            console,
            "`phalanx strategies NAME` explains one in full; your own is --strategy FILE.py:CLASS",
        )


def _explain(console: Console, entry: StrategyEntry, lines: Iterable[tuple[str, str]]) -> None:
    """An entry's summary, and below it a line for each thing to know about it."""
    about = [*lines]
    width = 2 + max(len(label) for label, _ in about)
    _print(console, f"{entry.name}: {entry.summary}", bold=len(entry.name))
    for label, text in about:
        _print(console, f"  {label:{width}}{text}", indent=2 + width, dim=2 + width)
    console.print()


def _workload(model: str, dataset: str, *, ranks: int, batch_size: int) -> Workload:
    for option, value in (("ranks", ranks), ("batch_size", batch_size)):
        SETTINGS[option].check(value, spell=flag)
    models.check(model)
    shape, classes = _samples(dataset)
    built = models.build(model, input_shape=shape, classes=classes)
    return Workload(built, shape, ranks=ranks, batch_size=batch_size)


def _samples(dataset: str) -> tuple[tuple[int, ...], int]:
    """The shape of one sample and the number of classes, read from the files if need be."""
    for entry in data.describe():
        shape = tuple(size for size in entry.input_shape if isinstance(size, int))
        known = len(shape) == len(entry.input_shape) and isinstance(entry.classes, int)
        if entry.name == dataset and known:
            return shape, int(entry.classes)
    read = data.load(dataset)
    return read.input_shape, len(read.classes)


def _in_short(entry: StrategyEntry, work: Workload | None) -> Iterator[tuple[str, str]]:
    yield "moves", entry.moves
    if work is not None:
        yield "sends", _sent(entry, work)
    yield "choose it", entry.when


def _in_full(entry: StrategyEntry, work: Workload | None) -> Iterator[tuple[str, str]]:
    yield "moves", entry.moves
    if entry.name in FORMULAS:
        yield "bytes a step", f"{FORMULAS[entry.name].words}, over all ranks"
    if work is not None:
        yield "here", _sent(entry, work)
        yield (
            "",
            (
                f"with a gradient of {byte_size(work.gradient)}, weights of "
                f"{byte_size(work.weights)} and a batch of {byte_size(work.batch)}"
            ),
        )
    yield "choose it", entry.when
    yield "others call it", entry.also_called
    yield "named also", ", ".join(f"--strategy {alias}" for alias in entry.aliases)
    yield "ranks", _ranks(entry)
    for number, option in enumerate(entry.options):
        yield "" if number else "options", f"{flag(option.name)}: {option.text}"
    if not entry.options:
        yield "options", "none"


def _ranks(entry: StrategyEntry) -> str:
    if entry.most_ranks == entry.least_ranks:
        return f"{entry.least_ranks}"
    return f"{entry.least_ranks} or more" if entry.most_ranks is None else f"to {entry.most_ranks}"


def _sent(entry: StrategyEntry, work: Workload) -> str:
    if work.ranks < entry.least_ranks:
        return f"needs {entry.least_ranks} ranks"
    if entry.most_ranks is not None and work.ranks > entry.most_ranks:
        return f"nothing, on {entry.most_ranks} rank"
    try:
        found = estimate(entry.name, work)
    except UsageError as error:
        return f"it refuses this model: {error}"
    if found is None:
        return "unknown"
    return f"{amount(found)} a step over {work.ranks} rank{'s' if work.ranks > 1 else ''}"


def amount(found: Estimate) -> str:
    """Bytes as a person reads them; ≈ where they are not exact."""
    if found.exact:
        return (
            "nothing" if found.most == 0 else f"{byte_size(found.most)} ({found.most:,.0f} bytes)"
        )
    if found.least == found.most:
        return f"≈ {byte_size(found.most)}"
    return f"≈ {byte_size(found.least)} to {byte_size(found.most)}"


def _print(console: Console, text: str, *, indent: int = 2, bold: int = 0, dim: int = 0) -> None:
    """Print a paragraph; its later lines are indented, its first few letters stand out or back."""
    width = max(indent + 20, console.width)
    wrapped = textwrap.fill(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    styled = Text(wrapped)
    styled.stylize("bold", 0, bold)
    styled.stylize("dim", 0, dim)
    console.print(styled, soft_wrap=True)
