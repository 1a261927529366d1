"""Samples of a user's own, for a trained model to answer: read as those of its training were.

Arrays are what the data set stores: a scale, a resize or a normalisation comes after. Images and
tables are what a user has; they go through the same steps as the training's images and tables did.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from phalanx.data.arrays import as_tensor, check_counts, check_finite, check_numbers
from phalanx.data.channels import as_stored
from phalanx.data.containers.npz_archive import array_names, read_array
from phalanx.data.formats.image_folder import SUFFIXES as IMAGES
from phalanx.data.formats.image_folder import image_paths
from phalanx.data.formats.npy import read_header
from phalanx.data.packages import need
from phalanx.data.rows import RowFile, Rows
from phalanx.data.source import Source
from phalanx.data.split import Split
from phalanx.data.tables.form import TableForm
from phalanx.data.targets.tasks import CLASSIFICATION
from phalanx.errors import DataError, UsageError
from phalanx.inference.input_files import is_table
from phalanx.inference.targets.said import Said, said_of
from phalanx.inference.user_table import Reading, UserTable, read_like_training
from phalanx.settings.table import Settings

#: What inputs and their classes in a .npz file may be called, in capitals or not; the first inputs
#: that are there count.
_ARRAYS = (("inputs", "targets"), ("x", "y"), ("x_test", "y_test"), ("x_train", "y_train"))
#: So many samples tell whether they are scaled.
_LOOKED_AT = 256
#: What a user should know.
_Notes = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class UserSamples:
    """Samples in their order, and the `places` that they have among all `count` that there are.

    The others cannot be read. What is known about all of them stands `beside` the answers, by the
    name of its column: files of images, or a column of a table. `labels` are what they are said to
    be, `notes` what a user should know.
    """

    split: Split
    places: Sequence[int]
    count: int
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Said | None = None
    notes: tuple[str, ...] = ()

    def kept(self, indices: Tensor) -> "UserSamples":
        """Those that could be read: the samples at these indices."""
        return replace(self, places=[self.places[index] for index in indices.tolist()])


def read_samples(
    path: Path,
    *,
    like: Split,
    settings: Settings,
    form: TableForm | None = None,
    classes: Sequence[str] = (),
    reading: Reading | None = None,
) -> UserSamples:
    """The samples at a path, which are to be as those of a split that a run was trained on.

    Models that were trained on a table take tables of its `form`. Images are in a folder of their
    class if all are in one that is called as one of the `classes`.
    """
    reading = Reading() if reading is None else reading
    if path.is_dir() or path.name.lower().endswith(IMAGES):
        skips = settings.skip_bad or reading.skip_bad
        return _images(path, like=like, settings=settings, classes=classes, skip_bad=skips)
    if is_table(path):
        return rows_like(read_like_training(path, form, reading), where=path, like=like)
    if path.suffix.lower() != ".npz":
        return arrays_like(_rows(path), where=path, like=like)
    inputs, labels, notes = _archive(path, settings.task or CLASSIFICATION, classes)
    found = arrays_like(inputs, where=path, like=like)
    return replace(found, labels=labels, notes=(*notes, *found.notes))


def arrays_like(inputs: Tensor | Source, *, where: object, like: Split) -> UserSamples:
    """Arrays as samples that are as those of a split."""
    split = split_like(inputs, where=where, like=like)
    return UserSamples(
        split=split,
        places=range(len(split)),
        count=len(split),
        notes=_scale_notes(split, where),
    )


def rows_like(table: UserTable, *, where: object, like: Split) -> UserSamples:
    """The rows of a table as samples that are as those of a split."""
    return UserSamples(
        split=split_like(_shaped(table.inputs, like), where=where, like=like),
        places=table.places,
        count=table.count,
        beside={} if table.beside is None else dict([table.beside]),
        labels=table.labels,
        notes=table.notes,
    )


def _scale_notes(split: Split, where: object) -> tuple[str, ...]:
    """A word about fractions where the training had bytes, which are made fractions later on."""
    some = split.fetch(torch.arange(min(len(split), _LOOKED_AT)))
    if split.scale in (None, 1) or not some.is_floating_point() or some.max() > 1:
        return ()
    return (
        f"{where}: values from {some.min():g} to {some.max():g}, where the model was trained on "
        "bytes from 0 to 255, which it scales by itself: give samples as they were stored there",
    )


def split_like(inputs: Tensor | Source, *, where: object, like: Split) -> Split:
    """Samples in a split of their own, stored, scaled and transformed as those of another."""
    inputs = as_stored(inputs, like.stored_shape)
    shape = _shape(inputs)
    if shape != like.stored_shape or len(inputs) == 0:
        wanted = ", ".join(["n", *map(str, like.stored_shape)])
        there = ", ".join(map(str, (len(inputs), *shape)))
        raise DataError(f"{where}: has shape ({there}), the model takes ({wanted}), n ≥ 1")
    return like.of(inputs, torch.zeros(len(inputs), dtype=torch.int64))


def _shape(inputs: Tensor | Source) -> tuple[int, ...]:
    return tuple(inputs.shape[1:]) if isinstance(inputs, Tensor) else inputs.shape


def _rows(path: Path) -> Source:
    """The samples of a .npy file, read when their turn comes: it may be larger than memory."""
    header = read_header(path)
    check_numbers(header.dtype, where=str(path))
    if not header.shape:
        raise DataError(f"{path}: one number, not samples")
    if header.fortran_order and len(header.shape) > 1:
        raise DataError(f"{path}: stored by columns; save numpy.ascontiguousarray of it")
    file = RowFile(path, header.shape[0], header.start, header.row_bytes)
    return Rows([file], shape=header.shape[1:], dtype=header.dtype)


def _archive(path: Path, task: str, names: Sequence[str]) -> tuple[Tensor, Said | None, _Notes]:
    """The inputs of a .npz file, what it says that they are, and a word if that is not taken so."""
    there = array_names(path)
    spelt = {name.lower(): name for name in there}
    found = next((pair for pair in _ARRAYS if pair[0] in spelt), None)
    if found is None:
        held = ", ".join(there) or "nothing"
        wanted = ", ".join(name for name, _ in _ARRAYS)
        raise DataError(f"{path}: holds {held}; needed are {wanted} or X")
    name, beside = spelt[found[0]], spelt.get(found[1])
    array = read_array(path, name)
    where = f"{path}: {name}"
    check_numbers(array.dtype, where=where)
    check_finite(array, where=where)
    if beside is None:
        return as_tensor(array), None, ()
    try:
        targets = read_array(path, beside)
        said = said_of(targets, names, where=f"{path}: {beside}", task=task)
        check_counts(len(array), len(said), files=(path, beside))
    except DataError as error:
        kind = "classes" if task == CLASSIFICATION else "targets"
        return as_tensor(array), None, (f"not taken as the samples' {kind}: {error}",)
    return as_tensor(array), said, ()


def _shaped(rows: Tensor, like: Split) -> Tensor:
    """A table's rows as samples, where each has as many numbers as a sample has."""
    shape = like.stored_shape
    return rows.reshape(-1, *shape) if rows.shape[1] == torch.Size(shape).numel() else rows


