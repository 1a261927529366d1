"""Adasum: a sum that counts what two gradients have in common once, not twice.

Two vectors are added up after each has lost half of its projection on the other. Orthogonal ones
give their sum, equal ones their average. Ranks combine in pairs, then pairs of pairs, and so on.
"""

import torch
from torch import Tensor

from phalanx.comm.base import Communicator

_TAG = 7


def adasum_(comm: Communicator, tensor: Tensor) -> None:
    """Collective. Combine everybody's tensor (contiguous, floating point), in place."""
    power = 1 << (comm.size.bit_length() - 1)
    beyond = comm.size - power
    # Ranks beyond the last power of two are first combined into one of the others.
    if comm.rank >= power:
        comm.send(tensor, comm.rank - power, tag=_TAG)
    else:
        if comm.rank < beyond:
            other = torch.empty_like(tensor)
            comm.receive(other, comm.rank + power, tag=_TAG)
            combine_(tensor, other)
        _double_up(comm, tensor, power)
    if comm.rank < beyond:
        comm.send(tensor, comm.rank + power, tag=_TAG)
    elif comm.rank >= power:
        comm.receive(tensor, comm.rank - power, tag=_TAG)


def _double_up(comm: Communicator, tensor: Tensor, power: int) -> None:
    other = torch.empty_like(tensor)
    distance = 1
    while distance < power:
        partner = comm.rank ^ distance
        arriving = comm.ireceive(other, partner, tag=_TAG)
        leaving = comm.isend(tensor.clone(), partner, tag=_TAG)
        arriving.wait()
        leaving.wait()
        # Both sides add in the same order, so that all ranks end with the same bits.
        if comm.rank < partner:
            combine_(tensor, other)
        else:
            combine_(other, tensor)
            tensor.copy_(other)
        distance *= 2


def combine_(left: Tensor, right: Tensor) -> None:
    """Replace `left` by the Adasum of two vectors."""
    one, two = left.double().flatten(), right.double().flatten()
    both, first, second = (float(a @ b) for a, b in ((one, two), (one, one), (two, two)))
    keep_left = 1.0 - both / (2.0 * first) if first else 1.0
    keep_right = 1.0 - both / (2.0 * second) if second else 1.0
    left.mul_(keep_left).add_(right, alpha=keep_right)
