"""`horovod.run`: a function on many ranks, and what it returns on each.

It goes there as by `phalanx.launch`, with the flags of `horovodrun`; to other hosts, where that
cannot be, through a folder that all ranks see.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phalanx.comm.calls.caller import CallEnd, call_on_ranks
from phalanx.comm.calls.environment import launcher_command, rank_environment
from phalanx.comm.calls.pickled import loads, pack_call
from phalanx.comm.launch.job import current_job
from phalanx.errors import UsageError
from phalanx.horovod.engine.exceptions import HorovodInternalError

__all__ = ["run"]

#: Arguments that are flags of `phalanx run`, which takes them or says why not.
_FLAGS = {
    "hosts": "--hosts", "hostfile": "--hostfile", "ssh_port": "--ssh-port",
    "ssh_identity_file": "--ssh-identity-file", "network_interface": "--network-interface",
    "start_timeout": "--start-timeout", "output_filename": "--output-filename",
    "mpi_args": "--mpi-args", "min_num_proc": "--min-np", "min_np": "--min-np",
    "max_num_proc": "--max-np", "max_np": "--max-np", "slots": "--slots-per-host",
    "reset_limit": "--reset-limit", "elastic_timeout": "--elastic-timeout",
    "cooldown_range": "--blacklist-cooldown-range",
}  # fmt: skip
_SWITCHES = {
    "use_gloo": "--gloo", "use_mpi": "--mpi", "verbose": "--verbose",
    "disable_cache": "--disable-cache",
}  # fmt: skip


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    *,
    np: int | None = None,
    executable: str | None = None,
    **options: Any,
) -> list[Any]:
    """Call a function on `num_proc` (or `np`) ranks; what it returned on each, in their order.

    It goes there by cloudpickle, and its results come back the same way; on `hosts`, through a
    folder in this one, which the hosts must share. The other options are those of `horovodrun`;
    with `min_np` a rank that is lost returns nothing.
    """
    ranks = num_proc if np is None or num_proc != 1 else np
    flags = _flags(options)
    job = current_job()
    if job is not None and job.size > 1:
        raise UsageError(
            f"horovod.run starts ranks of its own, and this is one of {job.size} already: start "
            "the script with `phalanx run --horovod -n 1`, or call the function itself"
        )
    call = pack_call(func, args, kwargs or {})
    python = executable or sys.executable
    if "--hosts" in flags or "--hostfile" in flags:
        return _through_a_folder(call, flags, ranks=ranks, python=python)
    end = _called(call, flags, ranks=ranks, program=[python, "-m", "phalanx.comm.calls.rank"])
    # With min_np there may be fewer results than ranks were started.
    return [loads(end.results[rank]) for rank in sorted(end.results)]


def _through_a_folder(call: bytes, flags: list[str], *, ranks: int, python: str) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix=".horovod-run-", dir=Path.cwd()) as folder:
        Path(folder, "call").write_bytes(call)
        rank = [python, "-m", "phalanx.horovod.runner.rank", folder]
        _called(b"", flags, ranks=ranks, program=rank)
        results = [Path(folder, str(rank)) for rank in range(ranks)]
        return [loads(one.read_bytes()) for one in results if one.exists()]


def _called(call: bytes, flags: list[str], *, ranks: int, program: list[str]) -> CallEnd:
    command = launcher_command(ranks, flags, program=program)
    end = call_on_ranks(call, command, ranks=ranks, environment=rank_environment(), shows=False)
    if end.code:
        raise HorovodInternalError(
            f"horovod.run: the job ended with exit code {end.code}; what it said is above"
        )
    return end


def _flags(options: Mapping[str, Any]) -> list[str]:
    """What `phalanx run` has to be told; an option that is None was not given."""
    flags: list[str] = []
    for name, value in options.items():
        if name not in _FLAGS and name not in _SWITCHES:
            known = ", ".join([*_FLAGS, *_SWITCHES])
            raise UsageError(f"horovod.run has no option {name}; it has {known}")
        if name in _SWITCHES and value:
            flags.append(_SWITCHES[name])
        elif name in _FLAGS and value is not None:
            values = value if isinstance(value, tuple | list) else [value]
            flags += [_FLAGS[name], *map(str, values)]
    return flags
