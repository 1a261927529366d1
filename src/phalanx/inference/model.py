"""The model of a finished run, without the data that it was trained on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from phalanx import models
from phalanx.errors import RunError
from phalanx.runs.weights import load_weights
from phalanx.settings.table import Settings


def trained_model(
    run: Path, settings: Settings, result: Mapping[str, Any]
) -> tuple[nn.Module, tuple[int, ...]]:
    """The model with its trained weights, and the shape of one sample that it takes."""
    try:
        input_shape, classes = tuple(result["input_shape"]), len(result["classes"])
    except (KeyError, TypeError):
        raise RunError(
            f"{run / 'result.json'}: does not say what samples the model takes: train it again"
        ) from None
    model = models.build(
        settings.model,
        input_shape=input_shape,
        classes=classes,
        options=settings.model_options,
    )
    dtype: torch.dtype = getattr(torch, settings.dtype)
    model.to(dtype)
    load_weights(model, run / "model.safetensors")
    return model, input_shape
