"""What a person is shown of a training: before it, while it lasts, and what came of it."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, final

from rich.console import Console

from phalanx.cli.output.progress import baselines_in_words, in_words, shown_progress
from phalanx.cli.output.tables import layer_table, plain_table, settings_table
from phalanx.runs.written import WrittenRun
from phalanx.strategies.base import TextTable
from phalanx.train.metrics import Metrics
from phalanx.train.progress import Progress
from phalanx.train.session import Session


class Display(ABC):
    """Shows what the first rank has to say, in its order."""

    def __init__(self, console: Console) -> None:
        self.console = console

    @abstractmethod
    def progress(self) -> AbstractContextManager[Progress]:
        """What shows the epochs; a terminal is left as it was found."""

    @abstractmethod
    def introduce(self, session: Session) -> None:
        """Say what is trained, once all of it is ready."""

    @abstractmethod
    def tested(self, metrics: Metrics) -> None:
        """Say what the model is worth before it is trained."""

    @abstractmethod
    def conclude(self, result: dict[str, Any], run: WrittenRun) -> None:
        """Say what came of it."""

    def show(self, table: TextTable) -> None:
        """Print what a strategy or a profile has to say."""
        self.console.print(plain_table(table, width=self.console.width))

    def say(self, text: str) -> None:
        """Print a line, however long it is."""
        self.console.print(text, highlight=False, soft_wrap=True)


@final
class TrainingDisplay(Display):
    """That of `phalanx train`."""

    def progress(self) -> AbstractContextManager[Progress]:
        return shown_progress(self.console)

    def introduce(self, session: Session) -> None:
        dtype = session.dataset.train.taken_dtype(session.dtype)
        self.console.print(layer_table(session.model, session.dataset.input_shape, dtype))
        self.console.print(settings_table(session))

    def tested(self, metrics: Metrics) -> None:
        self.say(f"test before: {metrics}")

    def conclude(self, result: dict[str, Any], run: WrittenRun) -> None:
        again = f" in {result['turns']} turns" if result["turns"] > 1 else ""
        self.say(
            f"time {result['seconds']:.2f} s{again}  "
            f"{result['samples_per_second']:,.0f} samples/s  "
            f"memory {result['memory_bytes'] / 2**20:,.0f} MiB on this host"
        )
        self.say(f"test: {in_words(Metrics(**result['test']))}")
        if result["baselines"]:
            self.say(f"baselines: {baselines_in_words(result['baselines'])}")
        if result.get("advice"):
            self.say(result["advice"])
        self.say(f"weights sha256: {result['weights_sha256']}")
        self.say(f"run: {run.path}")
