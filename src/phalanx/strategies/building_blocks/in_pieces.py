"""Users' optimizers whose state is in pieces at present: on several ranks, or cut to slices.

Whoever reads such an optimizer would take it for a new one, or for a smaller one, without a word;
and whoever steps it by hand, after the training that keeps the pieces, would begin anew.
"""

from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from phalanx.errors import UsageError

_IN_PIECES: WeakSet[Optimizer] = WeakSet()
_GUARDS: WeakKeyDictionary[Optimizer, list[RemovableHandle]] = WeakKeyDictionary()


def mark_in_pieces(optimizer: Optimizer) -> None:
    """This rank's part of the optimizer's state is not the whole."""
    _IN_PIECES.add(optimizer)


def mark_whole(optimizer: Optimizer) -> None:
    """The optimizer's state is in one piece again."""
    _IN_PIECES.discard(optimizer)


def is_in_pieces(optimizer: Optimizer) -> bool:
    """Whether the optimizer's state is in pieces."""
    return optimizer in _IN_PIECES


def check_whole(optimizer: Optimizer) -> None:
    """Refuse an optimizer whose state another training keeps in pieces."""
    if optimizer in _IN_PIECES:
        raise UsageError(
            "this optimizer's state is in pieces on all ranks: have each of them call "
            "gather_optimizer_state() of the Trainer that it is used by, before it is closed; or "
            "make a new optimizer, and a Trainer that loads the state() of the other one"
        )


def guard(optimizer: Optimizer) -> None:
    """Have `state_dict()` refuse while the state is in pieces, until the guard is ended."""
    _remove(optimizer)
    _GUARDS[optimizer] = [optimizer.register_state_dict_pre_hook(check_whole)]


def end_guard(optimizer: Optimizer) -> None:
    """Nobody steps the optimizer from here on who knows of pieces; if there are any, they are gone,
    and `state_dict()` and `step()` refuse until a whole state is loaded."""
    if is_in_pieces(optimizer):
        _GUARDS[optimizer] += [
            optimizer.register_step_pre_hook(check_step),
            optimizer.register_load_state_dict_post_hook(mark_whole),
        ]
    else:
        _remove(optimizer)


def check_step(optimizer: Optimizer, *_arguments: Any) -> None:
    """Refuse to step an optimizer whose state is in pieces; a hook of it."""
    check_whole(optimizer)


def _remove(optimizer: Optimizer) -> None:
    for handle in _GUARDS.pop(optimizer, ()):
        handle.remove()
