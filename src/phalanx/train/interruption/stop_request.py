"""A training that is asked to stop: on any rank, at any moment; all stop after the same step."""

from collections.abc import Callable
from typing import final

import numpy as np

from phalanx.comm.base import Communicator
from phalanx.train.interruption.looks import Looks

#: What a rank is asked by whether to stop: 0 to go on, anything else is why, such as a signal's
#: number. It must not take long, nor call MPI.
Asked = Callable[[], int]
#: How often ranks tell each other. mpiexec may leave them less than half a second.
_SECONDS_BETWEEN_LOOKS = 0.2


@final
class StopRequest:
    """What one call of `fit` knows of it."""

    def __init__(self, asked: Asked | None) -> None:
        self._asked = asked
        self._looks = Looks(_SECONDS_BETWEEN_LOOKS)
        #: Why the training stops, the same on all ranks; 0 if it goes on.
        self.why = 0

    def after_step(self, comm: Communicator, step: int) -> bool:
        """Collective, in the steps in which ranks look. Whether to stop after this step."""
        if self._asked is None or not (comm.size == 1 or self._looks.is_due(step)):
            return False
        return self._look(comm, self._asked, step)

    def at_the_end(self, comm: Communicator, step: int) -> bool:
        """Collective. The same where the training is over anyway, whatever it has come to."""
        return self._asked is not None and (self.why != 0 or self._look(comm, self._asked, step))

    def _look(self, comm: Communicator, asked: Asked, step: int) -> bool:
        if comm.size == 1:
            self.why = int(asked())
            return self.why != 0
        ahead = self._looks.until_next(step) if comm.rank == 0 else 0
        told = np.array([int(asked()), ahead], dtype=np.int64)
        comm.allreduce(told, "maximum")
        self.why, ahead = told.tolist()
        self._looks.agreed(step, ahead)
        return self.why != 0
