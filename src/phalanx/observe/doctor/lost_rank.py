"""The program of two ranks of which the second is killed; the first tells how many it is then."""

import json
import os
import signal

from phalanx.comm import world
from phalanx.comm.launch import roll_call
from phalanx.comm.recovery.survivors import noticing_losses, shrink
from phalanx.errors import RankLostError


def main() -> None:
    """Lose a rank, and go on without it."""
    roll_call.arrive()
    comm = world()
    roll_call.begin(comm.size)
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with noticing_losses():
            comm.barrier()
            comm.barrier()
    except RankLostError:
        left = shrink().comm
        roll_call.begin(left.size)
        print(json.dumps({"survivors": left.size}), flush=True)
    roll_call.end()


if __name__ == "__main__":
    main()
