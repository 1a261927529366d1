"""Right and wrong answers for each label or class, from counts that add up over batches and ranks.

A label is answered where its output is above 0, its probability above one half; of classes the one
with the largest output is.
"""

import torch
from torch import Tensor

#: The counts of a label: answered rightly, answered, there.
WIDTH = 3
NAMES = ("f1-micro", "f1-macro")


def label_counts(outputs: Tensor, targets: Tensor) -> Tensor:
    """The counts over some samples, a row a label or class."""
    if targets.is_floating_point():
        answered, there = outputs > 0, targets > 0.5
        columns = ((answered & there).sum(0), answered.sum(0), there.sum(0))
    else:
        classes, answers = outputs.shape[1], outputs.argmax(1)
        sets = (answers[answers == targets], answers, targets)
        columns = tuple(torch.bincount(one, minlength=classes) for one in sets)  # type: ignore[assignment]
    return torch.stack([one.cpu() for one in columns], dim=1).to(torch.float64)


def label_values(counts: Tensor) -> dict[str, list[float]]:
    """Precision, recall and F1 of each label; 0 where there is nothing to divide by."""
    right, answered, there = counts.unbind(1)
    return {
        "precision": (right / answered.clamp_min(1)).tolist(),
        "recall": (right / there.clamp_min(1)).tolist(),
        "f1": (2 * right / (answered + there).clamp_min(1)).tolist(),
    }


def f1_of_all(counts: Tensor) -> dict[str, float]:
    """F1 over all answers alike (micro), and its mean over the labels (macro)."""
    right, answered, there = counts.sum(0).tolist()
    by_label = label_values(counts)["f1"]
    return {
        "f1-micro": 2 * right / max(answered + there, 1),
        "f1-macro": sum(by_label) / max(len(by_label), 1),
    }
