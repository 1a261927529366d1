"""An objective of one's own: cross-entropy with smooth labels, on noisy inputs as well.

    phalanx train --objective examples/own_objective.py:steady --noise 0.2 --ranks 2

It is a function of the model and a batch, here the pair of inputs and targets, and returns a loss,
or a loss and the model's outputs: accuracy and the other metrics are those of the outputs. Its
parameters with defaults are flags. A mean over the samples needs nothing said.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def steady(
    model: nn.Module,
    batch: tuple[Tensor, Tensor],
    #: The deviation of what is added to inputs.
    noise: float = 0.1,
    #: How much of a label all classes share.
    smoothing: float = 0.05,
) -> tuple[Tensor, Tensor]:
    inputs, targets = batch
    outputs = model(inputs)
    loss = F.cross_entropy(outputs, targets, label_smoothing=smoothing)
    if model.training and noise:
        shaken = model(inputs + noise * torch.randn_like(inputs))
        # Answers should not change with the noise.
        loss = loss + F.mse_loss(shaken, outputs.detach())
    return loss, outputs
