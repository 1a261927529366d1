"""What is known about the test samples of a data set: their classes, and the files of images."""

import os
from collections.abc import Sequence

import torch

from phalanx.data.location import data_path
from phalanx.data.split import Dataset
from phalanx.inference.targets.said import said_by
from phalanx.inference.user_samples import UserSamples
from phalanx.settings.table import Settings


def test_samples(dataset: Dataset, settings: Settings) -> UserSamples:
    """The test samples, for answers to stand beside; files are named from the data's folder."""
    test, count = dataset.test, len(dataset.test)
    files = None if test.source is None else test.source.files(torch.arange(count))
    folder = data_path(settings.dataset, settings.data_dir)
    beside: dict[str, Sequence[str]] = {}
    if files is not None:
        beside["file"] = (
            files if folder is None else [os.path.relpath(one, folder) for one in files]
        )
    labels = said_by(dataset)
    return UserSamples(split=test, places=range(count), count=count, beside=beside, labels=labels)
