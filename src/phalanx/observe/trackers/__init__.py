"""Trainings in other programs: callbacks that write what TensorBoard and MLflow expect."""

from phalanx.observe.trackers.mlflow import MLflow
from phalanx.observe.trackers.tensorboard import TensorBoard

__all__ = ["MLflow", "TensorBoard"]
