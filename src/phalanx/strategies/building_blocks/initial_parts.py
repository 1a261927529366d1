"""The weights of a model in parts: made by each rank for itself, and read by it from files."""

from collections.abc import Callable, Iterable, Mapping
from typing import final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.clock import phase
from phalanx.comm.base import Communicator
from phalanx.comm.launch.process import release_freed_memory
from phalanx.errors import UsageError
from phalanx.exchange.views import dense_strides
from phalanx.models.in_parts import forget_initial, give_memory, initial_of
from phalanx.pulse import pulse
from phalanx.state.model import BUFFERS, PARAMETERS
from phalanx.state.optimizer import OPTIMIZER, write_groups
from phalanx.state.parts import Portion, Stored

#: Freed memory that is worth a call to give it back to the kernel.
_WORTH_RELEASING = 32 << 20
#: What of a parameter, or of a buffer, this rank has.
Portions = Callable[[Tensor], Portion]


def all_of(tensor: Tensor) -> Portion:
    """What a rank has that has all of a tensor."""
    return Portion(tuple(tensor.shape))


@final
class InitialParts:
    """What the parameters of a model without values are at first: the same for all ranks."""

    def __init__(self, comm: Communicator, model: nn.Module) -> None:
        """Collective. The random numbers are those of rank 0, as its weights are elsewhere."""
        named = {name: one for name, one in model.named_parameters() if one.is_meta}
        self._initial = {one: initial_of(name, one) for name, one in named.items()}
        for record in {id(one.record): one.record for one in self._initial.values()}.values():
            made = comm.allgather_objects(record.fingerprint())
            others = [rank for rank, one in enumerate(made) if one != made[0]]
            if others:
                raise UsageError(
                    f"rank {others[0]} has made its model in other ways than rank 0, or of other "
                    "numbers than torch's random ones: a model in parts must be made by the same "
                    "code, of the same values, on every rank"
                )
            record.random_states = comm.broadcast_object(record.random_states)

    def fill(self, parameters: Iterable[nn.Parameter], portion: Portions) -> None:
        """Give parameters, which have memory by now, their values: one after the other, so that no
        more than one of them is there as a whole."""
        freed = 0
        with phase("prepare"), torch.no_grad():
            for parameter in parameters:
                whole = self._initial[parameter].values()
                parameter.copy_(portion(parameter).of(whole, parameter))
                pulse.beats += 1
                freed += whole.nbytes
                del whole
                if freed > _WORTH_RELEASING:
                    freed = 0
                    release_freed_memory()

    def finish(self) -> None:
        """Forget how the weights came to be: from now on they are trained."""
        for parameter in self._initial:
            forget_initial(parameter)


def make_room(parameters: Iterable[nn.Parameter]) -> None:
    """Give parameters without values memory of their own."""
    for parameter in parameters:
        if parameter.is_meta:
            form = (parameter.shape, dense_strides(parameter))
            give_memory(parameter, torch.empty_strided(*form, dtype=parameter.dtype))


def give_up(parameters: Iterable[nn.Parameter]) -> None:
    """Take the memory of parameters back: they have no values afterwards."""
    for parameter in parameters:
        parameter.grad = None
        if not parameter.is_meta:
            give_memory(parameter, torch.empty_like(parameter.detach(), device="meta"))


def check_optimizer(optimizer: Optimizer) -> None:
    """Refuse an optimizer that has made a state before there were any values."""
    for state in optimizer.state.values():
        if any(isinstance(one, Tensor) and one.is_meta for one in state.values()):
            raise UsageError(
                f"{type(optimizer).__name__} makes its state with its parameters, and those of a "
                "model in parts have no values yet: take another optimizer, such as Adam or SGD"
            )


@torch.no_grad()
def read_weights(
    model: nn.Module, own: Mapping[nn.Parameter, str], stored: Stored, portion: Portions
) -> None:
    """Read what this rank has of the parameters, and all buffers, from a state."""
    named: list[tuple[str, Tensor]] = [(f"{PARAMETERS}{name}", one) for one, name in own.items()]
    named += [(f"{BUFFERS}{name}", one) for name, one in model.named_buffers()]
    for name, tensor in named:
        part = portion(tensor)
        if stored.kind(name) != (part.shape, tensor.dtype):
            shape, dtype = stored.kind(name)
            raise UsageError(
                f"'{name}' is {dtype}{list(shape)} in the state and {tensor.dtype}"
                f"{list(part.shape)} here: it is the state of another model"
            )
        stored.read_into(name, tensor, part)


@torch.no_grad()
def read_optimizer_parts(
    optimizer: Optimizer, own: Mapping[nn.Parameter, str], stored: Stored, portion: Portions
) -> None:
    """Have an optimizer keep about these parameters what a state says, and nothing else."""
    write_groups(optimizer, stored)
    plain = stored.values["optimizer"]["entries"]
    for parameter, name in own.items():
        kept = dict(plain.get(name, {}))
        part = portion(parameter)
        for path in stored.names(prefix := f"{OPTIMIZER}{name}/"):
            entry = path.removeprefix(prefix)
            if "/" in entry:
                continue  # of another parameter, whose name begins so
            shape, dtype = stored.kind(path)
            if shape != part.shape or not shape:
                kept[entry] = stored.read(path)
                continue
            form = (parameter.shape, dense_strides(parameter))
            kept[entry] = torch.empty_strided(*form, dtype=dtype)
            stored.read_into(path, kept[entry], part)
        optimizer.state.pop(parameter, None)
        if kept:
            optimizer.state[parameter] = kept
