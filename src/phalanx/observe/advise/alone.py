"""One rank by itself: how long its steps take, and what of that is the update."""

from dataclasses import replace

from torch import nn

from phalanx.comm.single import SingleCommunicator
from phalanx.exchange.flat import layouts
from phalanx.observe.advise.measurements import Pace
from phalanx.observe.advise.stopwatch import TimedSteps
from phalanx.train.session import Session, on_ranks
from phalanx.train.training import make_trainer


def by_itself(session: Session) -> Session:
    """The same training for one rank, with nobody to wait for."""
    settings = session.settings.with_strategy("single", {})
    alone = on_ranks(replace(session, settings=settings), SingleCommunicator())
    return replace(alone, strategy="single")


def time_alone(
    session: Session, samples: int, *, seconds: float, rounds: int = 1
) -> tuple[Pace, float]:
    """The steps of this rank by itself, for so many seconds a round; and the share that the update
    has in them."""
    alone = by_itself(session)
    with make_trainer(alone) as trainer:
        steps = TimedSteps(alone, trainer, batch=samples)
        for _ in range(rounds):
            steps.run(seconds)
        return steps.pace, steps.shares(seconds).update


def gradient_bytes(model: nn.Module) -> int:
    """Of a rank's flat gradient, with a mark for each parameter."""
    return sum(one.row_length * one.dtype.itemsize for one in layouts(model))
