"""Horovod's operations on tensors: blocking, begun (`_async`), in place (`_`), and in groups.

All are collective over their process set. Operations of the same name go together, in whatever
order ranks ask for them.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from phalanx.errors import UsageError
from phalanx.horovod.api import gradients
from phalanx.horovod.api.operations import (
    begin,
    check_group,
    check_reduction,
    checked,
    everything,
    request,
    run,
)
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.reductions import chosen_op

_ALL = global_process_set


def _reduction(
    tensors: Sequence[Tensor], average: bool | None, name: str | None, op: int | None,
    where: ProcessSet, grouped: bool,
) -> str:  # fmt: skip
    def check() -> str:
        chosen = chosen_op(average, op)
        check_reduction(chosen, tensors, where)
        return chosen.label

    return checked(check, "allreduce", name, where, grouped=grouped)


def _group(tensors: Sequence[Tensor], name: str | None, where: ProcessSet) -> list[Tensor]:
    return checked(lambda: check_group(tensors), "allreduce", name, where, grouped=True)


def _allreduce(
    tensors: list[Tensor], average: bool | None, name: str | None, op: int | None,
    prescale: float, postscale: float, where: ProcessSet, grouped: bool = False, **more: Any,
) -> Any:  # fmt: skip
    chosen = _reduction(tensors, average, name, op, where, grouped)
    return request(
        "allreduce", tensors, name, process_set=where, op=chosen, prescale=float(prescale),
        postscale=float(postscale), grouped=grouped, **more,
    )  # fmt: skip


def _allreduced(
    tensors: list[Tensor], average: bool | None, name: str | None, compression: Any,
    op: int | None, prescale: float, postscale: float, where: ProcessSet, grouped: bool,
) -> list[Tensor]:  # fmt: skip
    small = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in small]
    if gradients.needs_gradient(sent):
        fields = {
            "op": _reduction(sent, average, name, op, where, grouped), "prescale": float(prescale),
            "postscale": float(postscale), "grouped": grouped,
        }  # fmt: skip
        results = gradients.differentiable(gradients.Allreduce, name, where, fields, *sent)
    else:
        asked = _allreduce(sent, average, name, op, prescale, postscale, where, grouped=grouped)
        results = run(asked, everything)
    return [compression.decompress(r, c) for r, (_, c) in zip(results, small, strict=True)]


def allreduce(
    tensor: Tensor, average: bool | None = None, name: str | None = None,
    compression: Any = Compression.none, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = _ALL,
) -> Tensor:  # fmt: skip
    """Collective. All ranks' tensors combined (by default averaged), in a new one."""
    return _allreduced(
        [tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set,
        False,
    )[0]  # fmt: skip


def allreduce_async(
    tensor: Tensor, average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL,
) -> int:  # fmt: skip
    """Collective. Begin `allreduce`; the handle for `poll` and `synchronize`."""
    return begin(
        _allreduce([tensor], average, name, op, prescale_factor, postscale_factor, process_set)
    )


def allreduce_(
    tensor: Tensor, average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL,
) -> Tensor:  # fmt: skip
    """Collective. `allreduce` in place."""
    scales = prescale_factor, postscale_factor
    return run(_allreduce([tensor], average, name, op, *scales, process_set, in_place=True))  # type: ignore[no-any-return]


def allreduce_async_(
    tensor: Tensor, average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL,
) -> int:  # fmt: skip
    """Collective. Begin `allreduce_`."""
    scales = prescale_factor, postscale_factor
    return begin(_allreduce([tensor], average, name, op, *scales, process_set, in_place=True))


def grouped_allreduce(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None,
    compression: Any = Compression.none, op: int | None = None,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: ProcessSet = _ALL,
) -> list[Tensor]:  # fmt: skip
    """Collective. `allreduce` of several tensors, all or none of them."""
    return _allreduced(
        _group(tensors, name, process_set), average, name, compression, op, prescale_factor,
        postscale_factor, process_set, True,
    )  # fmt: skip


def grouped_allreduce_async(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL, _in_place: bool = False,
) -> int:  # fmt: skip
    """Collective. Begin `grouped_allreduce`."""
    asked = _allreduce(
        _group(tensors, name, process_set), average, name, op, prescale_factor, postscale_factor,
        process_set, grouped=True, in_place=_in_place,
    )  # fmt: skip
    return begin(asked, everything)


def grouped_allreduce_(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL,
) -> list[Tensor]:  # fmt: skip
    """Collective. `grouped_allreduce` in place."""
    asked = _allreduce(
        _group(tensors, name, process_set), average, name, op, prescale_factor, postscale_factor,
        process_set, grouped=True, in_place=True,
    )  # fmt: skip
    return run(asked, everything)  # type: ignore[no-any-return]


def grouped_allreduce_async_(
    tensors: Sequence[Tensor], average: bool | None = None, name: str | None = None,
    op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
    process_set: ProcessSet = _ALL,
) -> int:  # fmt: skip
    """Collective. Begin `grouped_allreduce_`."""
    return grouped_allreduce_async(
        tensors, average, name, op, prescale_factor, postscale_factor, process_set, _in_place=True
    )


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = _ALL
) -> Tensor:
    """Collective. The tensor of `root_rank` (a rank of the job), in a new one."""
    _check_root(root_rank, name, process_set)
    if gradients.needs_gradient([tensor]):
        arguments = tensor, root_rank, name, process_set
        return gradients.differentiable(gradients.Broadcast, *arguments)  # type: ignore[no-any-return]
    return run(request("broadcast", [tensor], name, process_set=process_set, root=root_rank))  # type: ignore[no-any-return]


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = _ALL
) -> int:
    """Collective. Begin `broadcast`."""
    _check_root(root_rank, name, process_set)
    return begin(request("broadcast", [tensor], name, process_set=process_set, root=root_rank))


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = _ALL
) -> Tensor:
    """Collective. `broadcast` in place."""
    _check_root(root_rank, name, process_set)
    return run(  # type: ignore[no-any-return]
        request("broadcast", [tensor], name, process_set=process_set, root=root_rank, in_place=True)
    )


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = _ALL
) -> int:
    """Collective. Begin `broadcast_`."""
    _check_root(root_rank, name, process_set)
    return begin(
        request("broadcast", [tensor], name, process_set=process_set, root=root_rank, in_place=True)
    )


def _check_root(root: int, name: str | None, where: ProcessSet) -> None:
    def check() -> None:
        if root not in where.ranks:
            raise UsageError(f"broadcast: root_rank {root} is not one of the ranks {where.ranks}")

    checked(check, "broadcast", name, where)
