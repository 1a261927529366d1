"""What `hvd.init()` sets up and `hvd.shutdown()` takes down: the ranks, and their engines."""

import atexit
import sys
from collections.abc import Sequence
from typing import final

from phalanx.comm.base import Communicator
from phalanx.comm.checked import unchecked
from phalanx.comm.launch import roll_call
from phalanx.comm.launch.failure import leave_job_on_uncaught_errors
from phalanx.comm.launch.fault_tolerance import can_survive
from phalanx.comm.progress import takes_threads
from phalanx.comm.recovery.survivors import leave_now
from phalanx.comm.script import world
from phalanx.errors import MismatchError, RankLostError, UsageError
from phalanx.horovod.engine.engine import Engine
from phalanx.horovod.engine.losses import as_loss, ignoring_losses
from phalanx.horovod.engine.settings import Settings, read_settings
from phalanx.horovod.engine.timeline import Timeline


@final
class Context:
    """The ranks between `init` and `shutdown`."""

    def __init__(self, comm: Communicator, settings: Settings) -> None:
        """Collective."""
        #: For what all ranks do in the same order.
        self.control = comm
        self.settings = settings
        self.timeline = Timeline()
        host = comm.host()
        self.local_rank, self.local_size = host.rank, host.size
        # The same place on every host; hosts in the order of their first ranks.
        cross = comm.split(host.rank, comm.rank)
        self.cross_rank, self.cross_size = cross.rank, cross.size
        self.is_homogeneous = len(set(comm.allgather_objects(host.size))) == 1
        host.free()
        cross.free()
        self.threads = takes_threads(comm)
        self.engines: dict[int, Engine] = {}
        self._next_id = 0
        if comm.rank == 0 and settings.timeline:
            self.timeline.start(settings.timeline, mark_cycles=settings.mark_cycles)
        self.add(range(comm.size))

    def add(self, ranks: Sequence[int]) -> int:
        """Collective. Open an engine for these ranks; its number, the same on all ranks."""
        members = sorted(set(ranks))
        self._agree("process set", members)
        inside = self.control.rank in members
        comm = self.control.split(0 if inside else 1, self.control.rank)
        if inside:
            self.engines[self._next_id] = Engine(
                comm, members=members, settings=self.settings, timeline=self.timeline
            )
        else:
            comm.free()
        self._next_id += 1
        return self._next_id - 1

    def remove(self, number: int) -> None:
        """Collective. Close an engine."""
        self._agree("process set to remove", number)
        engine = self.engines.pop(number, None)
        if engine is not None:
            engine.announce_close()
            engine.close()

    def close(self) -> None:
        """Collective. Close all engines, and wait for all ranks."""
        for engine in self.engines.values():  # all at once: who waits in one must hear of it
            engine.announce_close()
        for number in sorted(self.engines, reverse=True):
            self.engines[number].close()
            del self.engines[number]
        self.timeline.stop()
        with ignoring_losses():
            self.control.free()

    def abandon(self) -> None:
        """Ranks are lost: let go of everything without the others' help; they come to this, too."""
        from phalanx.comm.mpi import revoke_all

        revoke_all()  # first: threads that wait inside MPI come out of it
        for engine in self.engines.values():
            engine.abandon()
        self.engines.clear()
        self.timeline.stop()

    def _agree(self, what: str, value: object) -> None:
        values = self.control.allgather_objects(value)
        for rank, other in enumerate(values):
            if other != values[0]:
                raise MismatchError(f"{what}: rank {rank} gave {other}, rank 0 {values[0]}")


_context: Context | None = None


def current() -> Context:
    """The context between `init` and `shutdown`."""
    if _context is None:
        raise UsageError("Horovod has not been initialised: call hvd.init() first")
    return _context


def is_open() -> bool:
    """Whether `init` has been called, and `shutdown` not since."""
    return _context is not None


def open_context(comm: object = None) -> Context:
    """Collective. Set up for the ranks of `comm`, by default all of the job."""
    global _context
    if _context is None:
        settings = read_settings()
        if can_survive():
            roll_call.arrive()
        plain = unchecked(_communicator(comm))
        if can_survive():
            roll_call.begin(plain.size)
            if plain.size > 1:
                leave_job_on_uncaught_errors(is_last=lambda: world().size == 1)
        _context = Context(plain.split(0, plain.rank), settings)
    return _context


def close_context() -> None:
    """Collective. Take everything down, if it was set up."""
    global _context
    if _context is not None:
        closing, _context = _context, None
        try:
            closing.close()
        except Exception as error:
            lost = as_loss(error)
            if lost is None:
                raise
            closing.abandon()
            raise lost from error


def abandon_context() -> None:
    """Ranks are lost: let go of everything that was set up, without the others' help."""
    global _context
    if _context is not None:
        abandoned, _context = _context, None
        abandoned.abandon()


def _communicator(comm: object) -> Communicator:
    if comm is None:
        return world()
    if isinstance(comm, Communicator):
        return comm
    if isinstance(comm, Sequence):
        return _some_ranks(comm)
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(comm, mpi.Comm):
        from phalanx.comm.mpi import MPICommunicator

        world()  # an uncaught error on one rank ends them all
        return MPICommunicator(comm)
    raise UsageError(
        f"init: comm must be a list of ranks or a communicator, not {type(comm).__name__}"
    )


def _some_ranks(ranks: Sequence[int]) -> Communicator:
    """Collective over all ranks of the job, and each must be in one list."""
    everyone = world()
    if not ranks:
        return everyone
    if everyone.rank not in ranks:
        raise UsageError(f"init: rank {everyone.rank} is not in its own list {list(ranks)}")
    return everyone.split(min(ranks), list(ranks).index(everyone.rank))


@atexit.register
def _close_at_exit() -> None:
    """A program's end is a shutdown; after an error the job ends anyway, and nobody would come."""
    if getattr(sys, "last_value", None) is not None:
        return
    lost = False
    try:
        close_context()
    except RankLostError:  # after all that was to be done here: the launcher knows who has not
        lost = True
    roll_call.end()
    if lost:
        leave_now()
