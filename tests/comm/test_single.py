"""The communicator of one rank."""

from pathlib import Path

from tests.commands import environment
from tests.zygote import Zygote

PROGRAM = """
import sys
import torch
from phalanx.comm.single import SingleCommunicator

SingleCommunicator().allreduce(torch.ones(2))
SingleCommunicator().split(0).barrier()
print([name for name in sys.modules if name.startswith("mpi4py")])
"""


def test_single_never_loads_mpi(zygote: Zygote, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = zygote.run("program", [], cwd=tmp_path, env=environment())
    assert (done.stdout, done.stderr) == ("[]\n", "")
