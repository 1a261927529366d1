"""A rank that stands still is killed, and MPI tells the others of it: the job may go on."""

import re
import subprocess
import sys

import pytest

from phalanx.comm.launch.mpiexec import mpiexec_command
from tests.commands import PATIENCE

PROGRAM = """
import os, signal
from mpi4py import MPI
from phalanx.comm.mpi import open_world
from phalanx.comm.watch import Watch, kill_rank

comm = open_world()
comm._mpi.Set_errhandler(MPI.ERRORS_RETURN)
with Watch(4.0, on_stall=kill_rank) as watch:
    watch.start(comm)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        comm.barrier()
    except MPI.Exception as error:
        print("told:", error.Get_error_class() == MPI.ERR_PROC_FAILED, flush=True)
os._exit(0)
"""


@pytest.mark.long
def test_the_others_are_told() -> None:
    (mpiexec, *rest), environment = mpiexec_command(2, bind=False)
    run = [mpiexec, "--with-ft", "ulfm", *rest, sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        run, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == "told: True\n"
    assert re.search(r"rank 1 .* its process is stopped, ", done.stderr)
    assert "rank 1: killed, for the others to go on\n" in done.stderr
