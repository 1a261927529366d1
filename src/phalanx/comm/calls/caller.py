"""The caller's side of a function that is called on ranks: from the start to the last process."""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from types import FrameType
from typing import final

from phalanx.comm.calls.answers import Failure, read_answer
from phalanx.comm.calls.pipes import CallerPipes, read_some
from phalanx.comm.calls.relay import Relay
from phalanx.comm.launch.child import start_child
from phalanx.comm.launch.signal_reader import handle, handle_again

#: Seconds between two looks at what cannot be waited for: signals, the end of a process.
_INTERVAL = 0.1
#: Seconds that a launcher gets to end its ranks at once, which takes it less than five.
_PATIENCE = 15.0
#: Seconds to read what is left in pipes that nobody should have open any more.
_REST = 2.0
#: How many of the last bytes of what was said are kept.
_KEPT = 4000
#: What mpiexec says of a rank that has sent its failure.
_REPEATED = re.compile(rb"rank \d+ exited with code \d+; the job has been stopped\n")


@final
@dataclass
class CallEnd:
    """What has become of a call."""

    #: The launcher's exit code.
    code: int = 0
    #: What came back, by rank, still packed.
    results: dict[int, memoryview] = field(default_factory=dict)
    #: The first rank that failed, if it could tell of it, and why.
    failure: tuple[int, Failure] | None = None
    #: The end of what ranks and launcher wrote to standard error.
    said: str = ""
    is_late: bool = False
    #: Whether an interrupt came before the last result.
    is_interrupted: bool = False


def call_on_ranks(
    call: bytes,
    launcher: Sequence[str],
    *,
    ranks: int,
    environment: Mapping[str, str],
    shows: bool,
    timeout: float | None = None,
) -> CallEnd:
    """Have a launcher start ranks that read this call, and see it to its end.

    With `shows`, what they print comes past mpiexec. An interrupt (Ctrl-C, a stopped cell) goes to
    the launcher, which ends the ranks, or has them end in order if they can; a second one ends them
    at once. Whatever happens, no process is left when this returns or raises.
    """
    pipes = CallerPipes(call, ranks=ranks, shows=shows)
    try:
        with _interrupts_counted() as interrupts:
            conversation = _Conversation(pipes, ranks=ranks, interrupts=interrupts)
            end = conversation.hold(launcher, {**environment, **pipes.variables()}, timeout)
    finally:
        pipes.close()
    has_stopped_in_order = end.is_interrupted and end.code == 0 and len(end.results) == ranks
    if interrupts() and not has_stopped_in_order:
        signal.raise_signal(signal.SIGINT)  # as it would have been: mostly a KeyboardInterrupt
    return end


@contextmanager
def _interrupts_counted() -> Iterator[Callable[[], int]]:
    """While inside, an interrupt raises nothing, wherever this process is; how many there were."""
    received: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    is_main = threading.current_thread() is threading.main_thread()
    is_heard = is_main and signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
    before = handle([signal.SIGINT], receive) if is_heard else {}
    try:
        yield lambda: len(received)
    finally:
        handle_again(before)


@final
class _Conversation:
    """Feeds the ranks, hears them, shows what they print, and passes interrupts on."""

    def __init__(self, pipes: CallerPipes, *, ranks: int, interrupts: Callable[[], int]) -> None:
        self._pipes, self._ranks, self._interrupts = pipes, ranks, interrupts
        self._passed_on = 0
        self._output, self._errors = Relay("stdout"), Relay("stderr")
        self._said = b""
        self._end = CallEnd()

    def hold(
        self, launcher: Sequence[str], environment: Mapping[str, str], timeout: float | None
    ) -> CallEnd:
        """From the first process to the last."""
        output, errors = self._pipes.output.writing, self._pipes.errors.writing
        process = start_child(launcher, stdout=output, stderr=errors, env=environment)
        try:
            self._end.is_late = not self._go_on(process, timeout)
        finally:
            self._stop(process)
        self._end.code = process.returncode
        self._end.said = self._said.decode(errors="replace")
        return self._end

    def _go_on(self, process: "subprocess.Popen[bytes]", seconds: float | None) -> bool:
        """Until the launcher has ended; whether it has, within so many seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        with DefaultSelector() as selector:
            for pipe in (self._pipes.answers, self._pipes.output, self._pipes.errors):
                selector.register(pipe.reading, EVENT_READ)
            sends = self._pipes.send()
            if sends:
                selector.register(self._pipes.call.writing, EVENT_WRITE)
            while process.poll() is None:
                if deadline is not None and time.monotonic() > deadline:
                    return False
                self._pass_on_interrupts(process)
                selector.select(_INTERVAL)
                if sends and not self._pipes.send():
                    sends = False
                    selector.unregister(self._pipes.call.writing)
                self._listen()
        return True

    def _pass_on_interrupts(self, process: "subprocess.Popen[bytes]") -> None:
        while self._passed_on < self._interrupts():
            self._passed_on += 1
            self._end.is_interrupted = len(self._end.results) < self._ranks
            process.send_signal(signal.SIGINT)

    def _listen(self) -> bool:
        """Take what there is to hear; whether there was anything."""
        answers = read_some(self._pipes.answers.reading)
        for rank, content in self._pipes.receive(answers):
            answer = read_answer(content)
            if isinstance(answer, memoryview):
                self._end.results[rank] = answer
            elif self._end.failure is None:
                self._end.failure = (rank, answer)
        printed, said = (
            read_some(pipe.reading) for pipe in (self._pipes.output, self._pipes.errors)
        )
        self._output.feed(printed)
        self._errors.feed(_REPEATED.sub(b"", said) if self._end.failure else said)
        self._said = (self._said + said)[-_KEPT:]
        return bool(answers or printed or said)

    def _stop(self, process: "subprocess.Popen[bytes]") -> None:
        """No process is left after this; all that they have said is heard."""
        if process.poll() is None:
            # Two signals, and no two of a kind, which could be taken for one: it ends at once.
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            if not self._go_on(process, _PATIENCE):
                process.kill()  # mpiexec ends with it, and the ranks with mpiexec
                process.wait()
        deadline = time.monotonic() + _REST
        while self._listen() and time.monotonic() < deadline:
            pass
        self._output.finish()
        self._errors.finish()
