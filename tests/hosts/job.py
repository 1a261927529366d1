"""What every rank of a job on several hosts runs: all checks, one after the other.

Rank 0 prints as JSON what each rank found; the tests judge it.
"""

import faulthandler
import json
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from phalanx import data, models
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.hosts import arrange
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.exchange.compressions import COMPRESSIONS
from phalanx.runs.weights import weights_digest
from phalanx.state import State
from phalanx.strategies.base import Strategy, Task
from phalanx.strategies.central import Central
from phalanx.strategies.local.strategy import Local
from phalanx.strategies.registry import make
from phalanx.train.losses import make_loss
from phalanx.train.trainer import Trainer

RESULTS = "results: "
_STALL = 200  # seconds after which ranks that wait for each other say where

_OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": partial(SGD, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": partial(Adam, lr=0.001),
}


def main() -> None:
    faulthandler.dump_traceback_later(_STALL, exit=True)
    torch.set_num_threads(1)
    comm = world()
    found = {name: comm.allgather_objects(check(comm)) for name, check in CHECKS.items()}
    if comm.rank == 0:
        print(RESULTS + json.dumps(found), flush=True)


def place(comm: Communicator) -> dict[str, Any]:
    """How this rank sees the job: ranks are named by their number in `comm`."""
    hosts = arrange(comm)
    return {
        "name": socket.gethostname(),
        "host": hosts.host.allgather_objects(comm.rank),
        "everyone": hosts.everyone.allgather_objects(comm.rank),
        "columns": hosts.columns,
        "has_peers": hosts.has_peers,
        "peers": hosts.peers.allgather_objects(comm.rank),
    }


def place_backwards(comm: Communicator) -> dict[str, Any]:
    """The same in a communicator that counts its ranks from the other end."""
    return place(comm.split(0, key=-comm.rank))


def simplecnn() -> nn.Module:
    return models.build("simplecnn", input_shape=(1, 8, 8), classes=10)


