"""Random numbers that depend on the run's seed alone, never on the rank."""

import numpy as np

from phalanx.errors import UsageError


def generator(*entropy: int, purpose: tuple[int, ...] = ()) -> np.random.Generator:
    """The generator of these numbers; another `purpose` gives an unrelated stream.

    Without a purpose it equals `numpy.random.default_rng([*entropy])`.
    """
    if min(entropy) < 0:
        raise UsageError(f"a seed or epoch must be 0 or more, got {min(entropy)}")
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=purpose))
