"""A model's layers in the order they run, with their shapes and parameter counts."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from phalanx.models.modes import kept_modes

Sizes: TypeAlias = int | tuple[int, ...] | str

# The root has no name among a model's modules.
ROOT = "(model)"


@dataclass(frozen=True)
class LayerRow:
    """One layer; shapes are those of one sample, None where a layer has or shows none."""

    name: str
    type: str
    parameters: int
    output_shape: tuple[int, ...] | None
    weight_shape: tuple[int, ...] | None
    padding: Sizes | None
    stride: Sizes | None


def parameter_count(model: nn.Module) -> int:
    """The number of a model's weights, those that layers share counted once."""
    return sum(_size(parameter) for parameter in model.parameters())


def layer_rows(
    model: nn.Module, input_shape: tuple[int, ...], *, dtype: torch.dtype = torch.float32
) -> list[LayerRow]:
    """A row for each module without children or with weights of its own, in execution order.

    The order and the output shapes come from one sample of zeros in evaluation mode, which leaves
    the model and torch's random state as they were. If the model fails on it, rows stand in the
    order of definition without output shapes. Layers that did not run come last. A row counts
    shared weights each time, `parameter_count` once.
    """
    layers = {
        module: name or ROOT
        for name, module in model.named_modules()
        if not any(True for _ in module.children()) or _own_parameters(module)
    }
    seen = _run(model, list(layers), torch.zeros(1, *input_shape, dtype=dtype))
    ordered = [*seen, *(module for module in layers if module not in seen)]
    return [_row(layers[module], module, seen.get(module)) for module in ordered]


def _run(
    model: nn.Module, layers: list[nn.Module], sample: Tensor
) -> dict[nn.Module, tuple[int, ...] | None]:
    """Each layer's output shape, in the order that layers first finished; nothing on failure."""
    shapes: dict[nn.Module, tuple[int, ...] | None] = {}

    def note(module: nn.Module, _: object, output: object) -> None:
        shape = tuple(output.shape[1:]) if isinstance(output, Tensor) else None
        shapes.setdefault(module, shape)

    if any(is_lazy(tensor) for tensor in [*model.parameters(), *model.buffers()]):
        return {}  # A run would fix the shapes of lazy weights.
    try:
        with ExitStack() as stack:
            stack.enter_context(_unchanged(model))
            for layer in layers:
                stack.callback(layer.register_forward_hook(note).remove)
            device = next((tensor.device for tensor in model.parameters()), sample.device)
            buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
            torch.func.functional_call(model, buffers, (sample.to(device),))
    except Exception:
        # Whatever a model raises on zeros, it may well train on real samples.
        return {}
    return shapes


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; each module's mode and random state come back after."""
    devices = {parameter.device for parameter in model.parameters() if parameter.is_cuda}
    with kept_modes(model), torch.no_grad(), torch.random.fork_rng(devices=devices):
        model.eval()
        yield


def _row(name: str, module: nn.Module, output_shape: tuple[int, ...] | None) -> LayerRow:
    return LayerRow(
        name=name,
        type=type(module).__name__,
        parameters=sum(_size(parameter) for parameter in _own_parameters(module)),
        output_shape=output_shape,
        weight_shape=_weight_shape(module),
        padding=_sizes(module, "padding"),
        stride=_sizes(module, "stride"),
    )


def _weight_shape(module: nn.Module) -> tuple[int, ...] | None:
    weight = getattr(module, "weight", None)
    return tuple(weight.shape) if isinstance(weight, Tensor) and not is_lazy(weight) else None


def _own_parameters(module: nn.Module) -> list[nn.Parameter]:
    return list(module.parameters(recurse=False))


def _size(parameter: nn.Parameter) -> int:
    return 0 if is_lazy(parameter) else parameter.numel()


def _sizes(module: nn.Module, attribute: str) -> Sizes | None:
    """A padding or stride as torch's layers keep it; a user's layer may call anything so."""
    value = getattr(module, attribute, None)
    return value if isinstance(value, int | tuple | str) else None
