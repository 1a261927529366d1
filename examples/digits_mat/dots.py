"""The time of both layers of the network, as phases: "hidden layer dot" and "output layer dot".

    phalanx train … --profile --callback examples/digits_mat/dots.py:Dots

They stand in history.csv then, `hidden_layer_dot_seconds` for one, and what is left of "forward" is
the cost of the outputs.
"""

from contextlib import ExitStack

from torch import nn
from torch.utils.hooks import RemovableHandle

from phalanx import Callback, Trainer
from phalanx.clock import phase


class Dots(Callback):
    """Hidden: from the inputs of the first layer to the outputs of its sigmoid. Output: the dot
    products of the last layer alone, because its sigmoid is computed along with the cost."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []

    def on_train_begin(self, trainer: Trainer) -> None:
        leaves = (one for one in trainer.model.modules() if not any(True for _ in one.children()))
        first, activation, last = (one for one in leaves if not isinstance(one, nn.Flatten))
        self._time("hidden layer dot", first, activation)
        self._time("output layer dot", last, last)

    def on_train_end(self, trainer: Trainer) -> None:
        # Layers are timed while they train: an evaluation is a phase of its own.
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _time(self, name: str, first: nn.Module, last: nn.Module) -> None:
        """Count for a phase from when the first layer is called until the last one is done."""
        inside = ExitStack()

        def begin(_layer: nn.Module, _inputs: object) -> None:
            inside.enter_context(phase(name))

        def end(_layer: nn.Module, _inputs: object, _outputs: object) -> None:
            inside.close()

        self._handles += [first.register_forward_pre_hook(begin), last.register_forward_hook(end)]
