"""What must come of a training under each kind of fault."""

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from phalanx.checkpoints import newest_whole
from tests.chaos.faults import Fault
from tests.chaos.job import NETWORK, Ran, train
from tests.chaos.silent_host import train_on_two_hosts
from tests.hosts.namespaces import NoHostsError

#: A disk that has room for a run, but not for a checkpoint of it; in bytes.
_SMALL_DISK = 64 * 1024


@dataclass
class Outcome:
    """How one fault went."""

    fault: Fault
    #: The jobs it took, in their order.
    jobs: list[Ran] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: Why it came to nothing, if so.
    skipped: str = ""
    #: None where that was not promised.
    same_bits: bool | None = None
    seconds_lost: list[float] = field(default_factory=list)

    @property
    def hangs(self) -> int:
        return sum(one.hung for one in self.jobs)

    @property
    def left(self) -> list[str]:
        return [name for one in self.jobs for name in one.left]


def epochs(fault: Fault) -> int:
    """So many that a host can be cut off in their midst: nobody knows to the step when it is."""
    return 30 if fault.kind == "cut off" else 3


def settings(fault: Fault) -> list[object]:
    """The training that is disturbed."""
    sharded = fault.strategy in ("allreduce", "central")
    return [
        *("--model", NETWORK, "--epochs", epochs(fault), "--optimizer", "adam"),
        *("--validation-split", 0.1),
        *("--checkpoint-every", 1 if fault.kind == "all" else 10, "--output", "run"),
        *(("--shards", 4) if sharded else ()),
        *("--ranks", fault.ranks, "--strategy", fault.strategy),
    ]


