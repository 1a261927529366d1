"""When a training is done before its last epoch, and which epoch was the best."""

import copy
import math

import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.settings.metrics import RISING, check_watched, rises
from phalanx.state import State
from phalanx.state.parts import Part
from phalanx.train.epoch import Epoch
from phalanx.train.metrics import Metrics
from phalanx.wording import counted

BEST = "best/"


def cost(epoch: Epoch, watched: str) -> float:
    """What is watched, as a number that is better the smaller it is; what is no number is worst."""
    value = epoch.value(watched)
    if math.isnan(value):
        return math.inf
    return -value if rises(watched) else value


class Stopping:
    """Watches the validation loss, or the training loss where nothing is held out."""

    def __init__(
        self,
        *,
        patience: int | None = None,
        goal: tuple[str, float] | None = None,
        watch: str = "loss",
    ) -> None:
        """Stop after `patience` epochs without a better loss, or once a metric has its value.

        Another metric to `watch` is that of the validation, too, unless it begins with training-.
        """
        check_watched(watch)
        self._patience = patience
        self._goal = goal
        self._watch = watch
        self._best = float("inf")
        self._waited = 0
        self._reached = False

    def state(self) -> State:
        """The best loss so far, for how many epochs there was no better one, what was reached."""
        goal = [*self._goal] if self._goal is not None and self._reached else None
        values = {"best": self._best, "waited": self._waited, "reached": goal}
        return State(values={"stopping": values})

    def load(self, state: State) -> None:
        """Go on from there."""
        if "stopping" in state.values:
            saved = state.values["stopping"]
            self._best, self._waited = saved["best"], saved["waited"]
            reached = saved.get("reached")
            self._reached = reached is not None and tuple(reached) == self._goal

    @property
    def stopped(self) -> str | None:
        """Why there is nothing more to train, if so."""
        if self._goal is not None and self._reached:
            name, value = self._goal
            return f"{name} has reached {value:g}"
        if self._patience is not None and self._waited >= self._patience:
            return f"no better {self._watch} for {counted(self._waited, 'epoch')}"
        return None

    def reason(self, epoch: Epoch) -> str | None:
        """Why to stop after this epoch; None to go on."""
        self._reached = self._goal is not None and _reached(epoch.watched, *self._goal)
        if self._reached:
            return self.stopped
        now = cost(epoch, self._watch)
        if now < self._best:
            self._best, self._waited = now, 0
        else:
            self._waited += 1
        return self.stopped


def _reached(metrics: Metrics, name: str, value: float) -> bool:
    named = {"loss": metrics.loss, "accuracy": metrics.accuracy} | metrics.more
    reached = named.get(name)
    if reached is None:
        raise UsageError(f"this training has no {name} to stop at: its targets have none")
    return reached >= value if name in RISING else reached <= value


class BestWeights:
    """A copy of a model as it was after its best epoch, by its loss or what else is watched."""

    def __init__(self, watch: str = "loss") -> None:
        check_watched(watch)
        self._watch = watch
        self.epoch = 0
        self._loss = float("inf")
        self._state: dict[str, Tensor] = {}

    def state(self) -> State:
        """The best epoch, its loss and its weights."""
        tensors: dict[str, Part] = {
            f"{BEST}{name}": tensor.clone() for name, tensor in self._state.items()
        }
        return State(tensors, {"best": {"epoch": self.epoch, "loss": self._loss}})

    def load(self, state: State) -> None:
        """Go on from there."""
        if "best" in state.values:
            self.epoch = state.values["best"]["epoch"]
            self._loss = state.values["best"]["loss"]
            self._state = {name: tensor.clone() for name, tensor in state.under(BEST)}

    def offer(self, epoch: Epoch, model: nn.Module) -> None:
        """Keep the model's weights if this epoch is the best so far."""
        now = cost(epoch, self._watch)
        if now < self._loss or not self._state:
            self.epoch, self._loss = epoch.number, now
            self._state = copy.deepcopy(
                {name: tensor.detach() for name, tensor in model.state_dict().items()}
            )

    @torch.no_grad()
    def restore(self, model: nn.Module) -> None:
        """Give the model those weights back."""
        for name, tensor in model.state_dict().items():
            tensor.copy_(self._state[name])
