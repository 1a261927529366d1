"""Random numbers of a step (dropout, augmentation) come from (seed, step, part), never a rank."""

import torch
from torch import Tensor, nn

from phalanx.state import State
from phalanx.strategies.building_blocks.preserve import gpus_of

_RANDOM = "strategy/random"
_RANDOM_OF_GPU = "strategy/random of the GPU"
_MASK = (1 << 64) - 1


def seed_part(seed: int, step: int, part: int) -> None:
    """Set torch's generators, the CPU's and those of all GPUs, for one part of one step."""
    seed_all(mix(seed, step, part))


def seed_all(number: int) -> None:
    """Set them to a number."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)  # the model need not be on the current one


def random_state(device: torch.device) -> Tensor:
    """Where the random numbers are that layers on a device draw; in CPU memory."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.get_rng_state()


def set_random_state(state: Tensor, device: torch.device) -> None:
    """Have them go on from there."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def mix(*numbers: int) -> int:
    """64 well-spread bits from a few small numbers (the finaliser of SplitMix64, chained)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def read_random(model: nn.Module) -> State:
    """Where torch's own random numbers are: what a plain loop draws its dropout from."""
    found = State({_RANDOM: torch.get_rng_state()})
    for device in gpus_of([model]):
        found = found.add(State({_RANDOM_OF_GPU: torch.cuda.get_rng_state(device)}))
    return found


def write_random(model: nn.Module, state: State) -> None:
    """Go on with random numbers from there, if the state says where: others need not."""
    if _RANDOM in state.tensors:
        torch.set_rng_state(state.tensor(_RANDOM))
    for device in gpus_of([model]) if _RANDOM_OF_GPU in state.tensors else ():
        torch.cuda.set_rng_state(state.tensor(_RANDOM_OF_GPU), device)
