"""Models by name, or from a user's own file or module.

Importing this package does not import torch, so that names and options can be checked before any
rank starts. `phalanx.models.table` tells a model's layers.
"""

from phalanx.models.entries import Entry
from phalanx.models.registry import build, check, describe, model_names

__all__ = ["Entry", "build", "check", "describe", "model_names"]
