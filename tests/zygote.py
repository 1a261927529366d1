"""Commands in forks of a process that has torch and Phalanx imported: seconds less for each.

Faithful otherwise: a fork has arguments, a folder, an environment and streams of its own, runs the
module as `python -m` does, and ends as the interpreter does, but for taking everything apart, which
takes longer than most commands. MPI is started in forks alone.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

#: What nearly every command imports. Not torch's compiler, which the commands leave out.
_WARM = (
    *("torch", "phalanx.cli.app", "phalanx.train.session", "phalanx.inference.data"),
    *("phalanx.cli.output.progress", "phalanx.cli.output.tables", "PIL.Image", "scipy.io"),
)
#: How variables begin that nothing reads while it is imported.
_READ_LATE = (
    *("PHALANX_", "SLURM_", "OMPI_COMM_WORLD_", "PYTEST_CURRENT_TEST"),
    *("_MLFLOW_", "TORCHINDUCTOR_"),  # what these set when they are imported
)
_MESSAGE = 1 << 20
_SECONDS = 240


class Zygote:
    """The parent of the forks, seen from the tests; started when first needed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self._socket: socket.socket | None = None

    def suits(self, environment: Mapping[str, str]) -> bool:
        """Whether a fork would take note of all that is set differently now."""
        different = set(environment.items()) ^ set(self.environment.items())
        return all(name.startswith(_READ_LATE) for name, _ in different)

    def run(
        self, module: str, arguments: list[str], *, cwd: Path, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """`python -m MODULE ARGUMENTS`, to its end."""
        requests = self._socket or self._start()
        message = json.dumps([module, arguments, str(cwd), dict(env)]).encode()
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            try:
                socket.send_fds(requests, [message], [output.fileno(), errors.fileno()])
                code = int(requests.recv(_MESSAGE))
            except BaseException:
                self.close()  # the next one gets a new one
                raise
            output.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._process.kill()
            self._process.wait()
            self._socket = None

    def _start(self) -> socket.socket:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_SECONDS)
        # Without its own folder in the path of imports: folders of tests have common names.
        command = [sys.executable, "-P", __file__]
        with theirs:
            self._process = subprocess.Popen(command, stdin=theirs.fileno(), env=self.environment)
        return self._socket


def _serve(requests: socket.socket) -> tuple[str, list[str]]:
    """Fork for every request; returns in a fork, with what it is to run."""
    while True:
        message, streams, _, _ = socket.recv_fds(requests, _MESSAGE, 2)
        if not message:
            sys.exit()
        child = os.fork()
        if child == 0:
            module, arguments, folder, environment = json.loads(message)
            _become(streams, folder, environment)
            return module, arguments
        for stream in streams:
            os.close(stream)
        requests.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def _become(streams: list[int], folder: str, environment: dict[str, str]) -> None:
    import numpy as np

    from phalanx.comm.launch.process import die_with_parent

    die_with_parent(signal.SIGTERM)
    for stream, place in zip([os.open(os.devnull, os.O_RDONLY), *streams], range(3), strict=True):
        os.dup2(stream, place)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, folder)
    np.random.seed()


def _run(module: str) -> int:
    """The exit status of a module that is run as a program."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        print(error.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _exit(status: int) -> NoReturn:
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


if __name__ == "__main__":
    for name in _WARM:
        import_module(name)
    assert "mpi4py.MPI" not in sys.modules
    assert "torch._dynamo" not in sys.modules
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as requests:
        module, arguments = _serve(requests)
    sys.argv[1:] = arguments
    _exit(_run(module))
