"""A user's own data set: a function that returns a `phalanx.Dataset`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx import user_code
from phalanx.data.split import Dataset
from phalanx.data.user import find


def load(name: str, data_dir: Path | None, *, options: Mapping[str, Any], seed: int) -> Dataset:
    """Call the user's function and return the data set it reads."""
    source = find(name)
    function = user_code.load_function(source)
    available = {"data_dir": data_dir, "seed": seed}
    given = user_code.arguments(function, source=source, available=available)
    if data_dir is not None and "data_dir" not in given:
        raise source.refusal("it has no parameter data_dir: add one, or leave out --data-dir")
    dataset: object = function(**given, **options)
    if not isinstance(dataset, Dataset):
        raise source.refusal(
            f"{source.place} must return a phalanx.Dataset, got {type(dataset).__name__}: put its "
            "samples into one, Dataset(name, Split(inputs, targets), Split(…), classes); a data "
            "set of torch's as it is goes to Trainer.fit, in a script"
        )
    return dataset
