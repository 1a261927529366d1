"""One worker, as its rank sees it: started without a fork of this process, and ended with it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, final

from torch import Tensor

from phalanx.comm.launch.asking import ASKING
from phalanx.data.loading.jobs import Answer, Failure, Job, Source, as_body, from_body
from phalanx.data.loading.memory import SeenSlots
from phalanx.data.loading.messages import Kind, Message, receive, send
from phalanx.data.loading.packing import unpack
from phalanx.data.transforms import Draw
from phalanx.errors import LoadingError
from phalanx.pulse import pulse

#: How variables begin that tell a process which rank of which job it is: a worker is none.
_OF_A_JOB = ("OMPI_", "PMIX_", "PRTE_", "PMI_", "MV2_COMM_", "PHALANX_RANKS", "SLURM_STEP_")
#: Modules are found where this process finds them, whatever the folder that it is in.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from phalanx.data.loading.worker import main; "
    "main(int(sys.argv[1]), parent=int(sys.argv[2]))"
)
#: Seconds that a worker has to be gone once it does not answer any more, and to end by itself.
_PATIENCE, _GRACE = 5.0, 1.0


@final
class WorkerProcess:
    """Reads what it is asked for, in that order."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _start(theirs.fileno())
        self._line, self._slots = ours, SeenSlots()
        self._asked: dict[int, Future[Any]] = {}
        self._count = 0
        self._closing = False
        self._lost: LoadingError | None = None
        self._guard = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="samples", daemon=True)
        self._reader.start()

    @property
    def waiting(self) -> int:
        """For how many batches it was asked that have not come."""
        return len(self._asked)

    def give(self, source: Source, file: int) -> None:
        """Have it know what to read from."""
        self._send(Message(Kind.SOURCE, as_body(source), file))

    def ask(self, source: int, indices: Tensor, *, draw: Draw) -> "Future[Any]":
        """The batch of these samples, once it is there."""
        slots = self._slots.freed
        freed = [slots.popleft() for _ in range(len(slots))]
        future: Future[Any] = Future()
        with self._guard:
            if self._lost is not None:
                raise self._lost
            self._count += 1
            number = self._count
            self._asked[number] = future
        job = Job(number, source, indices.numpy(), draw, freed)
        self._send(Message(Kind.JOB, as_body(job)))
        return future

    def _send(self, message: Message) -> None:
        try:
            send(self._line, message)
        except OSError:  # it is gone; the other thread finds out how, and tells whoever waits
            self._reader.join(2 * _PATIENCE)

    def _read(self) -> None:
        """In a thread of its own: take what the worker sends until it ends."""
        try:
            while True:
                message = receive(self._line)
                pulse.beats += 1
                if message.kind is not Kind.BEAT:
                    self._take(message)
                del message
        except (EOFError, OSError) as error:
            self._end(error)

    def _take(self, message: Message) -> None:
        answer: Answer | Failure = from_body(message.body)
        future = self._asked.pop(answer.job)
        try:
            buffers = [] if isinstance(answer, Failure) else self._look(answer, message.file)
            value = unpack(answer.text, buffers)
        except Exception as error:
            future.set_exception(error)
            return
        if isinstance(answer, Failure):
            future.set_exception(value)
        else:
            future.set_result(value)

    def _look(self, answer: Answer, file: int | None) -> list[memoryview]:
        try:
            return self._slots.look(answer.put._replace(new=file))
        finally:
            if file is not None:
                os.close(file)

    def _end(self, error: Exception) -> None:
        if not self._closing:
            lost = LoadingError(self._what_became_of_it())
            lost.__cause__ = error
        else:
            lost = LoadingError("the workers that read samples were closed: nobody reads any more")
        with self._guard:
            self._lost = lost
            left = [*self._asked.values()]
            self._asked.clear()
        for future in left:
            future.set_exception(lost)

    def _what_became_of_it(self) -> str:
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            how = "does not answer any more"
        else:
            how = f"ended with code {code}"
            if code < 0:
                how = f"was ended by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += " (by hand, or by the kernel for want of memory)"
        return (
            f"a worker that reads samples for this rank, process {self._process.pid}, {how}: "
            "train on from a checkpoint, with fewer workers or workers=0"
        )

    def begin_to_close(self, *, at_once: bool) -> None:
        """Have it end: when it is done with its batch, or now."""
        self._closing = True
        with suppress(OSError):  # it may be gone already
            self._line.shutdown(socket.SHUT_RDWR)
        if at_once:
            self._process.kill()

    def close(self) -> None:
        """Wait until it is gone."""
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._line.close()


def _start(descriptor: int) -> "subprocess.Popen[bytes]":
    """Start a worker in a session of its own: a Ctrl-C is the rank's, and so are other signals.

    Nothing of Python runs between fork and exec, as MPI's threads are here.
    """
    places = [path or os.getcwd() for path in sys.path]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_OF_A_JOB)
    }
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKING)  # until it ignores them
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, f"{descriptor}", f"{os.getpid()}", *places],
            env=environment | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor],
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
