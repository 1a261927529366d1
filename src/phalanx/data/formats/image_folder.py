"""A folder of images for each class: which files there are, and what they show. Without torch."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phalanx.data.location import check_folder
from phalanx.data.packages import need
from phalanx.errors import DataError, UsageError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")

_TRAINING = ("train", "training", "seg_train")
_TEST = ("test", "testing", "seg_test")
_VALIDATION = ("val", "valid", "validation")
#: By macOS, by Python, by network storage, by Windows and by Linux.
_LEFT_BY_PROGRAMS = (
    *("__macosx", "__pycache__", "@eadir"),
    *("$recycle.bin", "system volume information", "lost+found"),
)

_log = logging.getLogger(__name__)


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
    """The images under a folder: in train/CLASS/ and test/CLASS/, or in CLASS/.

    Parts may be called in other ways, in capitals or not. Without test/, val/ is the test part.
    """
    check_folder("images", folder, wanted="train/CLASS/*.jpg and test/CLASS/*.jpg, or CLASS/*.jpg")
    training = _part(folder, _TRAINING)
    test = _part(folder, _TEST) or _part(folder, _VALIDATION)
    if training is None or not _folders(training):
        return _without_parts(folder, test)
    classes = _class_names(training)
    train = _full_listing(training, classes)
    if test is None:
        return ImageFolder(classes, train, None)
    if test.name.lower() in _VALIDATION:
        _log.info("images: no test images in %s: %s/ is taken to test with", folder, test.name)
    return ImageFolder(classes, train, _test_listing(test, classes))


def check(path: Path, options: Mapping[str, Any]) -> None:
    """Raise for a missing package, missing images, and a test part that there is already."""
    need("PIL", for_what="Images", called="Pillow")
    if find(path).test is not None and "test_split" in options:
        raise UsageError(f"{path} has test images of its own: leave out --test-split")


def _part(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The first subfolder that has one of these names."""
    spelt = {one.lower(): one for one in reversed(_folders(folder))}
    for name in names:
        if name in spelt:
            # Some archives unpack to a folder of the same name inside.
            inner = folder / spelt[name] / spelt[name]
            return inner if inner.is_dir() else folder / spelt[name]
    return None


def _without_parts(folder: Path, test: Path | None) -> ImageFolder:
    """A folder a class; train/ and test/ without folders inside are classes as any others."""
    if test is not None and _folders(test):
        raise DataError(
            f"images: {folder} has {test.name}/, but none of {', '.join(_TRAINING)} with a folder "
            "for each class"
        )
    classes = _class_names(folder)
    return ImageFolder(classes, _full_listing(folder, classes), None)


def _folders(root: Path) -> tuple[str, ...]:
    found = (one.name for one in root.iterdir() if one.is_dir() and not _is_aside(one.name))
    return tuple(sorted(found))


def _is_aside(name: str) -> bool:
    """Whether a folder or file is hidden, or left there by a program and nothing of a user's."""
    return name.startswith(".") or name.lower() in _LEFT_BY_PROGRAMS


def _class_names(root: Path) -> tuple[str, ...]:
    classes = _folders(root)
    if len(classes) < 2:
        there = f"only {classes[0]}/" if classes else "none"
        raise DataError(f"images: {root} needs a folder for each class, there is {there}")
    return classes


def _full_listing(root: Path, classes: tuple[str, ...]) -> Listing:
    listing = _listing(root, classes)
    seen = set(listing.labels)
    for number, name in enumerate(classes):
        if number not in seen:
            raise DataError(f"images: {root / name} has no images in it")
    return listing


def _test_listing(test: Path, classes: tuple[str, ...]) -> Listing:
    known = set(classes)
    strangers = [name for name in _folders(test) if name not in known]
    if strangers:
        raise DataError(f"images: {test / strangers[0]} is no class of the training images")
    listing = _listing(test, classes)
    if not listing.paths:
        raise DataError(f"images: {test} has no images in a folder of their class")
    return listing


def _listing(root: Path, classes: tuple[str, ...]) -> Listing:
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(classes):
        images = image_paths(root / name)
        paths += images
        labels += [number] * len(images)
    return Listing(tuple(paths), tuple(labels))


def image_paths(root: Path) -> list[str]:
    """The images in a folder and in those inside it, in the order of their names."""
    paths: list[str] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if not _is_aside(one))
        images = [one for one in sorted(files) if one.lower().endswith(SUFFIXES)]
        # macOS keeps what its own programs know of cat.jpg in ._cat.jpg.
        paths += [os.path.join(folder, one) for one in images if not _is_aside(one)]
    return paths
