"""What a user sees of a pipeline: how the model was cut, and how long each stage waited."""

from collections.abc import Sequence

from phalanx.strategies.base import TextTable
from phalanx.strategies.pipeline.cutting import Cut
from phalanx.strategies.pipeline.schedule import bubble
from phalanx.strategies.pipeline.stage_passes import Times


def tables(cut: Cut, times: Sequence[Times], *, micro_batches: int) -> tuple[TextTable, TextTable]:
    """The tables of a training, from the times of all ranks in their order."""
    stages = len(cut.starts)
    columns = [times[stage::stages] for stage in range(stages)]  # a stage in every replica
    return _stages(cut, columns), _waiting(columns, micro_batches)


def _stages(cut: Cut, columns: Sequence[Sequence[Times]]) -> TextTable:
    whole = sum(one.forward + one.backward for column in columns for one in column)
    rows = []
    for stage, column in enumerate(columns):
        count = max(1, sum(one.micro_batches for one in column))
        forward = sum(one.forward for one in column)
        backward = sum(one.backward for one in column)
        layers = cut.stage(stage)
        out = "–"
        if stage < len(cut.borders):
            out = f"{cut.borders[stage].form.bytes(cut.samples) / (1 << 20):.3f}"
        rows.append(
            (
                str(stage),
                ", ".join(str(stage + row * len(columns)) for row in range(len(column))),
                f"{layers.start}–{layers.stop - 1}" if len(layers) > 1 else str(layers.start),
                f"{forward / count * 1e3:.3f}",
                f"{backward / count * 1e3:.3f}",
                f"{(forward + backward) / whole if whole else 0.0:.1%}",
                out,
            )
        )
    titles = ("stage", "ranks", "layers", "forward ms", "backward ms", "share", "out MiB")
    return TextTable("Pipeline", titles, tuple(rows))


def _waiting(columns: Sequence[Sequence[Times]], micro_batches: int) -> TextTable:
    """How much of a stage's time in passes and waiting for its neighbours was waiting."""
    theory = bubble(stages=len(columns), micro_batches=micro_batches)
    rows = []
    for stage, column in enumerate(columns):
        waiting = sum(one.wait for one in column)
        whole = waiting + sum(one.forward + one.backward for one in column)
        rows.append((str(stage), f"{waiting / whole if whole else 0.0:.1%}", f"{theory:.1%}"))
    return TextTable("Bubble", ("stage", "idle", "if stages were equal"), tuple(rows))
