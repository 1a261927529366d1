"""Phalanx itself: `Trainer.fit`, as a user calls it."""

import time

from benchmarks.arguments import parse_arguments, workloads_of
from benchmarks.measurement import Measurement, best_rate
from benchmarks.workloads import SEED, Workload
from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.train.compute import prepare_process
from phalanx.train.trainer import Trainer


def main() -> None:
    collect_garbage_seldom()
    arguments = parse_arguments()
    comm = world()
    prepare_process(comm, arguments.threads)
    for workload in workloads_of(arguments):
        measurement = measure(workload, comm, strategy=arguments.strategy)
        if comm.rank == 0:
            measurement.print()


def measure(workload: Workload, comm: Communicator, *, strategy: str) -> Measurement:
    """Collective. Train with a strategy."""
    started = time.perf_counter()
    model = workload.make_model()
    trainer = Trainer(
        model,
        workload.make_optimizer(model, fused=True),  # as `phalanx train` makes it
        loss=workload.make_loss(),
        strategy=strategy,
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
