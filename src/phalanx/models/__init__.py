"""Models by name, or from a user's own file or module.

Importing this package does not import torch, so that names and options can be checked before any
rank starts. `phalanx.models.table` tells a model's layers.
"""

from phalanx.models.entries import ModelEntry
from phalanx.models.options import OPTIONS
from phalanx.models.registry import build, check, describe, model_names

__all__ = ["OPTIONS", "ModelEntry", "build", "check", "describe", "model_names"]
