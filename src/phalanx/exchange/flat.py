"""Flat storage: a model's parameters as views of one tensor, their gradients as views of another.

A strategy then moves one buffer a dtype, never a list of tensors. Gradients may have several
*rows*, one for each part of a batch that is summed apart. Several of torch's calls replace a view
by a tensor of its own without a word: `zero_grad()`, `model.to()`, `load_state_dict(assign=True)`.
`attach` and `collect` notice, and put the views back.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.exchange.views import Views
from phalanx.models.in_parts import device_of, give_memory

#: Each parameter starts at a multiple of so many elements. Kernels pick their path, and with it the
#: last bits of a result, by alignment; and a slice that ends on such a border leaves a vectorised
#: loop the same remainder as the whole does, so that cutting does not change bits.
_ALIGNMENT = 64
#: A block has at most about so many chunks, the units that slices and norms are cut in.
_MOST_CHUNKS = 4096

Allocate = Callable[[tuple[int, ...], torch.dtype], Tensor]


def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Memory of this rank's own."""
    return torch.zeros(shape, dtype=dtype)


def _zeros_beside(model: nn.Module) -> Allocate:
    """The same where a model is: on a GPU, if its parameters are."""
    device = device_of(model)
    return lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=device)


@dataclass(frozen=True)
class Layout:
    """Where the parameters of one dtype lie in a flat tensor."""

    dtype: torch.dtype
    parameters: tuple[nn.Parameter, ...]
    starts: tuple[int, ...]
    #: Elements in all, a multiple of `chunk`, which depends on the parameters alone.
    length: int
    chunk: int

    @property
    def row_length(self) -> int:
        """Elements of a row of gradients: behind them comes a mark for each parameter."""
        return self.length + len(self.parameters)


def layouts(model: nn.Module) -> list[Layout]:
    """How the trainable parameters of a model lie in flat storage, dtype by dtype."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    dtypes = dict.fromkeys(parameter.dtype for parameter in trainable)
    return [_layout([one for one in trainable if one.dtype == dtype]) for dtype in dtypes]


def _layout(parameters: list[nn.Parameter]) -> Layout:
    starts = [0]
    for parameter in parameters:
        starts.append(starts[-1] + _round_up(parameter.numel(), _ALIGNMENT))
    chunk = _ALIGNMENT * -(-starts[-1] // (_ALIGNMENT * _MOST_CHUNKS))
    return Layout(
        dtype=parameters[0].dtype,
        parameters=tuple(parameters),
        starts=tuple(starts[:-1]),
        length=_round_up(starts[-1], chunk),
        chunk=chunk,
    )


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


class FlatBlock:
    """The parameters of one dtype: their values in a flat tensor, their gradients in rows."""

    def __init__(
        self,
        layout: Layout,
        rows: int,
        *,
        allocate: Allocate,
        allocate_rows: Allocate,
        marks_apart: bool,
    ) -> None:
        self.layout = layout
        self.values = allocate((layout.length,), layout.dtype)
        # What the host knows stays with it: whoever asks a GPU waits for all that it has to do.
        self._marks_apart = marks_apart or not self.values.is_cpu
        width = layout.length if self._marks_apart else layout.row_length
        self.rows = allocate_rows((rows, width), layout.dtype)
        self._marks = (
            zeros((rows, len(layout.parameters)), layout.dtype)
            if self._marks_apart
            else self.rows[:, layout.length :]
        )
        self.value_views = Views(self.values, layout.parameters, starts=layout.starts)
        self.row_views = [Views(row, layout.parameters, starts=layout.starts) for row in self.rows]
        self._gradient_rows: list[Tensor] = [row[: layout.length] for row in self.rows]

    @property
    def gradients(self) -> Tensor:
        """The first row without its marks: where the sum over all rows is made."""
        return self._gradient_rows[0]

    def attach_values(self) -> None:
        """Put back every parameter that has been replaced, keeping what the replacement holds; one
        without values, of a model in parts, gets its memory here."""
        for index in self.value_views.replaced():
            parameter, view = self.layout.parameters[index], self.value_views.tensors[index]
            if parameter.is_meta:
                give_memory(parameter, view)
                continue
            self._check_kind(parameter)
            view.copy_(parameter.detach())
            parameter.data = view

    def lend(self, own: Callable[[Tensor], Tensor]) -> None:
        """Move every parameter to a copy of its values."""
        copies = self.shaped(own(self.values))
        for parameter, copy in zip(self.layout.parameters, copies, strict=True):
            parameter.data = copy

    def changed(self) -> list[nn.Parameter]:
        """The parameters whose values are others than the flat ones."""
        pairs = zip(self.layout.parameters, self.value_views.tensors, strict=True)
        return [one for one, view in pairs if not torch.equal(one.detach(), view)]

    def discard_values(self) -> None:
        """Put back every parameter that has been replaced, whatever the replacement holds."""
        for index in self.value_views.replaced():
            self.layout.parameters[index].data = self.value_views.tensors[index]

    def clear(self, row: int) -> None:
        """Set the gradients of a row to zero."""
        self._gradient_rows[row].zero_()

    def attach_gradients(self, row: int) -> None:
        """Have the next backward pass add to this row."""
        self.row_views[row].attach()

    def collect(self, row: int) -> None:
        """After a backward pass: see that all gradients are in the row."""
        self.row_views[row].collect()

    def release(self) -> None:
        """Give every parameter memory of its own, and take its gradient away."""
        self.value_views.release_values()
        for parameter in self.layout.parameters:
            parameter.grad = None

    def shaped(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Another flat tensor of this layout, as tensors that look like the parameters."""
        return Views(flat, self.layout.parameters, starts=self.layout.starts).tensors

    def _check_kind(self, parameter: nn.Parameter) -> None:
        if parameter.dtype != self.layout.dtype or parameter.device != self.values.device:
            was = f"{self.layout.dtype} on {self.values.device}"
            raise UsageError(
                f"a parameter has become {parameter.dtype} on {parameter.device}, and was {was} "
                "when the training was set up: make a new Trainer, and a new optimizer for it"
            )

    def marks(self) -> Tensor:
        """For each row and parameter, whether a gradient came (1) or not (0)."""
        return self._marks

    def messages(self, rows: int | slice) -> list[Tensor]:
        """What other ranks are sent of some rows: gradients and marks, one piece where they lie
        side by side."""
        return [self.rows[rows], self._marks[rows]] if self._marks_apart else [self.rows[rows]]


