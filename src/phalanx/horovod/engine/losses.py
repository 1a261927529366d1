"""Ranks that are lost: what was under way with them fails on every rank that is left."""

from collections.abc import Iterator
from contextlib import contextmanager

from phalanx.comm.recovery.survivors import noticing_losses
from phalanx.errors import RankLostError
from phalanx.horovod.engine.exceptions import HorovodInternalError


class RanksLostInternalError(HorovodInternalError, RankLostError):
    """An operation failed because ranks are lost; only `hvd.elastic.run` goes on from there."""


def as_loss(error: BaseException) -> RanksLostInternalError | None:
    """What to raise instead of an error of MPI's, if it may be that ranks are lost; else None.

    Every other rank is made to notice, too: what it waits for may not need who is lost.
    """
    if isinstance(error, RanksLostInternalError):
        return error
    try:
        with noticing_losses():
            raise error
    except RankLostError:
        from phalanx.comm.mpi import revoke_all

        revoke_all()
        return RanksLostInternalError(
            "a rank is lost, and with it the operation that it had a part in"
        )
    except BaseException:
        return None


@contextmanager
def ignoring_losses() -> Iterator[None]:
    """While inside, it makes no difference any more whether ranks are lost."""
    try:
        yield
    except Exception as error:
        if as_loss(error) is None:
            raise
