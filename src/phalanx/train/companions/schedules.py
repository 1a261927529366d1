"""How the learning rate goes on: torch's schedulers, by name, after a warm-up if asked for.

The warm-up moves with every step, the rest with every epoch. Each multiplies the rate that it
finds, so that they work one upon the other, and so does a rate that a user changes on the way.
"""

import math
from typing import Any, Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import (
    CosineAnnealingLR,
    LinearLR,
    LRScheduler,
    ReduceLROnPlateau,
    StepLR,
)

from phalanx.errors import UsageError
from phalanx.settings.defaults import nominal_rate
from phalanx.settings.metrics import rises
from phalanx.settings.table import Settings
from phalanx.state import State


class Schedule:
    """The learning rate of one training, the same on every rank."""

    def __init__(self, optimizer: Optimizer, settings: Settings, *, steps_per_epoch: int) -> None:
        self._optimizer = optimizer
        self._rate = nominal_rate(settings)
        self._warm_up_steps = settings.warm_up_steps or round(settings.warm_up * steps_per_epoch)
        self._warm_up: LRScheduler | None = None
        if self._warm_up_steps > 0:
            start = 1 / (self._warm_up_steps + 1)
            self._warm_up = LinearLR(optimizer, start_factor=start, total_iters=self._warm_up_steps)
        self._least = settings.schedule_min_rate or 0.0
        self._main = _make(optimizer, settings, least=self._least)

    @property
    def learning_rate(self) -> float:
        """The first parameter group's."""
        rate: float = self._optimizer.param_groups[0]["lr"]
        return rate

    def state(self) -> State:
        """Where both schedulers are, and the learning rate that a user asked for."""
        warm_up = None if self._warm_up is None else plain_values(self._warm_up.state_dict())
        main = None if self._main is None else plain_values(self._main.state_dict())
        left = self._warm_up_steps
        values = {"rate": self._rate, "warm up": warm_up, "left": left, "main": main}
        return State(values={"schedule": values})

    def load(self, state: State) -> None:
        """Go on from there; the learning rates are the optimizer's, and so in its own state.

        If another rate is asked for now, or a cosine over other epochs, they are as if it always
        had been.
        """
        saved = state.values.get("schedule")
        if saved is None:
            return
        epochs = self._main.T_max if isinstance(self._main, CosineAnnealingLR) else None
        for scheduler, values in ((self._warm_up, saved["warm up"]), (self._main, saved["main"])):
            if (scheduler is None) != (values is None):
                raise UsageError(
                    "the training that is gone on with had another schedule: give it the same one"
                )
            if scheduler is not None:
                scheduler.load_state_dict(dict(values))
        self._warm_up_steps = saved["left"]
        if saved.get("rate", self._rate) != self._rate:
            self._multiply_rates(_ratio(self._rate, saved["rate"]))
        if isinstance(self._main, CosineAnnealingLR) and epochs is not None:
            _stretch(self._main, epochs)

    def _multiply_rates(self, factor: float) -> None:
        for group in self._optimizer.param_groups:
            for name in ("lr", "initial_lr"):
                if name in group:
                    group[name] *= factor
        for scheduler in (self._warm_up, self._main):
            for name in ("base_lrs", "_last_lr"):
                if hasattr(scheduler, name):
                    setattr(scheduler, name, [rate * factor for rate in getattr(scheduler, name)])

    def after_step(self) -> None:
        """One step is done."""
        if self._warm_up is not None and self._warm_up_steps > 0:
            self._warm_up.step()
            self._warm_up_steps -= 1

    def after_epoch(self, watched: float) -> None:
        """One epoch is done; a plateau is one of this loss, or of what else is watched."""
        before = [group["lr"] for group in self._optimizer.param_groups]
        if isinstance(self._main, ReduceLROnPlateau):
            self._main.step(watched)
        elif self._main is not None:
            self._main.step()
        if isinstance(self._main, StepLR):  # which has no lower bound of its own
            for group, rate in zip(self._optimizer.param_groups, before, strict=True):
                group["lr"] = max(group["lr"], min(rate, self._least))


def _ratio(rate: float, before: float) -> float:
    if before == 0:
        raise UsageError(
            f"the training had a learning rate of 0 so far, and cannot go on with {rate:g}: take "
            "its weights to a new one (--weights)"
        )
    return rate / before


def _stretch(cosine: CosineAnnealingLR, epochs: int) -> None:
    """Have a cosine that has come some way fall over so many epochs."""
    before, done = cosine.T_max, cosine.last_epoch
    if before == epochs:
        return
    cosine.T_max = epochs
    was, now = ((1 + math.cos(math.pi * done / one)) / 2 for one in (before, epochs))
    for group, base in zip(cosine.optimizer.param_groups, cosine.base_lrs, strict=True):
        # At the end of the one before nothing is left to multiply.
        group["lr"] = base * now if done == before else group["lr"] * now / was


def plain_values(values: dict[str, Any]) -> dict[str, Any]:
    """Of a scheduler's state, what JSON knows: the rest is code, which is made anew."""
    kinds = (bool, int, float, str, list, type(None))
    return {name: value for name, value in values.items() if isinstance(value, kinds)}


def _make(optimizer: Optimizer, settings: Settings, *, least: float) -> LRScheduler | None:
    factor = 0.1 if settings.schedule_factor is None else settings.schedule_factor
    epochs = 10 if settings.schedule_epochs is None else settings.schedule_epochs
    match settings.schedule:
        case "step":
            return StepLR(optimizer, step_size=epochs, gamma=factor)
        case "cosine":
            return CosineAnnealingLR(optimizer, T_max=max(settings.epochs, 1), eta_min=least)
        case "plateau":
            mode: Literal["min", "max"] = "max" if rises(settings.watch) else "min"
            return ReduceLROnPlateau(
                optimizer, mode=mode, factor=factor, patience=epochs, min_lr=least
            )
        case _:
            return None
