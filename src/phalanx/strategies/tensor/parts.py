"""Split layers of a model that no rank has as a whole: ranks evaluate together, and read files."""

from typing import Any, final

from torch import Tensor

from phalanx.state.model import parameter_names
from phalanx.state.parts import Stored
from phalanx.strategies.base import Task
from phalanx.strategies.building_blocks.initial_parts import read_optimizer_parts, read_weights
from phalanx.strategies.building_blocks.replica_groups import Groups
from phalanx.strategies.model_parts import Copy, ModelParts
from phalanx.strategies.tensor.model import SplitModel


@final
class TensorParts(ModelParts):
    """This rank's pieces, which stay split."""

    def __init__(self, task: Task, split: SplitModel, groups: Groups) -> None:
        self.copy = Copy(groups.replica, groups.replicas)
        self._task, self._split = task, split
        self._is_first = groups.members.rank == 0

    def outputs(self, inputs: Any) -> Tensor | None:
        outputs: Tensor = self._task.model(inputs)
        return outputs if self._is_first else None  # all ranks of a copy have the same

    def read(self, stored: Stored) -> None:
        task, portion = self._task, self._split.portion
        own = parameter_names(task.model, task.optimizer)
        read_weights(task.model, own, stored, portion)
        read_optimizer_parts(task.optimizer, own, stored, portion)
