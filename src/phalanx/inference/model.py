"""The model of a run, without the data that it was trained on."""

import torch
from torch import nn

from phalanx import models
from phalanx.errors import RunError
from phalanx.runs.folder import weights_of
from phalanx.runs.record import Record
from phalanx.runs.weights import load_weights
from phalanx.settings.table import Settings
from phalanx.train.checks.outputs import check_outputs


def trained_model(
    recorded: Record, settings: Settings, *, model: nn.Module | None = None
) -> tuple[nn.Module, tuple[int, ...]]:
    """The model with its trained weights, and the shape of one sample that it takes.

    One that is given gets these weights.
    """
    if recorded.input_shape is None or recorded.classes is None:
        raise RunError(f"{recorded.run}: does not say what samples the model takes: train it again")
    shape, classes = recorded.input_shape, len(recorded.classes)
    dtype: torch.dtype = getattr(torch, settings.dtype)
    if model is not None:
        load_weights(model.to(dtype), weights_of(recorded.run))
        return model, shape
    with torch.random.fork_rng(devices=[]):  # what a caller draws next is up to the caller
        torch.manual_seed(settings.seed)
        model = models.build(
            settings.model, input_shape=shape, classes=classes, options=settings.model_options
        ).to(dtype)
    if ":" in settings.model:
        check_outputs(model, settings.model, input_shape=shape, classes=classes, dtype=dtype)
    load_weights(model, weights_of(recorded.run))
    return model, shape
