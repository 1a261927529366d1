"""Which parameters a training is about: those that get gradients, and those that are stepped."""

from torch import nn
from torch.optim import Optimizer

from phalanx.errors import UsageError


def trained_parameters(model: nn.Module, optimizer: Optimizer) -> tuple[list[str], list[list[int]]]:
    """Which parameters get gradients, and which the optimizer steps, group by group."""
    free = [name for name, one in model.named_parameters() if one.requires_grad]
    return free, [[id(one) for one in group["params"]] for group in optimizer.param_groups]


def check_held(model: nn.Module, optimizer: Optimizer) -> None:
    """Refuse what no strategy would exchange, and so would be another on every rank."""
    known = set(model.parameters())
    if any(one not in known for group in optimizer.param_groups for one in group["params"]):
        raise UsageError(
            "the optimizer holds a parameter that is not the model's: make it an attribute of the "
            "model (of an nn.Module around it), so that the ranks share it"
        )
