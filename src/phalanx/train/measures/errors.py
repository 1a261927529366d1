"""The errors of a regression, from sums over its samples that add up over batches and ranks.

Each is a number for every target, and their mean over the targets, as scikit-learn has them.
"""

import torch
from torch import Tensor

#: The sums of a target: samples, squared errors, absolute errors, targets, squared targets.
WIDTH = 5
NAMES = ("r2", "mae", "rmse", "mse")


def error_sums(outputs: Tensor, targets: Tensor) -> Tensor:
    """The sums over some samples, a row a target."""
    wanted = targets.to(torch.float64)
    wrong = outputs.to(torch.float64) - wanted
    count = torch.full((outputs.shape[1],), float(len(outputs)), dtype=torch.float64)
    sums = (wrong.square().sum(0), wrong.abs().sum(0), wanted.sum(0), wanted.square().sum(0))
    return torch.stack([count, *(one.cpu() for one in sums)], dim=1)


def error_values(sums: Tensor, unit: Tensor | None = None) -> dict[str, list[float]]:
    """R², and the mean errors in the unit that 1 stands for, of each target.

    Of targets that are all the same R² is 1 if the answers are, too, and else 0.
    """
    count, squares, absolute, total, total_squares = sums.unbind(1)
    unit = torch.ones_like(count) if unit is None else unit.to(torch.float64)
    spread = (total_squares - total.square() / count).clamp_min(0)
    flat = spread <= torch.finfo(torch.float64).eps * total_squares
    explained = 1 - squares / torch.where(flat, 1.0, spread)
    right = (squares == 0).to(torch.float64)
    return {
        "r2": torch.where(flat, right, explained).tolist(),
        "mae": (absolute / count * unit).tolist(),
        "rmse": ((squares / count).sqrt() * unit).tolist(),
        "mse": (squares / count * unit.square()).tolist(),
    }
