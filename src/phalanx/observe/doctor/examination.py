"""Go through all checks: each by itself, for a limited time, whatever becomes of the others."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence

from phalanx.errors import PhalanxError
from phalanx.observe.doctor import (
    devices,
    gpus,
    hosts,
    memory,
    mpi,
    processor,
    ranks,
    slurm,
    software,
)
from phalanx.observe.doctor.finding import Check, Finding, Group, broken
from phalanx.observe.doctor.scope import Scope

GROUPS: tuple[Group, ...] = (
    software.GROUP,
    mpi.GROUP,
    processor.GROUP,
    memory.GROUP,
    gpus.GROUP,
    slurm.GROUP,
    ranks.GROUP,
    hosts.GROUP,
)
#: What is looked at with `--devices`.
OF_DEVICES: tuple[Group, ...] = (software.GROUP, gpus.GROUP, devices.GROUP)
#: Programs that a check asks are ended by itself, in order; this much later it is given up.
_MORE_SECONDS = 20.0


def examine(scope: Scope, groups: Sequence[Group] = GROUPS) -> Iterator[tuple[str, Finding]]:
    """All findings, as they come, with the titles of their groups."""
    for group in groups:
        for check in group.checks:
            for finding in findings_of(check, scope):
                yield group.title, finding


def findings_of(check: Check, scope: Scope) -> Iterator[Finding]:
    """What a check finds; one more finding if it fails, or takes too long.

    It goes on in a thread of its own then, which ends with this process.
    """
    name = check.__name__.replace("_", " ")
    found: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()
    deadline = time.monotonic() + scope.seconds + _MORE_SECONDS
    try:
        threading.Thread(target=_carry_out, args=(check, scope, found), daemon=True).start()
        while (one := found.get(timeout=max(0.0, deadline - time.monotonic()))) is not None:
            yield one
    except queue.Empty:
        yield broken(name, "no answer in time", "whatever it looked at does not respond")
    except RuntimeError as error:  # no thread can be started
        yield broken(name, str(error), "allow more processes (`ulimit -u`)")


def _carry_out(check: Check, scope: Scope, found: "queue.SimpleQueue[Finding | None]") -> None:
    name = check.__name__.replace("_", " ")
    try:
        for one in check(scope):
            found.put(one)
    except (PhalanxError, OSError) as error:
        found.put(broken(name, str(error), "see what it says"))
    except Exception as error:
        said = f"the check itself failed: {type(error).__name__}: {error}"
        found.put(broken(name, said, "a fault of Phalanx's own: please report it"))
    found.put(None)
