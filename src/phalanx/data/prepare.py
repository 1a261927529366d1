"""A data set made ready for a training: what cannot be read left out, steps on samples added.

This takes all ranks: each looks at its share of the samples.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from phalanx.data.batches import cut
from phalanx.data.materialise import Ranks, materialised
from phalanx.data.normalise import measure
from phalanx.data.options import parse_shape, transformed_shape
from phalanx.data.source import WAY_OUT, Source
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Crop, CropWindow, Flip, Pool, Resize, Transform
from phalanx.errors import DataError
from phalanx.pulse import pulse

_log = logging.getLogger(__name__)
_CHUNK = 256


def prepare(
    dataset: Dataset,
    options: Mapping[str, Any],
    *,
    comm: Ranks,
    dtype: torch.dtype = torch.float32,
) -> Dataset:
    """Collective. The data set with the steps that the options name.

    Training samples and test samples get the same steps, save the random ones, which are for
    training alone. Normalisation is by the training samples. `dtype` is what samples are taken in.
    """
    transformed_shape(dataset.name, dataset.input_shape, options)
    dataset = _screened(dataset, comm)
    fixed = _fixed(dataset.input_shape, options)
    train = materialised(dataset.train, fixed, dtype=dtype, comm=comm)
    same = dataset.test is dataset.train
    test = train if same else materialised(dataset.test, fixed, dtype=dtype, comm=comm)
    if options.get("normalise"):
        step = measure(train, rank=comm.rank, size=comm.size, add_up=comm.allreduce)
        train, test = train.transformed([step]), test.transformed([step])
    return replace(dataset, train=train.transformed(_random(options)), test=test)


def _fixed(shape: tuple[int, ...], options: Mapping[str, Any]) -> list[Transform]:
    steps: list[Transform] = []
    if "resize" in options:
        height, width = parse_shape(options["resize"], option="resize", dimensions=2)
        if shape[1:] != (height, width):  # images can be decoded to that size already
            steps.append(Resize(height, width))
    if "pool" in options:
        height, width = parse_shape(options["pool"], option="pool", dimensions=2)
        steps.append(Pool(height, width))
    return steps


def _random(options: Mapping[str, Any]) -> list[Transform]:
    steps: list[Transform] = []
    if options.get("flip"):
        steps.append(Flip(options.get("flip_probability") or 0.5))
    if options.get("crop_window"):
        steps.append(CropWindow(options["crop_window"], options.get("crop_probability") or 0.5))
    if options.get("crop"):
        steps.append(Crop(options["crop"]))
    return steps


def _screened(dataset: Dataset, comm: Ranks) -> Dataset:
    """Collective. The data set without samples that cannot be read, if it is to do without."""
    train = _readable(dataset.train, comm)
    if dataset.test is dataset.train:
        return replace(dataset, train=train, test=train)
    return replace(dataset, train=train, test=_readable(dataset.test, comm))


def _readable(split: Split, comm: Ranks) -> Split:
    """Collective. The split, without what cannot be read, or with a glance at every sample."""
    source = split.source
    if source is None:
        return split
    if not source.skips_unreadable:
        _check_fit(source, comm)
        return split
    bad = torch.zeros(len(split), dtype=torch.uint8)
    for indices in _chunks(source, comm):
        for index, cause in source.unreadable(indices).items():
            _log.warning("left out: %s", cause)
            bad[index] = 1
    comm.allreduce(bad)
    if bad.all():
        raise DataError("none of the samples can be read")
    return split.subset((bad == 0).nonzero().flatten()) if bad.any() else split


def _check_fit(source: Source, comm: Ranks) -> None:
    """Raise for what is seen to be no sample at a glance: better now than in the first epoch."""
    for indices in _chunks(source, comm):
        found = source.misfits(indices)
        for cause in found.values():
            more = f" (and {len(found) - 1} more nearby)" if len(found) > 1 else ""
            raise DataError(f"{cause}{more}: {WAY_OUT}")


def _chunks(source: Source, comm: Ranks) -> Iterator[Tensor]:
    """The samples of a source that this rank is to look at, some at a time."""
    mine = cut(len(source), comm.size)[comm.rank]
    for start in range(mine.start, mine.stop, _CHUNK):
        pulse.beats += 1
        yield torch.arange(start, min(start + _CHUNK, mine.stop))
