"""Bytes of memory a parameter, over all ranks of a host, for training with Adam.

Run on every rank: `python -m benchmarks.memory STRATEGY`, or `ddp` under torchrun. The model has
many small layers, so that what a backward pass needs in passing hardly counts. What the process
used before there was a model is taken off.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from phalanx.comm.launch.process import memory_share, release_freed_memory

_WIDTH, _LAYERS, _STEPS = 512, 160, 3


def make_model() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Linear(_WIDTH, _WIDTH) for _ in range(_LAYERS)]
    return nn.Sequential(*layers)


def warm_up() -> None:
    """Have torch set up whatever it sets up on first use."""
    layer = nn.Linear(_WIDTH, _WIDTH)
    F.cross_entropy(layer(torch.zeros(4, _WIDTH)), torch.zeros(4, dtype=torch.int64)).backward()  # type: ignore[no-untyped-call]
    Adam(layer.parameters(), fused=True).step()


def train_with_phalanx(strategy: str) -> tuple[int, int, float]:
    from phalanx.comm import world
    from phalanx.data.split import Split
    from phalanx.train.trainer import Trainer

    comm = world()
    before = measured()
    comm.barrier()
    model = make_model()
    count = sum(parameter.numel() for parameter in model.parameters())
    samples = Split(torch.zeros(8, _WIDTH), torch.zeros(8, dtype=torch.int64))
    trainer = Trainer(
        model, Adam(model.parameters(), lr=0.0, fused=True), strategy=strategy, comm=comm
    )
    trainer.fit(samples, epochs=_STEPS, batch_size=8)
    comm.barrier()
    used = sum(comm.allgather_objects(measured() - before))
    return comm.rank, comm.size, used / count


def train_with_ddp() -> tuple[int, int, float]:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")
    before = measured()
    dist.barrier()
    model = make_model()
    count = sum(parameter.numel() for parameter in model.parameters())
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = Adam(model.parameters(), lr=0.0, fused=True)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        outputs: Tensor = parallel(torch.zeros(4, _WIDTH))
        F.cross_entropy(outputs, torch.zeros(4, dtype=torch.int64)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    dist.barrier()
    used = torch.tensor(measured() - before)
    dist.all_reduce(used)
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()  # one that leaves while another still talks to it makes gloo fail
    dist.destroy_process_group()
    return rank, size, int(used) / count


def measured() -> int:
    """The bytes in use now, without what has been freed."""
    release_freed_memory()
    return memory_share()


def main() -> None:
    torch.set_num_threads(1)
    warm_up()
    method = sys.argv[1]
    trained = train_with_ddp() if method == "ddp" else train_with_phalanx(method)
    rank, ranks, per_parameter = trained
    if rank == 0:
        line = {"method": method, "ranks": ranks, "bytes_per_parameter": round(per_parameter, 2)}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
