"""The data sets by name: finding, checking and loading them. Their code is imported last."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx.data import user
from phalanx.data.entries import ENTRIES, DatasetEntry
from phalanx.data.location import check_files, dataset_folder, listed
from phalanx.data.options import SEED, STEPS, TASK, check_options, transformed_shape
from phalanx.data.targets.tasks import check_takes
from phalanx.errors import UsageError
from phalanx.options import names_of
from phalanx.wording import flag, unknown

if TYPE_CHECKING:
    from phalanx.data.split import Dataset
    from phalanx.data.tables.form import TableForm

EMBEDDED_FOLDER = Path(__file__).parent / "embedded"

_TABLE = {entry.name: entry for entry in ENTRIES}


def dataset_names() -> tuple[str, ...]:
    """Every name that `load` takes."""
    return tuple(_TABLE)


def describe() -> tuple[DatasetEntry, ...]:
    """Every data set's entry, in the order to list them."""
    return ENTRIES


def check(
    name: str,
    data_dir: Path | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    form: TableForm | None = None,
) -> None:
    """Raise for whatever cannot work and shows without torch: names, options, files, sizes.

    A table may have to be of the `form` that a model was trained with. A name with a colon is a
    user's data set, `path/to/file.py:function` or `package.module:function`: its file or module
    must be there.
    """
    options = {} if options is None else options
    if ":" in name:
        _check_user_options(name, options)
        return
    entry = _entry(name)
    check_options(name, options, accepted=entry.options)
    if not entry.takes_task:
        check_takes(name, options.get(TASK))
    shape = tuple(size for size in entry.input_shape if isinstance(size, int))
    if len(shape) == len(entry.input_shape):
        transformed_shape(name, shape, options)
    path = _locate(entry, data_dir, options.get("test_dir"))
    if entry.check is not None:
        module, _, function = entry.check.partition(":")
        verify: Callable[..., None] = getattr(importlib.import_module(module), function)
        verify(path, options, **({} if form is None else {"form": form}))


def load(
    name: str,
    *,
    data_dir: Path | None = None,
    options: Mapping[str, Any] | None = None,
    form: TableForm | None = None,
    vocabulary: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a data set: from `data_dir` if given, else from its folder in $PHALANX_DATA.

    `options` are those of the data set; the steps on samples are up to `phalanx.data.prepare`. A
    table is read by its `form`, if that is known, and tokens are those of a `vocabulary`.
    """
    options = {} if options is None else options
    if ":" in name:
        return _load_user_dataset(name, data_dir, options)
    entry = _entry(name)
    check_options(name, options, accepted=entry.options)
    path = _locate(entry, data_dir, options.get("test_dir"))
    takes = (*names_of(entry.options), *((SEED,) if entry.takes_seed else ()))
    takes += (TASK,) if entry.takes_task else ()
    given = {option: options[option] for option in takes if option in options}
    if form is not None:
        given["form"] = form
    if vocabulary is not None and entry.has_tokens:
        given["vocabulary"] = vocabulary
    dataset: Dataset = importlib.import_module(entry.module).load(path, **given)
    return dataset


def _check_user_options(name: str, options: Mapping[str, Any]) -> None:
    declared = user.declared(name)
    steps = names_of(STEPS)
    declared.check([one for one in options if one not in (*steps, SEED, TASK)], spell=flag)
    check_options(name, options, accepted=declared.options)


def _load_user_dataset(name: str, data_dir: Path | None, options: Mapping[str, Any]) -> Dataset:
    _check_user_options(name, options)
    known = names_of(user.declared(name).options)
    given = {option: value for option, value in options.items() if option in known}
    own = importlib.import_module("phalanx.data.user_dataset")
    dataset: Dataset = own.load(name, data_dir, options=given, seed=options.get(SEED, 0))
    return dataset


def _locate(entry: DatasetEntry, data_dir: Path | None, test_dir: Path | None) -> Path:
    if entry.embedded and data_dir is None:
        return EMBEDDED_FOLDER
    if entry.embedded and not entry.takes_path:
        raise UsageError(
            f"{entry.name} ships with Phalanx and is read from no folder: drop --data-dir"
        )
    wanted = entry.wanted or listed(entry.files)
    path = dataset_folder(entry.name, data_dir, wanted=wanted)
    if entry.check is None:
        elsewhere = () if test_dir is None else entry.test_files
        here = [name for name in entry.files if name not in elsewhere]
        check_files(entry.name, path, patterns=here)
        if test_dir is not None:
            check_files(entry.name, test_dir, patterns=elsewhere)
    return path


def _entry(name: str) -> DatasetEntry:
    if name in _TABLE:
        return _TABLE[name]
    raise unknown("data set", name, known=_TABLE, note=f"; your own is named as {user.FORMS}")
