"""Data sets by name, and the seeded global batches that every rank cuts alike.

Importing this package does not import torch, so that names and folders can be checked before any
rank starts. `phalanx.data.split` and `phalanx.data.batches` hold what needs torch.
"""

from phalanx.data.entries import DatasetEntry
from phalanx.data.options import OPTIONS, STEPS
from phalanx.data.registry import check, dataset_names, describe, load

__all__ = ["OPTIONS", "STEPS", "DatasetEntry", "check", "dataset_names", "describe", "load"]
