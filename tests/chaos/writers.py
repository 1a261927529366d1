"""Trainings that are killed while they write checkpoints: forks, so that one takes little time."""

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from torch import Tensor, nn

from phalanx import Trainer, data
from phalanx.checkpoints import newest_whole, read_checkpoint
from phalanx.train.checkpointing import Checkpoints
from tests.chaos.network import make_network

#: It tells of each of its shards.
_SHARDS = 4


class Telling(nn.Module):
    """Tells of every step that begins: all that was to be written before it has been begun."""

    def __init__(self, model: nn.Module, told: int, step: Callable[[], int]) -> None:
        super().__init__()
        self.model, self._told, self._step = model, told, step

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            os.write(self._told, self._step().to_bytes(8, "little"))
        result: Tensor = self.model(inputs)
        return result


def _train_on(folder: Path, told: int, *, epochs: int = 10**6) -> None:
    """Train from the newest checkpoint on, until somebody ends this process."""
    torch.manual_seed(0)
    dataset = data.load("digits", data_dir=None, options={})
    done: Callable[[], int] = lambda: trainer.position.step  # noqa: E731
    model = Telling(make_network(), told, done)
    trainer = Trainer(model, torch.optim.Adam(model.parameters()), shards=_SHARDS)
    if any(folder.glob("step-*")):
        trainer.load(folder)
    checkpoints = Checkpoints(folder, every="1", keep=2)
    trainer.fit(dataset.train, epochs=epochs, batch_size=64, checkpoint=checkpoints)


def kill_writers(folder: Path, kills: int, *, seed: int) -> list[str]:
    """Kill a training so many times, and go on with it each time; what was wrong, if anything."""
    random, problems = Random(seed), []
    torch.set_num_threads(1)
    with open(os.devnull, "wb") as nobody:  # what is imported late is imported once, for all forks
        _train_on(folder / "first", nobody.fileno(), epochs=1)
    for number in range(kills):
        receiving, sending = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _train_on(folder, sending)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(sending)
        last = _killed_at(child, receiving, random)
        path, passed_over = newest_whole(folder)
        step = int(read_checkpoint(path).values["position"]["step"])
        # Of the one that is told of as begun, or the one before.
        if passed_over or not last - 1 <= step <= last + 1:
            problems.append(f"kill {number}: {path.name} after step {last}; {passed_over}")
    return problems


def _killed_at(child: int, receiving: int, random: Random) -> int:
    """Kill a training at some moment after its first steps; those that it had done."""
    last = b""
    for _ in range(3 * _SHARDS):
        last = os.read(receiving, 8)
    time.sleep(random.random() * 0.03)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(receiving, 8):
        last = more
    os.close(receiving)
    return int.from_bytes(last, "little")
