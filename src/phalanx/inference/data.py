"""Samples for a trained model: what classes, categories and a normalisation are, its run says.

Taken from the samples at hand instead, they would be others than the model was trained with.
"""

from dataclasses import replace

import torch
from torch import Tensor

from phalanx import data
from phalanx.data.materialise import Ranks
from phalanx.data.options import parse_shape
from phalanx.data.prepare import prepare
from phalanx.data.source import Source
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Normalise, Pool, Resize, Transform
from phalanx.errors import DataError, RunError
from phalanx.runs.folder import check_classes
from phalanx.runs.record import Record
from phalanx.settings.table import Settings


def load_like_training(
    settings: Settings, recorded: Record, comm: Ranks, dtype: torch.dtype
) -> Dataset:
    """Collective. The data that the settings name, read and normalised as the run's was."""
    options = settings.data_options
    loaded = data.load(
        settings.dataset, data_dir=settings.data_dir, options=options, form=recorded.table
    )
    if recorded.classes is not None:
        check_classes(recorded.run, recorded.classes, there=loaded.classes)
        loaded = _relabelled(loaded, recorded.classes)
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
    return Split(
        torch.empty(0, *inputs["shape"]),
        torch.empty(0, dtype=torch.int64),
        inputs["scale"],
        transforms=steps if step is None else [*steps, step],
    )


def screened(samples: Split, recorded: Record, comm: Ranks, dtype: torch.dtype) -> Dataset:
    """Collective. Samples of a user's own as a data set, without those that cannot be read.

    Targets are the places that samples had.
    """
    numbered = samples.of(_stored(samples), torch.arange(len(samples)))
    dataset = Dataset("input", numbered, numbered, recorded.classes or ())
    return prepare(dataset, {}, comm=comm, dtype=dtype)


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
