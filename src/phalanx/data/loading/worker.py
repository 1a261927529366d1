"""A worker: a process that reads samples for one rank, and knows nothing of MPI.

It is started afresh, by `process.py`, and is gone with its rank, whatever ends that.
"""

import os
import signal
import socket
import threading
import traceback
from typing import Any, final

import cloudpickle
import torch

from phalanx.comm.launch.asking import ASKING
from phalanx.comm.launch.process import die_with_parent, keep_freed_memory
from phalanx.data.loading.jobs import Answer, Failure, Job, Source, as_body, from_body
from phalanx.data.loading.memory import Slots, read_apart
from phalanx.data.loading.messages import Kind, Message, receive, send
from phalanx.data.loading.packing import pack, unpack
from phalanx.data.own.collected import read_batch
from phalanx.pulse import pulse

#: Seconds between two signs that a long batch gets on.
_BETWEEN_BEATS = 1.0


def main(descriptor: int, *, parent: int) -> None:
    """Read what is asked for through a socket, until it is closed."""
    for number in ASKING:  # a batch system sends them to every process; the rank sees to it
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKING)
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # it was faster
        return
    torch.set_num_threads(1)
    keep_freed_memory()
    with socket.socket(fileno=descriptor) as line:
        line.set_inheritable(False)
        try:
            _Worker(line).serve()
        except (EOFError, ConnectionError):
            return


@final
class _Worker:
    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._sending = threading.Lock()
        self._sources: dict[int, Any] = {}
        self._failures: dict[int, bytes] = {}
        self._slots = Slots()

    def serve(self) -> None:
        threading.Thread(target=self._beat, daemon=True).start()
        while True:
            message = receive(self._line)
            if message.kind is Kind.SOURCE:
                self._open(from_body(message.body), message.file)
            else:
                self._do(from_body(message.body))

    def _open(self, source: Source, file: int | None) -> None:
        assert file is not None
        try:
            text, *buffers = read_apart(file, source.spans)
            self._sources[source.number] = unpack(text, buffers)
        except Exception as error:  # told to whoever asks for its samples
            error.add_note("The data set could not be made again in a worker (workers=0 needs not)")
            self._failures[source.number] = _for_the_rank(error)
        finally:
            os.close(file)

    def _do(self, job: Job) -> None:
        self._slots.free(job.freed)
        if job.source in self._failures:
            self._fail(job, self._failures[job.source])
            return
        dataset, collate = self._sources[job.source]
        try:
            batch = read_batch(dataset, job.tensor(), draw=job.draw, collate=collate)
            packed = pack(batch)
            put = self._slots.put(packed.buffers)
        except Exception as error:
            self._fail(job, _for_the_rank(error))
            return
        try:
            told = put._replace(new=None)
            self._send(Kind.BATCH, as_body(Answer(job.number, packed.text, told)), put.new)
        finally:
            if put.new is not None:
                os.close(put.new)

    def _fail(self, job: Job, text: bytes) -> None:
        self._send(Kind.ERROR, as_body(Failure(job.number, text)))

    def _send(self, kind: Kind, body: bytes, file: int | None = None) -> None:
        with self._sending:
            send(self._line, Message(kind, body, file))

    def _beat(self) -> None:
        """Say that samples are being read, as long as they are."""
        before, pause = pulse.beats, threading.Event()
        while not pause.wait(_BETWEEN_BEATS):
            if pulse.beats != before:
                before = pulse.beats
                try:
                    self._send(Kind.BEAT, b"")
                except OSError:
                    return


def _for_the_rank(error: Exception) -> bytes:
    """The same error, if it can be sent, with the way that it took here."""
    way = "".join(traceback.format_exception(error)).rstrip()
    note = f"Where it was raised, in worker process {os.getpid()}:\n{way}"
    try:
        error.add_note(note)
        text: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(text)  # not every error can be made again of what it was made of
    except Exception:
        told = RuntimeError(f"{type(error).__name__}: {error}")
        told.add_note(note)
        text = cloudpickle.dumps(told)
    return text
