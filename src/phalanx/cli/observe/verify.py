"""`phalanx verify`: does this training come to the same on any ranks, and after interruptions?"""

import tempfile
from pathlib import Path

import typer
from rich.console import Console

from phalanx.cli.flags.verify import Asked, with_verification
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.mpiexec import check_here
from phalanx.errors import UsageError
from phalanx.observe.verify.ways import Way, ways_of
from phalanx.runs.folder import check_writable


@with_verification
def verify(asked: Asked) -> None:
    """Prove for this training, in a few steps, that ranks and interruptions make no difference.

    * `phalanx verify --model net.py:make_model --dataset data.py:make_dataset`
    * `phalanx verify --dataset digits --model resnet20 --strategy allreduce --ranks 4`

    It trains on 1, 2 and N ranks, and interrupted half way and gone on with from the checkpoint on
    other ranks with another strategy. After every step it compares samples, random numbers, weights
    and what the optimizer keeps, bit for bit, and says what differs first. Strategies that promise
    no bits are held to what they promise. Exit codes: 0 all as promised, 1 not, 2 refused.
    """
    if current_job() is not None:
        raise UsageError("phalanx verify starts its ranks itself: call it without mpirun or srun")
    ways = ways_of(asked.settings, ranks=asked.ranks)
    check_here(max(way.ranks for way in ways))
    check_writable(asked.json)
    if not _verify(asked, ways):
        raise typer.Exit(1)


def _verify(asked: Asked, ways: list[Way]) -> bool:
    from phalanx.cli.output import verification as shown
    from phalanx.observe.verify.verification import verify as verdicts_of

    console = Console(stderr=True, markup=False, emoji=False)
    with (
        tempfile.TemporaryDirectory(prefix="phalanx-verify-") as folder,
        console.status("") as line,
    ):
        verdicts = list(
            verdicts_of(
                ways,
                steps=asked.steps,
                folder=Path(folder),
                tell=lambda way: line.update(f"{ways.index(way) + 1} of {len(ways)}: {way.name}"),
            )
        )
    shown.show(verdicts, asked.settings, steps=asked.steps)
    if asked.json is not None:
        shown.write_json(asked.json, verdicts, steps=asked.steps)
    return all(one.holds for one in verdicts)