class Undisturbed:
    """What a training comes to that nothing happens to: each is done once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, Ran] = {}

    def of(self, fault: Fault) -> Ran:
        """With fixed shards one rank will do."""
        sharded = fault.strategy in ("allreduce", "central")
        name = f"sharded-{epochs(fault)}" if sharded else f"{fault.strategy}-{fault.ranks}"
        if name not in self._known:
            how = settings(fault)
            if sharded:
                how[-4:] = ["--ranks", 1, "--strategy", "single"]
            ran = train(self._folder / name, *how)
            if ran.code or not ran.digest:
                raise RuntimeError(f"undisturbed, {name}: {ran.errors}")
            self._known[name] = ran
        return self._known[name]


def try_out(fault: Fault, folder: Path, undisturbed: Undisturbed) -> Outcome:
    """Have it happen."""
    outcome = Outcome(fault)
    good = undisturbed.of(fault)
    _KINDS[fault.kind](outcome, folder, good)
    for one in outcome.jobs:
        if one.hung:
            outcome.problems.append(f"it hung: {one.command}")
        if one.left:
            outcome.problems.append(f"left behind: {', '.join(one.left)}")
        if "Traceback" in one.errors:
            outcome.problems.append("a traceback")
    struck = {rank for one in outcome.jobs for rank in one.struck()}
    if len(struck) < len(fault.strikes) and not outcome.problems:
        outcome.skipped = "it was over before"
    return outcome


def _first(outcome: Outcome, folder: Path, *how: object) -> Ran:
    fault = outcome.fault
    ran = train(folder / "job", *settings(fault), *how, strikes=fault.strikes)
    outcome.jobs.append(ran)
    return ran


def _check_end(outcome: Outcome, ran: Ran, good: Ran, *, same_bits: bool = True) -> None:
    """It has come to its end, and to the same one."""
    problems = outcome.problems
    if ran.code:
        problems.append(f"exit code {ran.code}")
        return
    if same_bits:
        names = ran.digest, ran.result.get("weights_sha256")
        outcome.same_bits = set(names) == {good.digest} and _weights(ran) == _weights(good)
        if not outcome.same_bits:
            problems.append(f"other bits: {names} instead of {good.digest}")
    _check_history(outcome, ran, good, within=1e-6 if same_bits else 1e-3)
    partial = [one.name for one in (ran.run / "checkpoints").glob("*.partial-*")]
    if partial:
        problems.append(f"partial checkpoints are left: {partial}")


def _weights(ran: Ran) -> bytes:
    return (ran.run / "model.safetensors").read_bytes()


def _check_history(outcome: Outcome, ran: Ran, good: Ran, *, within: float) -> None:
    mine, theirs = ran.history, good.history
    if [row["epoch"] for row in mine] != [row["epoch"] for row in theirs]:
        outcome.problems.append(f"history.csv has epochs {[row['epoch'] for row in mine]}")
        return
    for one, other in zip(mine, theirs, strict=True):
        for name, value in other.items():
            if abs(one.get(name, float("nan")) - value) <= within:
                continue
            outcome.problems.append(
                f"epoch {one['epoch']:.0f}: {name} is {one.get(name)} instead of {value}"
            )


def _check_losses(outcome: Outcome, ran: Ran) -> None:
    """Every rank that was struck is named, and what that took is known."""
    written = (ran.run / "result.json").stat().st_mtime if ran.result else 0.0
    losses = ran.result.get("losses", [])
    for rank, when in ran.struck().items():
        found = [one for one in losses if rank in one["ranks"]]
        if found and found[0]["seconds"] is not None:
            [loss] = found
            outcome.seconds_lost.append(loss["noticed"] - when + loss["seconds"])
        elif when < written and not ran.code:
            outcome.problems.append(f"rank {rank} was lost, which result.json says as {found}")


def _kill(outcome: Outcome, folder: Path, good: Ran) -> None:
    ran = _first(outcome, folder, "--on-failure", "shrink")
    _check_end(outcome, ran, good)
    _check_losses(outcome, ran)


def _stop_and_go_on(outcome: Outcome, folder: Path, good: Ran) -> None:
    ran = _first(outcome, folder, "--on-failure", "shrink", "--stall-after", "6s")
    _check_end(outcome, ran, good)
    _check_named(outcome, ran)


def _stop(outcome: Outcome, folder: Path, good: Ran) -> None:
    ran = _first(outcome, folder, "--stall-after", "6s")
    if ran.struck() and ran.code != 1:
        outcome.problems.append(f"exit code {ran.code} instead of 1")
    _check_named(outcome, ran)


def _check_named(outcome: Outcome, ran: Ran) -> None:
    for rank in ran.struck():
        named = f"rank {rank} (process " in ran.errors and "has stood still" in ran.errors
        if not named or "  File " not in ran.errors:
            outcome.problems.append(f"rank {rank} is not named, with stacks")


def _restart(outcome: Outcome, folder: Path, good: Ran) -> None:
    fault = outcome.fault
    ran = _first(outcome, folder, "--on-failure", "restart")
    _check_end(outcome, ran, good, same_bits=fault.strategy in ("allreduce", "central"))
    if ran.struck() and "starting again (1 of " not in ran.errors:
        outcome.problems.append("it was not started again")


def _interrupted(outcome: Outcome, folder: Path, good: Ran) -> None:
    """The job ends; what is left of it is gone on with, on other ranks."""
    fault = outcome.fault
    ran = _first(outcome, folder)
    if not ran.struck():
        return
    if ran.code == 0:
        late = "asked" if fault.kind == "signal" else "killed"
        outcome.skipped = f"it was {late} when it had come to its end"
        return
    codes = {"signal": (143,), "launcher": (-9,)}.get(fault.kind)
    if codes is not None and ran.code not in codes:
        outcome.problems.append(f"exit code {ran.code} instead of {codes[0]}")
    checkpoint, passed_over = newest_whole(ran.run / "checkpoints")
    if passed_over:
        outcome.problems.append(f"damaged checkpoints: {passed_over}")
    if fault.kind == "all":
        # What a rank has begun to write before its last step, or the one before that, is there.
        begun, there = ran.steps_begun(fault.strikes[0].rank), int(checkpoint.name[5:14])
        if there < begun - 2:
            outcome.problems.append(f"the checkpoint is of step {there}, when {begun} had begun")
    ranks = 1 if fault.then_strategy == "single" else fault.then_ranks
    again = train(
        folder / "job",
        *("--resume", "run", "--model", NETWORK, "--ranks", ranks),
        *("--strategy", fault.then_strategy),
    )
    outcome.jobs.append(again)
    _check_end(outcome, again, good)


def _cut_off(outcome: Outcome, folder: Path, good: Ran) -> None:
    fault = outcome.fault
    *how, _, _, _, _ = settings(fault)  # the ranks are those of the hosts
    how += ["--strategy", fault.strategy, "--on-failure", "shrink"]
    try:
        ran = train_on_two_hosts(folder / "job", fault, how)
    except NoHostsError as error:
        outcome.skipped = f"several hosts on one machine: {error}"
        return
    outcome.jobs.append(ran)
    _check_end(outcome, ran, good)
    _check_losses(outcome, ran)


def _full_disk(outcome: Outcome, folder: Path, good: Ran) -> None:
    with _small_disk(folder / "job" / "disk") as refusal:
        if refusal:
            outcome.skipped = refusal
            return
        ran = _first(outcome, folder, "--on-failure", "shrink", "--output", "disk/run")
        moved = re.search(r"cannot be written .*: the run is in (\S+)$", ran.errors, re.M)
        ran.run.symlink_to(moved[1] if moved else "disk/run")
        if moved and ran.code == 1:  # a checkpoint under way had left no room for the rest
            ran = replace(ran, code=0)
        _check_end(outcome, ran, good)
        if "could not be written (No space left on device)" not in ran.errors:
            outcome.problems.append("no word about a full disk")


@contextmanager
def _small_disk(folder: Path) -> Iterator[str]:
    """A file system with little room; why there is none, if so."""
    folder.mkdir(parents=True)
    libc, size = ctypes.CDLL(None, use_errno=True), f"size={_SMALL_DISK}".encode()
    if os.geteuid() != 0:
        yield "a file system of one's own needs root"
        return
    if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, size) != 0:
        yield f"no file system can be mounted: {os.strerror(ctypes.get_errno())}"
        return
    try:
        yield ""
    finally:
        libc.umount2(str(folder).encode(), 2)  # MNT_DETACH


_KINDS: dict[str, Callable[[Outcome, Path, Ran], None]] = {
    "kill": _kill,
    "mpiexec": _interrupted,
    "launcher": _interrupted,
    "all": _interrupted,
    "signal": _interrupted,
    "restart": _restart,
    "stop": _stop,
    "stop and go on": _stop_and_go_on,
    "full disk": _full_disk,
    "cut off": _cut_off,
}
