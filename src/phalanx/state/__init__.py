"""Where a training stands, as one value: to save, to move to other ranks, to go on from."""

from phalanx.state.gathering import gather
from phalanx.state.parts import Share, Slice, State

__all__ = ["Share", "Slice", "State", "gather"]
