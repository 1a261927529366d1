"""On which part of which data a trained model is used. Without torch."""

from pathlib import Path

from phalanx import data
from phalanx.data.location import data_path, is_same_data
from phalanx.data.options import TEST_SPLIT
from phalanx.data.tables.form import TableForm
from phalanx.errors import UsageError
from phalanx.runs.record import Record
from phalanx.settings.table import Settings


def on_data(
    settings: Settings,
    recorded: Record,
    *,
    data_dir: Path | None,
    test_split: float | None,
    encoding: str | None = None,
) -> Settings:
    """A run's settings for the data at another path, if one is given, or for another split of it.

    Of data that it was not trained on, a model is used on all samples, unless some are set apart as
    a test part; a table's encoding is its own.
    """
    trained_on = recorded.data or data_path(settings.dataset, settings.data_dir)
    same = data_dir is None or (trained_on is not None and is_same_data(trained_on, data_dir))
    if data_dir is not None:
        settings = settings.changed(data_dir=data_dir)
    if encoding is not None or not same:
        settings = settings.changed(encoding=encoding)
    if test_split is not None:
        return settings.changed(test_split=test_split)
    if same:
        return settings
    return without_split(settings.changed(test_split=None), form=recorded.table)


def without_split(settings: Settings, *, form: TableForm | None = None) -> Settings:
    """No samples need to be held out: nothing is trained on the others."""
    entries = {entry.name: entry for entry in data.describe()}
    if settings.dataset not in entries or TEST_SPLIT not in entries[settings.dataset].options:
        return settings
    if entries[settings.dataset].in_package:  # the same samples as a model was trained on
        return settings
    whole = settings.changed(test_split=0.0)
    try:
        data.check(whole.dataset, whole.data_dir, options=whole.data_options, form=form)
    except UsageError:  # there is a test part; what else is wrong comes up without a split, too
        return settings
    return whole
