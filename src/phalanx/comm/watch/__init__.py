"""Nobody hangs: a rank that stands still is named, with the Python stack of every rank.

A thread of each rank looks about once a second whether its process gets on, and whether it is
waiting for others, and writes that where all ranks of its host can read it. The first rank of a
host whose thread still runs judges. The threads never call MPI, but to end a job.

What is not noticed: that every rank of a host is stopped at once, or in C code that keeps Python's
lock; other hosts say then that they wait. What cannot be ended: a process that the kernel itself
does not let die, on a device that is gone. It is named, and mpiexec waits for it.
"""

from phalanx.comm.watch.ending import end_job, kill_rank
from phalanx.comm.watch.report import Stalled
from phalanx.comm.watch.watch import Watch

__all__ = ["Stalled", "Watch", "end_job", "kill_rank"]
