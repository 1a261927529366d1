"""A pipeline whose model no rank has as a whole: its stages evaluate together, and read files."""

from collections.abc import Callable
from typing import Any, final

from torch import Tensor

from phalanx.state.parts import Stored
from phalanx.strategies.building_blocks.replica_groups import Groups
from phalanx.strategies.model_parts import Copy, ModelParts
from phalanx.strategies.pipeline.stage import Stage


@final
class PipelineParts(ModelParts):
    """This rank's stage."""

    def __init__(self, stage: Stage, groups: Groups, connect: Callable[[Tensor], None]) -> None:
        """`connect` lets the stages know what passes between them for such inputs."""
        self.copy = Copy(groups.replica, groups.replicas)
        self._stage = stage
        self._connect = connect

    def outputs(self, inputs: Any) -> Tensor | None:
        self._connect(inputs)
        return self._stage.passes.outputs(inputs)

    def read(self, stored: Stored) -> None:
        self._stage.read(stored)