class FlatParameters:
    """A model's trainable parameters, moved into flat storage. Tied ones are stored once."""

    def __init__(
        self,
        model: nn.Module,
        *,
        rows: int = 1,
        allocate: Allocate | None = None,
        allocate_rows: Allocate | None = None,
        marks_apart: bool = False,
    ) -> None:
        """`marks_apart`: keep marks in memory of their own, as is done on devices anyway."""
        self.frozen = [one for one in model.parameters() if not one.requires_grad]
        allocate = allocate or _zeros_beside(model)
        allocate_rows = allocate_rows or allocate
        self.blocks = [
            FlatBlock(
                layout,
                rows,
                allocate=allocate,
                allocate_rows=allocate_rows,
                marks_apart=marks_apart,
            )
            for layout in layouts(model)
        ]
        self._slots = [
            (module._parameters, name, parameter)
            for module in model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]
        self._marked: dict[int, tuple[bool, ...]] = {}
        self.attach(0)

    def attach(self, row: int) -> None:
        """Set a row to zero and have the next backward passes add to it."""
        self._put_back_slots()
        for block in self.blocks:
            block.attach_values()
            block.clear(row)
            block.attach_gradients(row)
        self._versions = self._gradient_versions(row)

    def collect(self, row: int) -> None:
        """After the backward passes of a row: mark which parameters got a gradient."""
        before = self._versions
        for block in self.blocks:
            block.collect(row)
        came = tuple(a != b for a, b in zip(before, self._gradient_versions(row), strict=True))
        if self._marked.get(row) != came:  # seldom: the same parameters take part in every step
            self._marked[row] = came
            marks = list(came)
            for block in self.blocks:
                count = len(block.layout.parameters)
                block.marks()[row] = torch.tensor(marks[:count]).to(block.layout.dtype)
                del marks[:count]

    def lend(self, own: Callable[[Tensor], Tensor]) -> None:
        """Have the model work on copies of its values, which `own` makes of the flat ones."""
        self._put_back_slots()
        for block in self.blocks:
            block.lend(own)

    def changed(self) -> list[nn.Parameter]:
        """The parameters whose values are others than the flat ones, since they were lent."""
        self._put_back_slots()
        return [parameter for block in self.blocks for parameter in block.changed()]

    def take_back(self, *, write: bool) -> None:
        """Have the model work on the flat values again: as they are, or as it has changed them."""
        for block in self.blocks:
            if write:
                block.attach_values()
            block.discard_values()

    def add_to_first(self, row: int) -> None:
        """Add a row that has been collected to the first one, marks and all."""
        for block in self.blocks:
            block.gradients.add_(block.rows[row, : block.layout.length])
            marks = block.marks()
            torch.maximum(marks[0], marks[row], out=marks[0])
        self._marked.pop(0, None)  # they are no longer what that row itself had

    def release(self) -> None:
        """Give every parameter memory of its own again, and take its gradient away.

        The model stays as it is, and the flat memory goes with the last reference to this storage.
        """
        self._put_back_slots()
        for block in self.blocks:
            block.release()

    def _put_back_slots(self) -> None:
        for place, name, parameter in self._slots:
            if place[name] is not parameter:
                _put_back(place, name, parameter)

    def _gradient_versions(self, row: int) -> list[int]:
        # Adding to a tensor in place counts up its version, which the views of a row do not share.
        return [view._version for block in self.blocks for view in block.row_views[row].tensors]


def pieces_in(block: FlatBlock, slice_: slice) -> Iterator[tuple[nn.Parameter, slice, Tensor]]:
    """What of each parameter lies in a slice of a block: where in it, and its values."""
    for start, parameter in zip(block.layout.starts, block.layout.parameters, strict=True):
        low = max(start, slice_.start)
        high = min(start + parameter.numel(), slice_.stop)
        if low < high:
            yield parameter, slice(low - start, high - start), block.values[low:high]


def _put_back(place: dict[str, nn.Parameter | None], name: str, parameter: nn.Parameter) -> None:
    """Undo the exchange of a parameter object: optimizers still hold the one from before."""
    newcomer = place[name]
    if newcomer is not None:
        parameter.data = newcomer.data
    place[name] = parameter