def _images(
    path: Path, *, like: Split, settings: Settings, classes: Sequence[str], skip_bad: bool
) -> UserSamples:
    if settings.dataset != "images":
        raise UsageError(
            f"--input {path}: image files are for models trained on data set images, and this one "
            f"was trained on {settings.dataset}: give a .npy, .npz or .csv file"
        )
    files = [path.name] if path.is_file() else _image_names(path)
    if not files:
        raise DataError(f"{path}: no images in it ({', '.join(IMAGES)})")
    folder = path.parent if path.is_file() else path
    split = images_like([str(folder / one) for one in files], like=like, skip_bad=skip_bad)
    folders = [Path(one).parts[0] for one in files]
    return UserSamples(
        split=split,
        places=range(len(files)),
        count=len(files),
        beside={"file": files},
        labels=folders if set(folders) <= set(classes) else None,
    )


def images_like(files: Sequence[str], *, like: Split, skip_bad: bool = False) -> Split:
    """Image files in a split of their own, decoded to the size of those of another."""
    need("PIL", for_what="Images", called="Pillow")
    from phalanx.data.formats.image_files import ImageFiles

    height, width = like.stored_shape[1:]
    source = ImageFiles(files, size=(height, width), skips_unreadable=skip_bad)
    return split_like(source, where=files[0], like=like)


def _image_names(folder: Path) -> list[str]:
    """The images under a folder, as paths from there, in the order of their names."""
    return [os.path.relpath(path, folder) for path in image_paths(folder)]
