"""Random numbers of a step (dropout, augmentation) come from (seed, step, part), never a rank."""

import torch

from phalanx.state import State

_RANDOM = "strategy/random"
_MASK = (1 << 64) - 1


def seed_part(seed: int, step: int, part: int) -> None:
    """Set torch's generators, the CPU's and the GPU's in use, for one part of one step."""
    number = mix(seed, step, part)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(number)


def mix(*numbers: int) -> int:
    """64 well-spread bits from a few small numbers (the finaliser of SplitMix64, chained)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def read_random() -> State:
    """Where torch's own random numbers are: what a plain loop draws its dropout from."""
    return State({_RANDOM: torch.get_rng_state()})


def write_random(state: State) -> None:
    """Go on with random numbers from there, if the state says where: others need not."""
    if _RANDOM in state.tensors:
        torch.set_rng_state(state.tensor(_RANDOM))
