"""A comparison under way: one training after the other, each row kept as soon as it is known."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from phalanx.observe.plan import Planned
from phalanx.observe.rows import Row, better, row_without_result
from phalanx.observe.training import run_training

Tell = Callable[[str], None]


@final
class Comparison:
    """Trainings that are planned; `rows` can be read at any time, also after an interruption."""

    def __init__(self, planned: Sequence[Planned], *, repeats: int, tell: Tell) -> None:
        self._planned = planned
        self._repeats = repeats
        self._tell = tell
        self._done: dict[int, Row] = {
            index: row_without_result(
                one, "refused", short=one.refusal.short, reason=one.refusal.reason
            )
            for index, one in enumerate(planned)
            if one.refusal is not None
        }

    @property
    def rows(self) -> list[Row]:
        """A row a training, in the order of the plan."""
        return [
            self._done.get(index)
            or row_without_result(one, "interrupted", short="stopped", reason="")
            for index, one in enumerate(self._planned)
        ]

    def runs(self, folder: Path) -> list[Path]:
        """Where in the folder that they were trained into those are that the rows tell of."""
        return [folder / row.run for row in self.rows if row.status == "done"]

    @property
    def failed(self) -> bool:
        """Whether anything came to nothing that was not refused beforehand."""
        return any(
            row.status != "done" and one.refusal is None
            for row, one in zip(self.rows, self._planned, strict=True)
        )

    def run(self, folder: Path) -> None:
        """Train all, into a folder each; repeats in rounds, so that a slow minute hits them all."""
        for index, one in enumerate(self._planned):
            if one.refusal is not None:
                self._tell(f"{self._place(index)} {one.title}: {one.refusal.short}")
        for number in range(1, self._repeats + 1):
            for index, one in enumerate(self._planned):
                before = self._done.get(index)
                if before is None or before.status == "done":
                    self._train(index, one, folder / self._name(index, number), number)

    def _train(self, index: int, planned: Planned, folder: Path, number: int) -> None:
        again = f", repeat {number} of {self._repeats}" if self._repeats > 1 else ""
        where = f"{self._place(index)} {planned.title}{again}"
        self._tell(f"{where}: training …")
        row = run_training(planned, folder)
        if row.status == "done":
            self._tell(f"{where}: {row.seconds:.2f} s, {row.samples_per_second:,.0f} samples/s")
        else:
            self._tell(f"{where}: {row.short}: {row.reason.partition(chr(10))[0]}")
        self._done[index] = better(self._done.get(index), row)

    def _place(self, index: int) -> str:
        return f"[{index + 1}/{len(self._planned)}]"

    def _name(self, index: int, number: int) -> str:
        repeat = f"-repeat-{number}" if self._repeats > 1 else ""
        return f"{index + 1:02}-{self._planned[index].folder}{repeat}"
