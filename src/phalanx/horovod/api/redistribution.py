"""Operations that give each rank other rows: allgather, alltoall and reducescatter.

All are collective over their process set, and match by name as those in `collectives`.
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
    check_rows,
    checked,
    everything,
    refuse,
    request,
    run,
    split_rows,
)
from phalanx.horovod.api.process_sets import ProcessSet, global_process_set
from phalanx.horovod.engine.compression import Compression
from phalanx.horovod.engine.exceptions import HorovodInternalError
from phalanx.horovod.engine.reductions import Adasum, Average, ReduceOp, chosen_op

_ALL = global_process_set


def _group(
    tensors: Sequence[Tensor], verb: str, name: str | None, where: ProcessSet
) -> list[Tensor]:
    return checked(lambda: check_group(tensors), verb, name, where, grouped=True)


def _gathered(
    tensors: list[Tensor], name: str | None, where: ProcessSet, *, grouped: bool
) -> list[Tensor]:
    if gradients.needs_gradient(tensors):
        return list(
            gradients.differentiable(
                gradients.Allgather, name, where, {"grouped": grouped}, *tensors
            )
        )
    asked = request("allgather", tensors, name, process_set=where, grouped=grouped)
    return run(asked, everything)  # type: ignore[no-any-return]


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = _ALL) -> Tensor:
    """Collective. All ranks' tensors after each other; numbers of rows may differ."""
    return _gathered([tensor], name, process_set, grouped=False)[0]


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = _ALL) -> int:
    """Collective. Begin `allgather`."""
    return begin(request("allgather", [tensor], name, process_set=process_set))


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = _ALL
) -> list[Tensor]:
    """Collective. `allgather` of several tensors, all or none of them."""
    return _gathered(
        _group(tensors, "allgather", name, process_set), name, process_set, grouped=True
    )


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = _ALL
) -> int:
    """Collective. Begin `grouped_allgather`."""
    group = _group(tensors, "allgather", name, process_set)
    asked = request("allgather", group, name, process_set=process_set, grouped=True)
    return begin(asked, everything)


def alltoall(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = _ALL
) -> Any:
    """Collective. Rows from every rank: the first `splits[0]` go to rank 0, and so on.

    Without `splits` in equal parts. With them, also returns how many rows came from each rank.
    """
    rows = _split_rows(splits, tensor, name, process_set)
    if gradients.needs_gradient([tensor]):
        output, received = gradients.differentiable(
            gradients.Alltoall, tensor, rows, name, process_set
        )
    else:
        asked = request("alltoall", [tensor], name, process_set=process_set, splits=rows)
        output, received = run(asked)
    return output if splits is None else (output, received)


def alltoall_async(
    tensor: Tensor, splits: Any = None, name: str | None = None, process_set: ProcessSet = _ALL
) -> int:
    """Collective. Begin `alltoall`; its result is the rows, and how many came from each rank."""
    rows = _split_rows(splits, tensor, name, process_set)
    return begin(request("alltoall", [tensor], name, process_set=process_set, splits=rows))


def _split_rows(
    splits: object, tensor: Tensor, name: str | None, where: ProcessSet
) -> tuple[int, ...] | None:
    return checked(lambda: split_rows(splits, tensor, where), "alltoall", name, where)


def _reduction(
    tensors: list[Tensor], name: str | None, op: int, where: ProcessSet,
    scales: tuple[float, float], grouped: bool = False,
) -> dict[str, Any]:  # fmt: skip
    def check() -> ReduceOp:
        chosen = chosen_op(None, op)
        check_rows("reducescatter", tensors)
        check_reduction(chosen, tensors, where)
        return chosen

    if op == Adasum:  # whatever the tensors are, and the error that Horovod has for it
        problem = UsageError("reducescatter has no Adasum: use op=hvd.Sum or hvd.Average")
        refuse(problem, "reducescatter", name, where, grouped=grouped)
        raise HorovodInternalError(str(problem))
    chosen = checked(check, "reducescatter", name, where, grouped=grouped)
    fields = {"op": chosen.label, "prescale": float(scales[0]), "postscale": float(scales[1])}
    return {**fields, "grouped": grouped}


def _scattered(
    tensors: list[Tensor], name: str | None, compression: Any, op: int, where: ProcessSet,
    scales: tuple[float, float], grouped: bool,
) -> list[Tensor]:  # fmt: skip
    small = [compression.compress(tensor) for tensor in tensors]
    sent = [tensor for tensor, _ in small]
    fields = _reduction(sent, name, op, where, scales, grouped)
    if gradients.needs_gradient(sent):
        results = gradients.differentiable(gradients.Reducescatter, name, where, fields, *sent)
    else:
        asked = request("reducescatter", sent, name, process_set=where, **fields)
        results = run(asked, everything)
    return [compression.decompress(r, c) for r, (_, c) in zip(results, small, strict=True)]


def reducescatter(
    tensor: Tensor, name: str | None = None, compression: Any = Compression.none,
    op: int = Average, process_set: ProcessSet = _ALL,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> Tensor:  # fmt: skip
    """Collective. This rank's rows of all tensors combined; the first ranks get one more."""
    scales = prescale_factor, postscale_factor
    return _scattered([tensor], name, compression, op, process_set, scales, False)[0]


def reducescatter_async(
    tensor: Tensor, name: str | None = None, op: int = Average,
    process_set: ProcessSet = _ALL, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> int:  # fmt: skip
    """Collective. Begin `reducescatter`."""
    fields = _reduction([tensor], name, op, process_set, (prescale_factor, postscale_factor))
    return begin(request("reducescatter", [tensor], name, process_set=process_set, **fields))


def grouped_reducescatter(
    tensors: Sequence[Tensor], name: str | None = None, compression: Any = Compression.none,
    op: int = Average, process_set: ProcessSet = _ALL,
    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> list[Tensor]:  # fmt: skip
    """Collective. `reducescatter` of several tensors, all or none of them."""
    scales = prescale_factor, postscale_factor
    group = _group(tensors, "reducescatter", name, process_set)
    return _scattered(group, name, compression, op, process_set, scales, True)


def grouped_reducescatter_async(
    tensors: Sequence[Tensor], name: str | None = None, op: int = Average,
    process_set: ProcessSet = _ALL, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
) -> int:  # fmt: skip
    """Collective. Begin `grouped_reducescatter`."""
    group = _group(tensors, "reducescatter", name, process_set)
    fields = _reduction(group, name, op, process_set, (prescale_factor, postscale_factor), True)
    asked = request("reducescatter", group, name, process_set=process_set, **fields)
    return begin(asked, everything)
