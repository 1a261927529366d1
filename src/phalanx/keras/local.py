"""Variables that each rank has for itself: their gradients do not travel."""

from collections.abc import Iterable, Sequence
from typing import Any, final

from phalanx.errors import UsageError
from phalanx.keras.presence import keras


@final
class LocalVariables:
    """Those of some layers, looked up when needed (a layer may not be built yet), and others."""

    def __init__(self, layers: Any = None) -> None:
        self._layers = _layers(layers)
        #: Kept, so that no other variable gets the id of one.
        self._others: list[Any] = []

    def add(self, variable: Any) -> None:
        """One more, of whatever layer."""
        if not hasattr(variable, "shape"):
            raise UsageError(f"what is local to a rank must be a variable, not {variable!r}")
        self._others.append(variable)

    @property
    def are_some(self) -> bool:
        """Whether anything is local."""
        return bool(self._layers or self._others)

    def among(self, variables: Sequence[Any]) -> list[bool]:
        """Which of these are local."""
        found = [*self._others, *(one for layer in self._layers for one in layer.variables)]
        identities = set(map(id, found))
        return [id(variable) in identities for variable in variables]


def _layers(given: Any) -> list[Any]:
    layers = [given] if isinstance(given, keras.Layer) else given or []
    if isinstance(layers, str) or not isinstance(layers, Iterable):
        raise UsageError(f"local_layers takes Keras layers, not {given!r}")
    layers = list(layers)
    for layer in layers:
        if not isinstance(layer, keras.Layer):
            raise UsageError(f"local_layers takes Keras layers, not {layer!r}")
    return layers
