"""What memory does a rank need for a model that fits on none?

`python -m benchmarks.questions.large_model` trains a step of a model of 8 GiB of float32 under
`pipeline` on 4 ranks and saves it in parts, then resumes it under `tensor` and evaluates it, and
prints the peak memory of each rank beside its share: a rank's part of the parameters, of their
gradients and of what the optimizer keeps. The optimizer is SGD, which keeps nothing, so that 16 GiB
are needed in all; with `--optimizer adam` take a smaller `--gib`. A peak is the kernel's (VmHWM)
without what a rank has after its imports. It takes as much disk as the model has, and a while.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import nn

import phalanx
from benchmarks.launchers import ROOT

_OPTIMIZERS = {"sgd": (torch.optim.SGD, 0), "adam": (torch.optim.Adam, 2)}
_SAMPLES, _BATCH, _CLASSES = 64, 32, 10


def make_model(width: int, layers: int) -> nn.Module:
    """So many square layers, which have all the weights but for a few."""
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    return nn.Sequential(*blocks, nn.Linear(width, _CLASSES))


def samples_of(width: int) -> phalanx.Split:
    points = torch.randn(_SAMPLES, width, generator=torch.Generator().manual_seed(1))
    return phalanx.Split(points, points[:, :_CLASSES].argmax(1))


def on_rank(strategy: str, folder: Path, arguments: argparse.Namespace) -> None:
    """One rank: train a step and save, or resume and evaluate."""
    comm = phalanx.world()
    baseline, started = memory("VmRSS"), time.perf_counter()
    torch.manual_seed(0)
    model = phalanx.in_parts(make_model, arguments.width, arguments.layers)
    parameters = sum(one.nbytes for one in model.parameters())
    kind, kept = _OPTIMIZERS[arguments.optimizer]
    trainer = phalanx.Trainer(model, kind(model.parameters(), lr=1e-3), strategy=strategy)
    marks = {"made": time.perf_counter() - started}
    samples = samples_of(arguments.width)
    if strategy == "pipeline":
        trainer.fit(samples, epochs=1, steps=1, batch_size=_BATCH)
        marks["trained"] = time.perf_counter() - started
        trained = memory("VmHWM") - baseline
        trainer.save(folder)
        marks["saved"] = time.perf_counter() - started
    else:
        trainer.load(folder)
        marks["loaded"] = time.perf_counter() - started
        trained = memory("VmHWM") - baseline
    loss = trainer.evaluate(samples).loss
    marks["evaluated"] = time.perf_counter() - started
    peaks = comm.allgather_objects((trained, memory("VmHWM") - baseline))
    if comm.rank == 0:
        share = parameters * (2 + kept) / comm.size
        told = {"share": share, "peaks": peaks, "loss": loss, "seconds": marks}
        (folder / f"{strategy}.json").write_text(json.dumps(told))
    trainer.close()


def memory(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def show(strategy: str, folder: Path) -> None:
    """Print what the ranks of a job have told."""
    told = json.loads((folder / f"{strategy}.json").read_text())
    share, gib = told["share"], 1 << 30
    steps = ", ".join(f"{name} after {seconds:.0f} s" for name, seconds in told["seconds"].items())
    print(f"{strategy}: a rank's share is {share / gib:.2f} GiB; loss {told['loss']:.6f}; {steps}")
    for rank, (first, peak) in enumerate(told["peaks"]):
        ratio = f"{first / share:.2f} and {peak / share:.2f} of its share"
        print(f"  rank {rank}: {first / gib:.2f} GiB, {peak / gib:.2f} GiB at the end: {ratio}")


def main() -> None:
    """Both jobs, one after the other; or, inside of one, a rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=8.0, help="of parameters, in float32")
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--optimizer", choices=_OPTIMIZERS, default="sgd")
    parser.add_argument("--strategy", choices=["pipeline", "tensor"], help="one job alone")
    parser.add_argument("--folder", type=Path, help="where the checkpoint is, or goes")
    parser.add_argument("--on-rank", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.layers = round(arguments.gib * (1 << 30) / (4 * arguments.width**2))
    if arguments.on_rank:
        on_rank(arguments.strategy, arguments.folder, arguments)
        return
    with TemporaryDirectory(dir=arguments.folder) as kept:
        folder = arguments.folder or Path(kept)
        for strategy in [arguments.strategy] if arguments.strategy else ["pipeline", "tensor"]:
            words = f"--gib={arguments.gib} --width={arguments.width} --strategy={strategy}"
            command = [sys.executable, "-m", "phalanx", "run", "-n", str(arguments.ranks)]
            command += [sys.executable, "-m", "benchmarks.questions.large_model", "--on-rank"]
            command += [*words.split(), f"--optimizer={arguments.optimizer}", f"--folder={folder}"]
            subprocess.run(command, check=True, cwd=ROOT)
            show(strategy, folder)


if __name__ == "__main__":
    main()
