"""The files of checkpoints: where a training stands, on disk (docs/checkpoints.md)."""

from phalanx.checkpoints.reading import latest, newest_whole, read_checkpoint
from phalanx.checkpoints.writing import CheckpointWriter

__all__ = ["CheckpointWriter", "latest", "newest_whole", "read_checkpoint"]
