"""A folder of images for each class: which files there are, and what they show. Without torch."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.folder import check_folder
from phalanx.data.packages import need
from phalanx.errors import DataError, UsageError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

_TRAINING = ("train", "training", "seg_train")
_TEST = ("test", "testing", "seg_test", "val", "validation")


@dataclass(frozen=True)
class Listing:
    """Image files in order, and the class of each."""

    paths: tuple[str, ...]
    labels: tuple[int, ...]


@dataclass(frozen=True)
class ImageFolder:
    """Everything in a folder; without a test part, all images are in `train`."""

    classes: tuple[str, ...]
    train: Listing
    test: Listing | None


def find(folder: Path) -> ImageFolder:
    """The images under a folder: in train/CLASS/ and test/CLASS/, or in CLASS/."""
    check_folder("images", folder, wanted="train/CLASS/*.jpg and test/CLASS/*.jpg, or CLASS/*.jpg")
    training = _subfolder(folder, _TRAINING)
    test = _subfolder(folder, _TEST)
    if training is None and test is not None:
        raise DataError(f"images: {folder} has {test.name}/, but none of {', '.join(_TRAINING)}")
    root = training or folder
    classes = _class_names(root)
    train = _listing(root, classes)
    seen = set(train.labels)
    for number, name in enumerate(classes):
        if number not in seen:
            raise DataError(f"images: {root / name} has no images in it")
    return ImageFolder(classes, train, None if test is None else _test_listing(test, classes))


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for a missing package, missing images, and a test part that there is already."""
    need("PIL", for_what="Images", called="Pillow")
    if find(path).test is not None and "test_split" in options:
        raise UsageError(f"{path} has test images of its own: leave out --test-split")


def _subfolder(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        if (folder / name).is_dir():
            # Some archives unpack to a folder of the same name inside.
            inner = folder / name / name
            return inner if inner.is_dir() else folder / name
    return None


def _class_names(root: Path) -> tuple[str, ...]:
    found = (one.name for one in root.iterdir() if one.is_dir() and not one.name.startswith("."))
    classes = tuple(sorted(found))
    if len(classes) < 2:
        there = f"only {classes[0]}/" if classes else "none"
        raise DataError(f"images: {root} needs a folder for each class, there is {there}")
    return classes


def _test_listing(test: Path, classes: tuple[str, ...]) -> Listing:
    known = set(classes)
    strangers = [name for name in _class_names(test) if name not in known]
    if strangers:
        raise DataError(f"images: {test / strangers[0]} is no class of the training images")
    listing = _listing(test, classes)
    if not listing.paths:
        raise DataError(f"images: {test} has no images in it")
    return listing


def _listing(root: Path, classes: tuple[str, ...]) -> Listing:
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        for folder, folders, files in os.walk(root / name):
            folders.sort()
            images = [one for one in sorted(files) if one.lower().endswith(SUFFIXES)]
            paths += [os.path.join(folder, one) for one in images]
            labels += [number] * len(images)
    return Listing(tuple(paths), tuple(labels))
