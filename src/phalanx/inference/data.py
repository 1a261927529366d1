"""Samples for a trained model: what classes, categories and a normalisation are, its run says.

Taken from the samples at hand instead, they would be others than the model was trained with.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.data.loading.host import loaded_once
from phalanx.data.materialise import Ranks
from phalanx.data.options import parse_shape
from phalanx.data.prepare import prepare
from phalanx.data.source import Source
from phalanx.data.split import Dataset, Split
from phalanx.data.targets.scale import scale_from, standardised
from phalanx.data.targets.settle import settled
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.data.transforms import Normalise, Pool, Resize, Transform
from phalanx.errors import DataError, RunError
from phalanx.inference.user_samples import UserSamples
from phalanx.runs.folder import check_classes
from phalanx.runs.record import Record
from phalanx.settings.table import Settings

_log = logging.getLogger(__name__)


def load_like_training(
    settings: Settings, recorded: Record, comm: Communicator, dtype: torch.dtype
) -> Dataset:
    """Collective. The data that the settings name, read and normalised as the run's was."""
    options = settings.data_options
    known = {"form": recorded.table, "vocabulary": recorded.classes}
    loaded = loaded_once(comm, settings.dataset, settings.data_dir, options=options, **known)
    _tell(loaded.notes, comm)
    loaded = settled(loaded, settings.task or recorded.task)
    if recorded.classes is not None and recorded.task != CLASSIFICATION:
        _check_targets(recorded, loaded)
    elif recorded.classes is not None:
        check_classes(recorded.run, recorded.classes, there=loaded.classes)
        loaded = _relabelled(loaded, recorded.classes)
    if not settings.raw_targets:
        scale = None if recorded.targets is None else scale_from(recorded.targets)
        loaded = standardised(loaded, scale)
    step = _normalisation(recorded)
    if loaded.test.transforms:  # an embedded set has its own normalisation, which never changes
        step = None
    if step is not None:
        options = {name: value for name, value in options.items() if name != "normalise"}
    if not options.get("normalise"):
        loaded = replace(loaded, train=loaded.test)  # nothing needs the samples to train on
    dataset = prepare(loaded, options, comm=comm, dtype=dtype)
    if step is not None:
        test = dataset.test.transformed([step])
        dataset = replace(dataset, train=test, test=test)
    shape = dataset.test.input_shape
    if recorded.input_shape not in (None, shape):
        raise DataError(
            f"{settings.dataset}: a sample has the shape {_sizes(shape)}, and the model of "
            f"{recorded.run} takes {_sizes(recorded.input_shape or ())}"
        )
    return dataset


def pattern(recorded: Record) -> Split:
    """No samples, and all that is to be done to those that a run's model is given."""
    inputs = recorded.inputs
    if inputs is None or "shape" not in inputs:
        raise RunError(
            f"{recorded.run}: does not say what samples its model takes, as trainings do by now: "
            "train it again, or leave out --input"
        )
    steps: list[Transform] = []
    for name, make in (("resize", Resize), ("pool", Pool)):
        if name in inputs:
            height, width = parse_shape(inputs[name], option=name, dimensions=2)
            if (height, width) != tuple(inputs["shape"][1:]) or steps:
                steps.append(make(height, width))
    step = _normalisation(recorded)
    like = Split(
        torch.empty(0, *inputs["shape"]),
        torch.empty(0, dtype=torch.int64),
        inputs.get("scale"),
        transforms=steps if step is None else [*steps, step],
    )
    if "own_steps" in inputs or recorded.input_shape not in (None, like.input_shape):
        steps_of_own = ", ".join(inputs.get("own_steps", ["one that changes their shape"]))
        raise RunError(
            f"{recorded.run}: its data set has steps of its own ({steps_of_own}), which a run "
            "cannot write down, and samples from elsewhere would not go through: have the "
            "function of the data set give samples that are through them"
        )
    return like


def screened(samples: UserSamples, recorded: Record, comm: Ranks, dtype: torch.dtype) -> Dataset:
    """Collective. Samples of a user's own as a data set, without those that cannot be read.

    Targets are the places that samples had in their split.
    """
    _tell(samples.notes, comm)
    split = samples.split
    numbered = split.of(_stored(split), torch.arange(len(split)))
    scale = None if recorded.targets is None else scale_from(recorded.targets)
    dataset = Dataset(
        "input", numbered, numbered, recorded.classes or (), task=recorded.task, scale=scale
    )
    return prepare(dataset, {}, comm=comm, dtype=dtype)


def _check_targets(recorded: Record, loaded: Dataset) -> None:
    """Refuse data with other values or labels than a run was trained on."""
    if len(loaded.classes) != len(recorded.classes or ()):
        raise DataError(
            f"{recorded.run}: was trained on the targets {', '.join(recorded.classes or ())}, and "
            f"the data has {len(loaded.classes)} a sample: name data with the same ones"
        )


def _tell(notes: Sequence[str], comm: Ranks) -> None:
    """Say once what a user should know."""
    for note in notes if comm.rank == 0 else ():
        _log.warning("%s", note)


def _normalisation(recorded: Record) -> Normalise | None:
    inputs = recorded.inputs
    if inputs is None or "mean" not in inputs:
        return None
    mean, deviation = (
        torch.tensor(inputs[name], dtype=torch.float64) for name in ("mean", "deviation")
    )
    precision: torch.dtype = getattr(torch, inputs.get("precision", "float64"))
    return Normalise(mean, deviation, precision=precision)


def _relabelled(dataset: Dataset, classes: tuple[str, ...]) -> Dataset:
    """The data set with its classes counted as in another order, or among more."""
    if dataset.classes == classes:
        return dataset
    place = torch.tensor([classes.index(name) for name in dataset.classes])
    train, test = (
        split.of(_stored(split), place[split.targets]) for split in (dataset.train, dataset.test)
    )
    same = dataset.test is dataset.train
    return replace(dataset, train=train, test=train if same else test, classes=classes)


def _stored(split: Split) -> Tensor | Source:
    return split.inputs if split.source is None else split.source


def _sizes(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))
