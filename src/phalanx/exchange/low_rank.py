"""Sums of matrices of low rank: PowerSGD (Vogels, Karimireddy, Jaggi 2019).

A gradient M of n × m elements travels as P (n × r) and Q (m × r): P = M Q is added up over all
ranks and its columns made orthonormal, Q = Mᵀ P is added up, and P Qᵀ is what everybody takes for
the sum. Q of the last step is where the next one begins, which makes of many steps one power
iteration. What P Qᵀ lacks of the sum is added to the next step's gradients (error feedback).
Vectors, and matrices that would not become smaller by half, travel as they are, beside the P.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.exchange.lossy import LossySum
from phalanx.exchange.pairs import started_sum

#: Elements of a band of rows: few enough to stay in a core's cache from one operation to the next.
_BAND = 65536
#: A matrix must become smaller by this factor for it to be worth while; torch's hook has the same.
_LEAST_GAIN = 2
_SEED = 0x5EED


class Matrix(NamedTuple):
    """Rows of a parameter that follow each other in a flat tensor."""

    start: int
    rows: int
    columns: int

    @property
    def length(self) -> int:
        return self.rows * self.columns

    def pays(self, rank: int) -> bool:
        """Whether it becomes smaller by enough."""
        return (self.rows + self.columns) * rank * _LEAST_GAIN < self.length


class _Band(NamedTuple):
    """Some rows of a matrix, of what was lost of it, and of P."""

    values: Tensor
    lost: Tensor
    left: Tensor


class _Factored(NamedTuple):
    """A matrix with what was lost of it, in bands, and its factors where they are added up."""

    start: int
    #: What was lost; from start to finish with the values of the step, which it is to replace.
    lost: Tensor
    #: P, and Q the other way round, so that what is read together lies together.
    left: Tensor
    right: Tensor
    bands: tuple[_Band, ...]


def _factored(
    matrix: Matrix, tensor: Tensor, lost: Tensor, *, factors: tuple[Tensor, Tensor]
) -> _Factored:
    where = slice(matrix.start, matrix.start + matrix.length)
    values, kept = (one[where].view(matrix.rows, matrix.columns) for one in (tensor, lost))
    left, right = factors
    rows = max(1, _BAND // matrix.columns)
    cut = zip(*(torch.split(one, rows) for one in (values, kept, left)), strict=True)
    return _Factored(matrix.start, kept, left, right, tuple(_Band(*band) for band in cut))


@final
class LowRankSum(LossySum):
    """Two sums: of all P with what is not compressed, and of all Q."""

    needs_progress = True
    turns = 1

    def __init__(
        self, comm: Communicator, tensor: Tensor, matrices: Sequence[Matrix], *, rank: int
    ) -> None:
        """`matrices` lie in the tensor, in rising order; the elements between them are vectors."""
        self.tensor = tensor
        self._comm_rank, self._ranks = comm.rank, comm.size
        chosen = [matrix for matrix in matrices if matrix.pays(rank)]
        #: What of the tensor travels as it is.
        self._plain = _between(chosen, tensor.numel())
        plain = sum(where.stop - where.start for where in self._plain)
        kept = torch.zeros_like(tensor)
        self._lost = kept
        self._first = torch.zeros(
            plain + sum(one.rows for one in chosen) * rank, dtype=tensor.dtype
        )
        columns = sum(one.columns for one in chosen) * rank
        count = self._first.numel() - plain
        self._second = torch.zeros(columns + count, dtype=tensor.dtype)
        #: The first rank's P, for all to go by: the last bits of a QR need not be the same on all.
        self._lefts, self._common = self._first[plain:], self._second[columns:]
        lefts = torch.split(self._first[plain:], [one.rows * rank for one in chosen])
        rights = torch.split(self._second[:columns], [one.columns * rank for one in chosen])
        self._matrices = [
            _factored(one, tensor, kept, factors=(left.view(-1, rank), right.view(rank, -1)))
            for one, left, right in zip(chosen, lefts, rights, strict=True)
        ]
        self._scratch = torch.empty(
            max([_BAND, *(one.columns for one in chosen)]), dtype=tensor.dtype
        )
        self._begin_anew()
        self._sums = started_sum(comm, self._first), started_sum(comm, self._second)
        self._current = self._sums[0]

    def _begin_anew(self) -> None:
        """Factors that are the same on every rank."""
        for number, one in enumerate(self._matrices):
            generator = torch.Generator().manual_seed(_SEED + number)
            one.right.normal_(generator=generator)

    def start(self) -> None:
        place = 0
        for where in self._plain:
            count = where.stop - where.start
            self._first[place : place + count].copy_(self.tensor[where])
            place += count
        for one in self._matrices:
            for band in one.bands:
                band.lost.add_(band.values)
                torch.mm(band.lost, one.right.t(), out=band.left)
        self._current = self._sums[0]
        self._current.start()

    def test(self) -> bool:
        return self._current.test()

    def turn(self) -> None:
        self._current.finish()
        for one in self._matrices:
            one.left.copy_(torch.linalg.qr(one.left)[0])
            torch.mm(one.left.t(), one.lost, out=one.right)
        if self._comm_rank == 0:
            self._common.copy_(self._lefts)
        else:
            self._common.zero_()
        self._current = self._sums[1]
        self._current.start()

    def finish(self) -> None:
        self._current.finish()
        self._lefts.copy_(self._common)
        place = 0
        for where in self._plain:
            count = where.stop - where.start
            self.tensor[where].copy_(self._first[place : place + count])
            place += count
        for one in self._matrices:
            for band in one.bands:
                _product(band.left, one.right, out=band.values, scratch=self._scratch)
                # Every rank has lost its gradient less an equal share of what all of them take.
                band.lost.sub_(band.values, alpha=1 / self._ranks)
        if not self._second.isfinite().all():  # it would spoil all steps to come
            self._lost.zero_()
            self._begin_anew()

    def lost(self) -> Tensor | None:
        return self._lost.clone()

    def take_lost(self, lost: Tensor, *, of_all: bool) -> None:
        self._lost.zero_()
        if not of_all or self._comm_rank == 0:
            for one in self._matrices:
                where = slice(one.start, one.start + one.lost.numel())
                self._lost[where].copy_(lost[where])

    def factors(self) -> Iterator[tuple[int, Tensor]]:
        for one in self._matrices:
            yield one.start, one.right.t()


def _product(left: Tensor, right: Tensor, *, out: Tensor, scratch: Tensor) -> None:
    """P Qᵀ, element by element: the bits of a matrix product depend on who computes it, with how
    many threads, and every rank must have the same."""
    torch.mul(left[:, :1], right[0], out=out)
    more = scratch[: out.numel()].view(out.shape)
    for column in range(1, left.shape[1]):
        out.add_(torch.mul(left[:, column : column + 1], right[column], out=more))


def _between(matrices: Sequence[Matrix], length: int) -> list[slice]:
    """What lies before, between and behind matrices."""
    found, place = [], 0
    for matrix in matrices:
        found.append(slice(place, matrix.start))
        place = matrix.start + matrix.length
    found.append(slice(place, length))
    return [where for where in found if where.stop > where.start]
