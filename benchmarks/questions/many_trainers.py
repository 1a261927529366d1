"""Trainers made, used and closed one after the other: does anything run out?

    phalanx run -n 2 python -m benchmarks.questions.many_trainers --seconds 300

Every Trainer takes one step on a tiny model, with each strategy in turn. The table shows what this
process uses after so many of them: memory, descriptors, threads. A communicator that was not freed
would end it after 65,351, with MPI_ERR_INTERN.
"""

import os
import time
from argparse import ArgumentParser
from pathlib import Path

import torch
from torch import nn
from torch.optim import Adam

from phalanx import Split, Trainer, world

STRATEGIES = ("central", "allreduce", "server", "gather", "async", "local", "pipeline", "tensor")


def make_and_close(strategy: str, split: Split) -> None:
    """Collective. One Trainer's life."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = Adam(model.parameters())
    with Trainer(model, optimizer, strategy=strategy, comm=world()) as trainer:
        trainer.fit(split, epochs=1, batch_size=8, steps=1)


def usage() -> dict[str, float]:
    """What this process has: MiB of memory, open descriptors, threads."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory": pages * os.sysconf("SC_PAGE_SIZE") / 2**20,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    arguments = parser.parse_args()
    names = arguments.strategies.split(",")
    torch.set_num_threads(1)
    comm = world()
    split = Split(torch.randn(8, 4), torch.arange(8) % 3)
    started, shown, made = time.perf_counter(), 0.0, 0
    go_on = True
    while go_on and made < arguments.most:
        for name in names:
            make_and_close(name, split)
            made += 1
        passed = time.perf_counter() - started
        go_on = comm.broadcast_object(passed < arguments.seconds)
        if comm.rank == 0 and (passed > shown or not go_on or made >= arguments.most):
            shown += arguments.seconds / 20
            found = usage()
            print(
                f"{made:7,} trainers  {passed:6.1f} s  {found['memory']:7.1f} MiB  "
                f"{found['descriptors']} descriptors  {found['threads']} threads",
                flush=True,
            )


if __name__ == "__main__":
    main()
