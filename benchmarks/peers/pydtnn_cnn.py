"""PyDTNN's own benchmark program with its own simplecnn: near to ours, but not the same model.

So there is no loss to compare. Its report tells the throughput over the last half of each epoch.
"""

import re
import shutil
import subprocess
import time
from argparse import Namespace

from benchmarks.arguments import parse_arguments, workloads_of
from benchmarks.measurement import Measurement
from benchmarks.workloads import Workload
from phalanx.comm.launch.mpiexec import mpiexec_command

_RATE = re.compile(r"Training throughput \(from model, from last half.*?\): *([0-9.]+)")


def main() -> None:
    arguments = parse_arguments()
    for workload in workloads_of(arguments):
        measure(workload, arguments).print()


def measure(workload: Workload, arguments: Namespace) -> Measurement:
    program = shutil.which("pydtnn-benchmark")
    if program is None:
        raise SystemExit("pydtnn is installed, but its program pydtnn-benchmark is not on PATH")
    command, environment = mpiexec_command(arguments.ranks)
    environment["OMP_NUM_THREADS"] = str(arguments.threads)
    started = time.perf_counter()
    done = subprocess.run(
        [*command, program, *_flags(workload)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return Measurement(
        workload=workload.name,
        samples_per_second=parse_rate(done.stdout + done.stderr),
        loss=None,
        seconds=time.perf_counter() - started,
    )


def parse_rate(output: str) -> float:
    """The throughput in PyDTNN's report."""
    found = _RATE.search(output)
    if found is None:
        raise SystemExit(f"no throughput in what PyDTNN printed:\n{output[-2000:]}")
    return float(found.group(1))


def _flags(workload: Workload) -> list[str]:
    shape = ",".join(str(size) for size in workload.input_shape)
    values = {
        "model": workload.model,
        "dataset": "synthetic",
        "synthetic-train-samples": workload.samples,
        "synthetic-input-shape": shape,
        "synthetic-output-shape": workload.classes,
        "global-batch-size": workload.batch_size,
        "num-epochs": workload.epochs,
        "optimizer": "sgd",
        "learning-rate": workload.learning_rate,
        "optimizer-momentum": 0.9,
        "schedulers": "",
        "parallel": "data",
        "dtype": "float32",
    }
    return [f"--{name}={value}" for name, value in values.items()]


if __name__ == "__main__":
    main()
