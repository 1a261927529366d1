"""Random numbers that depend on the run's seed alone, never on the rank."""

from typing import Any

import numpy as np

from phalanx.errors import UsageError

Bits = np.ndarray[Any, np.dtype[np.uint64]]

# The constants of SplitMix64, whose outputs can be had in any order.
_STRIDE = 0x9E3779B97F4A7C15
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31


def generator(*entropy: int, purpose: tuple[int, ...] = ()) -> np.random.Generator:
    """The generator of these numbers; another `purpose` gives an unrelated stream.

    Without a purpose it equals `numpy.random.default_rng([*entropy])`.
    """
    return np.random.default_rng(_sequence(entropy, purpose))


def bits(positions: Bits, *entropy: int, purpose: tuple[int, ...] = ()) -> Bits:
    """64 random bits at each position of a stream, whichever positions are asked for together."""
    key = _sequence(entropy, purpose).generate_state(1, np.uint64)
    mixed = key + (positions + np.uint64(1)) * np.uint64(_STRIDE)
    for shift, factor in _MIX:
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(_LAST_SHIFT)
    return mixed


def _sequence(entropy: tuple[int, ...], purpose: tuple[int, ...]) -> np.random.SeedSequence:
    if min(entropy) < 0:
        raise UsageError(f"a seed or epoch must be 0 or more, got {min(entropy)}")
    return np.random.SeedSequence(entropy, spawn_key=purpose)
