"""What ranks write down of every step of a training, to compare it with the same one elsewhere."""

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor, nn

from phalanx.data.batches import batch_count
from phalanx.settings.table import Settings
from phalanx.state import State
from phalanx.state.model import BUFFERS, PARAMETERS
from phalanx.state.optimizer import OPTIMIZER
from phalanx.train.checkpointing import Checkpoints
from phalanx.train.companions.callbacks import Callback
from phalanx.train.companions.schedules import Schedule
from phalanx.train.own_code import callbacks_of
from phalanx.train.session import Session, open_session, training_samples
from phalanx.train.training import make_trainer

if TYPE_CHECKING:
    from phalanx.strategies.base import Outcome
    from phalanx.train.trainer import Trainer

#: After a step: the fingerprints of what it has seen, drawn and come to, each by a name that begins
#: with what it is about, such as `weights/conv.bias`.
Trace = dict[str, str]

#: What is compared, in the order in which one thing leads to the next.
SAMPLES, NUMBERS, WEIGHTS, STATE, REST = ABOUT = (
    *("samples", "random numbers", "weights", "optimizer", "position"),
)
_ABOUT_TENSORS = {PARAMETERS: WEIGHTS, BUFFERS: WEIGHTS, OPTIMIZER: STATE}
#: Of the plain values of a state, what is compared.
_VALUES = {"position": REST, "seed": REST, "shards": REST, "schedule": REST}


@final
class Tracing(Callback):
    """Traces every step of a training; on all ranks, which put together what each has seen."""

    def __init__(self) -> None:
        self.traces: dict[int, Trace] = {}
        self._seen: list[str] = []
        self._drawn: list[str] = []
        self._before: list[str] = []

    def on_train_begin(self, trainer: "Trainer") -> None:
        """Listen to the model."""
        self._hooks = [
            trainer.model.register_forward_pre_hook(self._note_inputs, with_kwargs=True),
            trainer.model.register_forward_hook(self._note_numbers),
        ]

    def on_train_end(self, trainer: "Trainer") -> None:
        """Listen no longer."""
        for hook in self._hooks:
            hook.remove()

    def on_step_begin(self, trainer: "Trainer") -> None:
        """Nothing is seen yet."""
        self._seen, self._drawn = [], []

    def on_step_end(self, trainer: "Trainer", outcome: "Outcome") -> None:
        """Collective. Put together what all ranks have seen, in whatever order."""
        everyone = trainer.comm.allgather_objects((self._seen, self._drawn))
        trace = {
            SAMPLES: _digest(*sorted(one for seen, _ in everyone for one in seen)),
            NUMBERS: _digest(*sorted(one for _, drawn in everyone for one in drawn)),
        }
        trace |= fingerprints(trainer.state())
        self.traces[trainer.position.step] = trace

    def _note_inputs(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if model.training:
            self._seen.append(_digest(*_fingerprints_in((args, kwargs))))
            self._before = _other_generators()

    def _note_numbers(self, model: nn.Module, args: Any, outputs: Any) -> None:
        """What would be drawn next tells what has been drawn."""
        if model.training:
            # Only torch's are seeded for each part: others break the promise if they are used.
            others = [one for one in _other_generators() if one not in self._before]
            self._drawn.append(_digest(_fingerprint(torch.get_rng_state()), *others))


def _other_generators() -> list[str]:
    return [_digest(repr(random.getstate())), _digest(repr(np.random.get_state(legacy=False)))]


def fingerprints(state: State) -> Trace:
    """Of all that a state says of a model, its optimizer and the position in the data."""
    found = {}
    for name in state.tensors:
        for prefix, about in _ABOUT_TENSORS.items():
            if name.startswith(prefix):
                rest = name.removeprefix(prefix).removeprefix("/")
                found[f"{about}/{rest}"] = _fingerprint(state.tensor(name))
    for name, about in _VALUES.items():
        if name in state.values:
            found[f"{about}/{name}"] = _text(state.values[name])
    return found


def _text(value: Any) -> str:
    """A plain value, but for how long anything has taken."""
    if isinstance(value, dict):
        value = {name: one for name, one in value.items() if name != "seconds"}
    return json.dumps(value, sort_keys=True)


def _fingerprints_in(nest: Any) -> Iterator[str]:
    """Of all tensors in whatever a model is given."""
    if isinstance(nest, Tensor):
        yield _fingerprint(nest)
    elif isinstance(nest, dict):
        for name in nest:
            yield from _fingerprints_in(nest[name])
    elif isinstance(nest, tuple | list):
        for one in nest:
            yield from _fingerprints_in(one)
    elif hasattr(nest, "__dict__"):
        yield from _fingerprints_in(vars(nest))


def _fingerprint(tensor: Tensor) -> str:
    dense = tensor.detach().cpu().contiguous()
    content = dense.reshape(-1).view(torch.uint8).numpy().tobytes()
    return _digest(str(dense.dtype), str(tuple(dense.shape)), hashlib.sha256(content).hexdigest())


def _digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def trace_training(
    settings: Settings, *, steps: int, folder: Path, start: Path | None
) -> dict[int, Trace]:
    """Collective. Train, or go on from a checkpoint, up to so many steps, with a checkpoint half
    way; the trace of every step."""
    session = open_session(settings, threads=settings.threads)
    return trace_session(session, steps=steps, folder=folder, start=start)


def trace_session(
    session: Session, *, steps: int, folder: Path, start: State | Path | None = None
) -> dict[int, Trace]:
    """Collective. The same in a session."""
    settings = session.settings
    train, _ = training_samples(session)
    trainer, tracing = make_trainer(session), Tracing()
    if start is not None:
        trainer.load(start)
    epoch = batch_count(len(train), session.batch_size)
    epoch = min(epoch, settings.steps_per_epoch or epoch)
    with trainer:
        trainer.fit(
            train,
            epochs=steps,
            steps=steps - trainer.position.step,
            batch_size=session.batch_size,
            steps_per_epoch=epoch,
            schedule=Schedule(trainer.optimizer, settings, steps_per_epoch=epoch),
            callbacks=[*callbacks_of(settings), tracing],
            checkpoint=Checkpoints(folder, every=str(steps // 2), keep=2),
        )
    return tracing.traces
