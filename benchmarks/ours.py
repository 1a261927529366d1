"""Phalanx itself: `Trainer.fit`, as a user calls it."""

import json
import time
from dataclasses import replace
from typing import Any

from benchmarks.arguments import parse_arguments, workloads_of
from benchmarks.measurement import Measurement, best_rate
from benchmarks.workloads import SEED, Workload
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.comm.single import SingleCommunicator
from phalanx.strategies.registry import make
from phalanx.train.compute import prepare_process
from phalanx.train.trainer import Trainer


def main() -> None:
    collect_garbage_seldom()
    arguments = parse_arguments()
    comm = world()
    prepare_process(comm, arguments.threads)
    for workload in workloads_of(arguments):
        if arguments.unconnected:
            measurement = measure_unconnected(workload, comm)
        else:
            strategy = arguments.strategy
            options = workload.strategy_options(strategy) | json.loads(arguments.options)
            measurement = measure(workload, comm, strategy=strategy, options=options)
        if comm.rank == 0:
            measurement.print()


def measure_unconnected(workload: Workload, comm: Communicator) -> Measurement:
    """Every rank trains on its part of a batch, at the same time as the others, and by itself."""
    part = replace(workload, batch_size=workload.batch_size // comm.size)
    comm.barrier()
    mine = measure(part, SingleCommunicator(), strategy="single")
    rates = comm.allgather_objects(mine.samples_per_second)
    # Of ranks that have to wait for each other the slowest would count.
    return replace(mine, samples_per_second=min(rates) * comm.size, loss=None)


def measure(
    workload: Workload,
    comm: Communicator,
    *,
    strategy: str,
    options: dict[str, Any] | None = None,
) -> Measurement:
    """Collective. Train with a strategy."""
    started = time.perf_counter()
    model = workload.make_model()
    trainer = Trainer(
        model,
        workload.make_optimizer(model, fused=True),  # as `phalanx train` makes it
        loss=workload.make_loss(),
        strategy=make(strategy, options),
        comm=comm,
        seed=SEED,
    )
    epochs = trainer.fit(
        workload.make_data(), epochs=workload.epochs, batch_size=workload.batch_size
    )
    return Measurement(
        workload=workload.name,
        samples_per_second=best_rate(workload, [epoch.seconds for epoch in epochs]),
        loss=epochs[-1].train.loss,
        seconds=time.perf_counter() - started,
    )


if __name__ == "__main__":
    main()
