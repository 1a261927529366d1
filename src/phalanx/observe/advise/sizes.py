"""Networks of the same family that are wider or narrower: how much one rank takes for each."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from phalanx.comm.single import SingleCommunicator
from phalanx.models.options import HIDDEN
from phalanx.observe.advise.alone import gradient_bytes, time_alone
from phalanx.observe.advise.measurements import Size
from phalanx.observe.advise.probes import wait_for
from phalanx.train.session import Session, on_ranks

#: The models that have widths.
_FAMILY = "mlp"
_NARROWEST, _WIDER = 8, 3
#: Behind a network whose steps take longer, or that has more parameters, there is no wider one.
_LONGEST, _LARGEST = 0.1, 3_000_000


def time_sizes(
    session: Session, batch: int, tell: Callable[[str], None], *, seconds: float
) -> tuple[Size, ...]:
    """Collective. The first rank's steps for networks of other widths, if the model has widths."""
    comm = session.comm
    found: list[Size] = []
    if session.settings.model == _FAMILY:
        tell(f"one rank: narrower and wider networks ({_FAMILY})")
    if session.settings.model == _FAMILY and comm.rank == 0:
        for name, other in _networks(session):
            found.append(_size(name, other, (batch, -(-batch // comm.size)), seconds=seconds))
            if found[-1].whole.seconds > _LONGEST or found[-1].parameters > _LARGEST:
                break
    wait_for(comm)
    return comm.broadcast_object(tuple(found))


def _networks(session: Session) -> Iterator[tuple[str, Session]]:
    """Of the same depth, from narrow to wide."""
    settings = session.settings
    depth = max(1, len(settings.model_options.get(HIDDEN.name, HIDDEN.default)))
    width = _NARROWEST
    while True:
        hidden = (width,) * depth
        other = replace(session, settings=settings.changed(hidden=hidden))
        yield ",".join(map(str, hidden)), on_ranks(other, SingleCommunicator())
        width *= _WIDER


def _size(name: str, session: Session, samples: tuple[int, int], *, seconds: float) -> Size:
    (whole, update), (part, _) = (
        time_alone(session, one, seconds=seconds / 2, rounds=2) for one in samples
    )
    return Size(
        name=name,
        parameters=sum(one.numel() for one in session.model.parameters()),
        gradient=gradient_bytes(session.model),
        whole=whole,
        part=part,
        update=update,
    )
