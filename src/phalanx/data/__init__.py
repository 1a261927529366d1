"""Data sets by name, and the seeded global batches that every rank cuts alike.

Importing this package does not import torch, so that names and folders can be checked before any
rank starts. `phalanx.data.split` and `phalanx.data.batches` hold what needs torch.
"""

from phalanx.data.registry import Entry, check, dataset_names, describe, load

__all__ = ["Entry", "check", "dataset_names", "describe", "load"]