def noisy() -> nn.Module:
    """ShardedBuffers and randomness: what depends on the cut of a batch."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(6 * 64, 10),
    )


def train(
    comm: Communicator,
    strategy: str | Strategy,
    *,
    build: Callable[[], nn.Module] = simplecnn,
    optimizer: str = "sgd",
    **options: Any,
) -> nn.Module:
    """A model after an epoch of 67 samples in batches of 13, the last with fewer than 4."""
    torch.manual_seed(11)
    model = build()
    trainer = Trainer(
        model,
        _OPTIMIZERS[optimizer](model.parameters()),
        strategy=strategy,
        comm=comm,
        seed=5,
        **options,
    )
    split = data.load("digits").train.subset(torch.arange(67))
    trainer.fit(split, epochs=1, batch_size=13)
    trainer.sync()
    return model


class Branching(nn.Module):
    """Marked samples go through a layer of their own; one layer is never used at all."""

    def __init__(self) -> None:
        super().__init__()
        self.common = nn.Linear(64, 10)
        self.special = nn.Linear(64, 10)
        self.unused = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        outputs: Tensor = self.common(flat)
        marked = flat[:, 0] > 0
        if marked.any():
            added = torch.zeros_like(outputs)
            added[marked] = self.special(flat[marked])
            outputs = outputs + added
        return outputs


def train_branching(comm: Communicator, strategy: str, *, shards: int | None = None) -> nn.Module:
    """Batches whose marked samples are all in the first part, in the last, in none, and again."""
    torch.manual_seed(12)
    model = Branching()
    split = data.load("digits").train.subset(torch.arange(12))
    optimizer = _OPTIMIZERS["sgd"](model.parameters())  # with decay, which moves any weight
    task = Task(model, optimizer, make_loss("cross-entropy"), shards=shards)
    worker = make(strategy).bind(comm, task)
    for marked in (0, 11, None, 11, 0):
        inputs = split.inputs.clone()
        inputs[:, 0, 0, 0] = 0
        if marked is not None:
            inputs[marked, 0, 0, 0] = 1
        worker.step(Batch(Split(inputs, split.targets, split.scale), torch.arange(12)))
    worker.sync()
    return model


def distance(
    comm: Communicator,
    training: Callable[..., nn.Module],
    strategy: str | Strategy = "central",
) -> tuple[float, str]:
    """The largest difference between a strategy on all ranks and `single` on one; the weights."""
    model = training(comm, strategy)
    parallel, alone = model.state_dict(), training(SingleCommunicator(), "single").state_dict()
    largest = max(float((parallel[name] - alone[name]).abs().max()) for name in alone)
    return largest, weights_digest(model)


def digests(
    comm: Communicator, training: Callable[..., nn.Module], strategy: str = "central"
) -> list[str]:
    """The weights that a strategy gives on all ranks, and `single` on one."""
    parallel = training(comm, strategy)
    return [weights_digest(parallel), weights_digest(training(SingleCommunicator(), "single"))]


def resume(comm: Communicator, strategy: Strategy) -> list[str]:
    """The weights after four steps, and after two, a state, and two more of somebody else."""
    split = data.load("digits").train.subset(torch.arange(67))

    def fit(state: State | None, steps: int) -> tuple[State, str]:
        torch.manual_seed(11)
        model = simplecnn()
        optimizer = _OPTIMIZERS["sgd"](model.parameters())
        with Trainer(model, optimizer, strategy=strategy, comm=comm, seed=5) as trainer:
            if state is not None:
                trainer.load(state)
            trainer.fit(split, epochs=1, batch_size=13, steps=steps)
            trainer.sync()
            return trainer.state(), weights_digest(model)

    halfway, _ = fit(None, 2)
    return [fit(None, 4)[1], fit(halfway, 2)[1]]


def refusal(comm: Communicator) -> str:
    """What `central` says to compression where all ranks are on one host."""
    host = comm.host()
    try:
        train(host, Central(compress="bf16"))
    except UsageError as error:
        return str(error)
    finally:
        host.free()
    return ""


def _bits(strategy: str = "central", **options: Any) -> Callable[[Communicator], list[str]]:
    return partial(digests, training=partial(train, build=noisy, **options), strategy=strategy)


CHECKS: dict[str, Callable[[Communicator], Any]] = {
    "place": place,
    "place backwards": place_backwards,
    "close: sgd": partial(distance, training=train),
    "close: adam": partial(distance, training=partial(train, optimizer="adam")),
    "close: clipped": partial(distance, training=partial(train, clip_norm=0.5)),
    "close: branching": partial(distance, training=train_branching),
    "close: after the backward pass": partial(
        distance, training=train, strategy=Central(overlap=False)
    ),
    "close: one bucket a parameter": partial(
        distance, training=train, strategy=Central(overlap=True, bucket_bytes=1)
    ),
    "close: hosts that train alone": partial(
        distance, training=train, strategy=Local(every=1, alone="host")
    ),
    "close: allreduce": partial(distance, training=train, strategy="allreduce"),
    **{
        f"lossy: {name}": partial(distance, training=train, strategy=Central(compress=name))
        for name in COMPRESSIONS
    },
    **{
        f"resumed: {name}": partial(resume, strategy=Central(compress=name, bucket_bytes=4096))
        for name in ("int8", "low-rank")
    },
    "refusal": refusal,
    "bits: central": _bits(shards=4, clip_norm=0.5),
    "bits: central adam": _bits(shards=4, clip_norm=0.5, optimizer="adam"),
    "bits: allreduce": _bits("allreduce", shards=4, clip_norm=0.5),
    "bits: branching": partial(digests, training=partial(train_branching, shards=4)),
    # Fewer shards than ranks: there is a host that has none.
    "bits: idle hosts": _bits(shards=1),
}

if __name__ == "__main__":
    main()
