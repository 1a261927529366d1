"""Cores and threads: what there is, what may be used of it, and who else uses it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from phalanx.comm.launch.process import available_cores
from phalanx.observe.doctor.asking import ask, python
from phalanx.observe.doctor.finding import Finding, Group, fine, odd
from phalanx.observe.doctor.scope import Scope
from phalanx.wording import counted

#: What a container may use: `max 100000`, or microseconds of every so many.
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_THREADS = "OMP_NUM_THREADS"
_MULTIPLY = """
import torch
ones = torch.ones(64, 64, dtype=torch.bfloat16)
assert torch.nn.functional.linear(ones, ones).eq(64).all()
"""


def cores(_scope: Scope) -> Iterator[Finding]:
    """The cores that this process may run on."""
    physical, logical = available_cores(), len(os.sched_getaffinity(0))
    facts = {"cores": physical, "logical": logical, "machine": os.cpu_count()}
    said = counted(physical, "core")
    if logical > physical:
        said += f", {logical} with hyper-threads, which are not counted"
    if (os.cpu_count() or 0) > logical:
        said += f"; the machine has {os.cpu_count()} (this process is bound, or in a job)"
    quota = _quota()
    if quota is not None and quota < logical:
        why = f"{said}, but only as much time as {quota:g} of them have (a container's limit)"
        yield odd("cores", why, f"take at most {max(1, int(quota))} ranks × threads", **facts)
        return
    yield fine("cores", said, **facts)


def threads(_scope: Scope) -> Iterator[Finding]:
    """What the environment says about threads; the ranks themselves tell what they take."""
    given, cores = os.environ.get(_THREADS), available_cores()
    if given is None:
        yield fine("threads", "a rank takes its share of the cores")
    elif not given.isdecimal() or int(given) < 1:
        why = f"{_THREADS}={given} is no number of threads"
        yield odd("threads", why, f"unset it (`unset {_THREADS}`), or say --threads")
    elif int(given) > cores:
        why = f"{_THREADS}={given}, and there are {counted(cores, 'core')}: every rank obeys it"
        yield odd("threads", why, f"unset it (`unset {_THREADS}`), or say --threads")
    else:
        yield fine("threads", f"{given} a rank, as {_THREADS} says", threads=int(given))


def load(_scope: Scope) -> Iterator[Finding]:
    """Whether others compute here."""
    average, logical = os.getloadavg()[0], len(os.sched_getaffinity(0))
    said = f"{average:.1f} processes wanted to run in the last minute"
    if average > 0.5 + logical:
        why = f"{said}, on {counted(logical, 'core')}"
        yield odd("load", why, "times of a training say little while others compute", load=average)
    else:
        yield fine("load", said, load=average)


def bfloat16(scope: Scope) -> Iterator[Finding]:
    """Whether torch multiplies in 16 bits: some virtual machines announce AMX, and trap on it."""
    answer = ask(python("-c", _MULTIPLY), seconds=scope.seconds)
    if answer.code == 0:
        yield fine("bfloat16", "torch multiplies matrices in it")
    elif answer.code == -signal.SIGILL:
        why = "torch takes instructions that this processor announces and does not carry out"
        yield odd("bfloat16", f"{why} ({answer.why})", "set ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16")
    else:
        yield odd("bfloat16", f"torch fails to multiply in it: {answer.why}", "compute in float32")


def _quota() -> float | None:
    """How many cores' time a control group allows; None without a limit, or without such groups."""
    try:
        allowed, period = _QUOTA.read_text().split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        return None


GROUP = Group("Processor", (cores, threads, load, bfloat16))
