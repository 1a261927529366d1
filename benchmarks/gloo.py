"""How a process that has used gloo ends: its threads now and then abort one that cleans up."""

import os
import sys
import time

import torch.distributed as dist


def end_without_teardown() -> None:
    """Collective. Leave at once, when all ranks are done and everything is printed."""
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    time.sleep(0.5)  # until the others have left the barrier, too
    os._exit(0)
