"""Where a training stands, as one value: taken from a Trainer, given to one, moved to others."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from phalanx.checkpoints.pieces import StoredCheckpoint
from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.errors import UsageError
from phalanx.state import State, gather
from phalanx.state.model import BUFFERS, PARAMETERS, parameter_names
from phalanx.state.optimizer import OPTIMIZER, write_entries, write_groups
from phalanx.strategies.base import Strategy
from phalanx.strategies.building_blocks.in_pieces import mark_whole
from phalanx.strategies.model_parts import ModelParts
from phalanx.strategies.single import SingleWorker
from phalanx.train.binding import check_parameters, choose
from phalanx.train.checkpointing import find_checkpoint, verified_checkpoint, write_checkpoint
from phalanx.train.checks.agreement import check_state
from phalanx.train.checks.arguments import check_made_of
from phalanx.train.companions.stopping import BEST, BestWeights
from phalanx.train.position import Position

if TYPE_CHECKING:
    from phalanx.train.fit_loop import Companion
    from phalanx.train.trainer import Trainer


#: What of a state is of the model, and so is read by whoever has a part of it.
_OF_MODELS = (PARAMETERS, BUFFERS, OPTIMIZER)
#: Under this name a state says what of it is of companions: a schedule, the best weights.
_ALONG = "goes along"


def parts_of(trainer: "Trainer") -> State:
    """Collective. This rank's parts of where a training stands."""
    with phase("exchange"):
        state = trainer.worker.state().add(trainer.meter.state(trainer.comm))
        state.add(trainer.measures.state(trainer.comm))
        state.add(_going_along(trainer))
        known = {"seed": trainer.task.seed, "shards": trainer.task.shards}
        state.values |= {"position": asdict(trainer.position), **known}
        if trainer.task.scale is not None:
            state.values["loss scale"] = trainer.task.scale.state()
        return state.to_host()


def _going_along(trainer: "Trainer") -> State:
    """What companions have; of a state that was loaded, until the next `fit` gives it to them."""
    found, loaded = State(), trainer.loaded
    if loaded is None:
        for one in trainer.companions:
            found.add(one.state())
    else:
        for name in loaded.values.get(_ALONG, ()):
            if name in loaded.tensors:
                found.tensors[name] = loaded.tensors[name]
            if name in loaded.values:
                found.values[name] = loaded.values[name]
    if found.tensors or found.values:
        found.values[_ALONG] = sorted({*found.tensors, *found.values})
    return found


def write(trainer: "Trainer", folder: Path) -> None:
    """Collective. Write a checkpoint of where a training stands."""
    step, in_parts = trainer.position.step, trainer.worker.model_parts is not None
    write_checkpoint(trainer.comm, parts_of(trainer), folder, step=step, in_parts=in_parts)


def put_into(trainer: "Trainer", state: State | Path) -> State:
    """Collective. Have a training go on from a state, or a checkpoint; returns the whole of it, but
    for the weights of a model in parts and what the optimizer keeps about them."""
    parts = trainer.worker.model_parts
    if parts is not None:
        return _read_into(trainer, parts, state)
    if isinstance(state, Path):
        state = find_checkpoint(trainer.comm, state)
    check_state(state, trainer.task)
    if not state.is_whole:
        state = gather(trainer.comm, state)
    trainer.worker.load(state)
    return _place(trainer, state)


def _read_into(trainer: "Trainer", parts: ModelParts, checkpoint: State | Path) -> State:
    """Collective. The same for a model in parts, of which each rank reads its own."""
    if isinstance(checkpoint, State):
        raise UsageError(
            "a model in parts goes on from a checkpoint, of which each rank reads its own part, "
            "and not from a whole state: save() the training, and load() the folder"
        )
    stored = StoredCheckpoint(verified_checkpoint(trainer.comm, checkpoint))
    others = [one for one in stored.names("") if not one.startswith(_OF_MODELS)]
    state = State({name: stored.read(name) for name in others}, stored.values)
    check_state(state, trainer.task)
    if any(name.startswith(BEST) for name in others):
        raise UsageError(
            f"{checkpoint}: is of a training that keeps the best weights, and a model in parts "
            "keeps the last: load it into a whole model"
        )
    parts.read(stored)
    return _place(trainer, state)


def _place(trainer: "Trainer", state: State) -> State:
    trainer.position = Position(**state.values["position"])
    if trainer.task.scale is not None:
        trainer.task.scale.load(state.values.get("loss scale"))
    trainer.meter = trainer.new_meter()
    trainer.meter.load(state, first=trainer.comm.rank == 0)
    trainer.measures.load(state, first=trainer.comm.rank == 0)
    return state


def move(trainer: "Trainer", strategy: Strategy | str | None, comm: Communicator | None) -> None:
    """Collective. Have a training go on with another strategy, or on other ranks."""
    refuse_in_parts(trainer, "rebind")
    state = trainer.state()
    trainer.close()
    trainer.comm = trainer.comm if comm is None else comm
    trainer.optimizer.state.clear()
    mark_whole(trainer.optimizer)
    wanted = trainer.strategy if strategy is None else strategy
    trainer.bind(choose(wanted, trainer.comm, trainer.task))
    trainer.load(state)


def gather_optimizer(trainer: "Trainer") -> None:
    """Collective. Give every rank's optimizer its whole state."""
    refuse_in_parts(trainer, "gather_optimizer_state")
    state = gather(trainer.comm, trainer.worker.state().to_host())
    trainer.sync()
    names = parameter_names(trainer.model, trainer.optimizer)
    write_entries(trainer.optimizer, names, state)
    mark_whole(trainer.optimizer)


def refuse_in_parts(trainer: "Trainer", method: str) -> None:
    """Refuse what would give every rank the whole of a model in parts."""
    if trainer.worker.model_parts is not None:
        raise UsageError(
            f"{method}: would give every rank the whole of a model in parts: save() writes a "
            "checkpoint, from which another Trainer goes on with any strategy, by load()"
        )


def take_along(trainer: "Trainer", companions: "list[Companion]") -> None:
    """Have what goes along with a training go on from where a state was loaded."""
    if any(isinstance(one, BestWeights) for one in companions) and trainer.worker.model_parts:
        raise UsageError(
            "keep_best: takes a copy of the whole model, and no rank has the whole of one in "
            "parts: leave it out, and keep checkpoints of more epochs"
        )
    trainer.companions = companions
    if trainer.loaded is not None:
        # Making a schedule has set learning rates anew; it may have reason to change them.
        write_groups(trainer.optimizer, trainer.loaded)
        for one in companions:
            one.load(trainer.loaded)
        trainer.loaded = None


def check_unchanged(trainer: "Trainer") -> None:
    """Refuse to go on with other parameters than the strategy knows of."""
    if isinstance(trainer.worker, SingleWorker):  # others put back what has been replaced
        check_made_of(trainer.model, trainer.optimizer)
    check_parameters(trainer.model, trainer.optimizer, known=trainer.trained)
