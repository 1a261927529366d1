"""A callback of one's own: how large the weights are after every epoch, in a file.

    phalanx train --callback examples/own_callback.py:Norms --every-epochs 2 --ranks 2

Its methods are called on every rank; only the first writes. The parameters of `__init__` that have
defaults are flags. `state` and `load` take what it has seen along, so that a training that is gone
on with (`--resume`) writes what one would that nobody interrupted.
"""

from pathlib import Path

import torch

from phalanx import Callback, Epoch, State, Trainer


class Norms(Callback):
    def __init__(self, every_epochs: int = 1, file: Path = Path("norms.csv")) -> None:
        self._every, self._file = every_epochs, file
        self._norms: list[float] = []

    def on_epoch_end(self, trainer: Trainer, epoch: Epoch) -> None:
        squares = sum(one.detach().square().sum().item() for one in trainer.model.parameters())
        self._norms.append(squares**0.5)

    def on_train_end(self, trainer: Trainer) -> None:
        if trainer.comm.rank == 0:
            rows = [f"{number},{norm:.6g}" for number, norm in enumerate(self._norms, start=1)]
            self._file.write_text("\n".join(["epoch,norm", *rows[:: self._every]]) + "\n")

    def state(self) -> State:
        return State({"norms/values": torch.tensor(self._norms, dtype=torch.float64)})

    def load(self, state: State) -> None:
        if "norms/values" in state.tensors:
            self._norms = state.tensor("norms/values").tolist()
