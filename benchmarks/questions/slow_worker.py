"""What one slow worker costs: `server`, which waits for it, beside `async`, which does not.

`python -m benchmarks.questions.slow_worker` starts the ranks, in turn for both strategies, and
prints the best time of each. On every rank: `python -m benchmarks.questions.slow_worker STRATEGY`.
The slow one sleeps in every forward pass, as a rank on a busy or older host would take its time.
"""

import json
import sys
import time

import torch
from torch import Tensor, nn
from torch.optim import SGD

from benchmarks.launchers import mpiexec, run
from phalanx import data
from phalanx.comm import world
from phalanx.train.trainer import Trainer

_RANKS, _ROUNDS, _EPOCHS, _BATCH = 4, 3, 2, 48
_SLOW_RANK, _SLEEP = 1, 0.02
_STRATEGIES = ("server", "async")


class SlowOnOneRank(nn.Module):
    """A small network that takes its time on one rank."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.sleep = _SLEEP if world().rank == _SLOW_RANK else 0.0

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and self.sleep:
            time.sleep(self.sleep)
        outputs: Tensor = self.layers(inputs)
        return outputs


def train(strategy: str) -> None:
    """Collective. Train once; rank 0 prints the seconds and the accuracy."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    comm = world()
    digits = data.load("digits")
    model = SlowOnOneRank()
    trainer = Trainer(model, SGD(model.parameters(), lr=0.1), strategy=strategy, comm=comm)
    comm.barrier()
    started = time.perf_counter()
    trainer.fit(digits.train, epochs=_EPOCHS, batch_size=_BATCH)
    trainer.sync()
    seconds = time.perf_counter() - started
    accuracy = trainer.evaluate(digits.test).accuracy
    if comm.rank == 0:
        print(json.dumps({"seconds": seconds, "accuracy": accuracy}), flush=True)


def compare() -> None:
    """Run both in turn, and print the best of each."""
    best: dict[str, dict[str, float]] = {}
    for _ in range(_ROUNDS):
        for strategy in _STRATEGIES:
            command = mpiexec(_RANKS, "benchmarks.questions.slow_worker").with_arguments(strategy)
            lines = [line for line in run(command, timeout=300.0) if line.startswith("{")]
            result: dict[str, float] = json.loads(lines[-1])
            if strategy not in best or result["seconds"] < best[strategy]["seconds"]:
                best[strategy] = result
    print(
        f"{_RANKS} ranks, of which one serves and one sleeps {_SLEEP * 1000:.0f} ms in every "
        f"forward pass; {_EPOCHS} epochs of digits in batches of {_BATCH}, best of {_ROUNDS}"
    )
    for strategy, result in best.items():
        print(f"{strategy:8} {result['seconds']:6.2f} s, test accuracy {result['accuracy']:.1%}")
    ratio = best["server"]["seconds"] / best["async"]["seconds"]
    print(f"server / async: {ratio:.2f}")


def main() -> None:
    if len(sys.argv) > 1:
        train(sys.argv[1])
    else:
        compare()


if __name__ == "__main__":
    main()
