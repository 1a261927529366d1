"""A model whose layers are split over ranks while it trains, and whole while anybody reads it."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phalanx.comm.base import Communicator
from phalanx.state import State
from phalanx.state.model import BUFFERS, PARAMETERS, parameter_names
from phalanx.state.optimizer import SCALARS, put_entry, read_groups
from phalanx.state.parts import Part, Portion
from phalanx.strategies.tensor.collectives import Exchanger
from phalanx.strategies.tensor.layers import ByInput, ByOutput, DropoutOnSlice, Guarded, Link
from phalanx.strategies.tensor.pieces import find_pieces
from phalanx.strategies.tensor.plan import Split


@final
class SplitModel:
    """The user's own model, module by module split as a plan says, and made whole again."""

    def __init__(
        self, model: nn.Module, plan: Sequence[Split], *, comm: Communicator, optimizer: Optimizer
    ) -> None:
        self._model = model
        self._modules = dict(model.named_modules())
        self._comm = comm
        self._optimizer = optimizer
        self._is_split = False
        self._links = _make_links(plan, self._modules)
        self._pieces = [
            piece for split in plan for piece in find_pieces(self._modules[split.name], split, comm)
        ]
        exchanger = Exchanger(comm, channels_last=_has_channels_last(model))
        self._forwards = [
            (self._modules[split.name], self._forward(split, exchanger))
            for split in plan
            if split.how != "norm"  # which works on slices as it does on the whole
        ]
        self._forwards += self._guards(plan)
        self._by_tensor = {id(piece.tensor): piece for piece in self._pieces}

    def is_split(self, parameter: nn.Parameter) -> bool:
        """Whether each rank has a piece of its own of this parameter."""
        return id(parameter) in self._by_tensor

    def portion(self, tensor: Tensor) -> Portion:
        """What this rank has of a parameter or buffer while the model is split."""
        piece = self._by_tensor.get(id(tensor))
        return Portion(tuple(tensor.shape)) if piece is None else piece.portion

    def state(self, *, copy: bool = True) -> State:
        """This rank's pieces, and what its optimizer keeps about them; as copies, unless told
        otherwise."""
        names = parameter_names(self._model, self._optimizer)
        state = read_groups(self._optimizer, names)
        for parameter, name in names.items():
            state.tensors[f"{PARAMETERS}{name}"] = self._described(parameter, parameter, copy=copy)
            for entry, value in self._optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    is_piece = entry not in SCALARS
                    described = self._described(parameter, value, copy=copy) if is_piece else None
                    value = value.clone() if described is None else described
                put_entry(state, name, entry, value)
        for name, buffer in self._model.named_buffers():
            state.tensors[f"{BUFFERS}{name}"] = self._described(buffer, buffer, copy=True)
        return state

    def _described(self, owner: Tensor, value: Tensor, *, copy: bool) -> Part:
        piece = self._by_tensor.get(id(owner))
        if piece is None:
            return value.detach().clone() if copy else value.detach()
        return piece.describe(value, copy=copy)

    def split(self) -> None:
        """Keep this rank's pieces alone; nothing to do if that is so already."""
        if self._is_split:
            return
        for piece in self._pieces:
            piece.cut(self._optimizer)
        for module, forward in self._forwards:
            module.forward = forward
        self._is_split = True

    def join(self) -> None:
        """Collective. The whole model on every rank, as it was given but for its values."""
        if not self._is_split:
            return
        for piece in self._pieces:
            piece.join(self._comm)
        self.unhook()

    def unhook(self) -> None:
        """Give modules their own forward passes again."""
        for module, _ in self._forwards:
            del module.forward
        self._is_split = False

    def check_links(self) -> None:
        """Raise if the last pass did not use the pairs as pairs."""
        for link in self._links.values():
            link.check_closed()

    def _forward(self, split: Split, exchanger: Exchanger) -> Callable[[Tensor], Tensor]:
        module, link = self._modules[split.name], self._links.get(split.name)
        if split.how == "dropout":
            return DropoutOnSlice(module, split, exchanger=exchanger)
        if split.how == "output":
            return ByOutput(module, split, exchanger=exchanger, link=link)
        assert isinstance(module, nn.Linear | nn.Conv2d)
        link = self._links.get(split.partner or "")
        return ByInput(module, split, exchanger=exchanger, link=link)

    def _guards(self, plan: Sequence[Split]) -> list[tuple[nn.Module, Callable[[Tensor], Tensor]]]:
        links: dict[str, list[Link]] = {}
        for split in plan:
            if split.container is not None:
                links.setdefault(split.container, []).append(self._links[split.name])
        containers = [(self._modules[name], inside) for name, inside in links.items()]
        return [(container, Guarded(container, inside)) for container, inside in containers]


def _make_links(plan: Sequence[Split], modules: dict[str, nn.Module]) -> dict[str, Link]:
    """A link for each pair, by the name of its first layer."""
    links: dict[str, Link] = {}
    current: Link | None = None
    for split in plan:
        if split.how == "output" and split.partner is not None:
            dimensions = 4 if split.images else None
            known = split.container is None
            current = Link(split.name, split.partner, dimensions=dimensions, known=known)
            links[split.name] = current
        elif split.how == "norm" and isinstance(modules[split.name], nn.BatchNorm1d):
            # With a third dimension it would norm another one than the layer before it makes.
            assert current is not None
            current.dimensions = current.dimensions or 2
    return links


def _has_channels_last(model: nn.Module) -> bool:
    """Whether images are stored channels-last: some weights can tell, 1×1 ones cannot."""
    weights = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d)]
    return any(
        weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
        for weight in weights
    )
