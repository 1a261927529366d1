"""The configuration of a three-layer network, such as .irisenv or .imgenv, as settings.

    inputdataDims=4         # the values of a sample
    inputLayerNeurons=8     # the first layer, which reads the sample
    hiddenLayerNeurons=8    # the second layer
    outputLayerNeurons=3    # the third layer, an output a class
    labelOnehotDims=3       # the classes
    numEpochs=50
    learningRate=0.1
    batchSize=10            # samples a step and network that trains
    parallelism=4           # ranks; later files have no such line, and leave them to mpirun

All three layers are sigmoid, and what one hands to the next is standardised. The loss is the
squared error, summed over outputs, samples and ranks: the program that these files come from adds
up the changes of its workers. As there, several ranks train by `server`, one after every sample,
and a tenth of the samples is for validation. Nothing here imports torch.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phalanx import data
from phalanx.compat.entry_points import find_entry_point, with_entry_point
from phalanx.compat.key_values import Kinds, is_recognised, parse
from phalanx.documents import read_text
from phalanx.errors import UsageError
from phalanx.strategies.registry import OPTIONS, STRATEGIES, resolve

_KINDS: Kinds = {
    "inputdataDims": int,
    "inputLayerNeurons": int,
    "hiddenLayerNeurons": int,
    "outputLayerNeurons": int,
    "labelOnehotDims": int,
    "numEpochs": int,
    "learningRate": float,
    "batchSize": int,
    "parallelism": int,
}
#: Its later files leave the ranks to the launcher alone.
_OPTIONAL = ("parallelism",)
#: Settings that go by the whole gradient, which nobody has where changes of weights are sent.
_NEED_GRADIENTS = ("clip_norm", "shards")
_TENTH = 0.1


def read_three_layers(
    path: Path,
    flags: Mapping[str, Any],
    *,
    launched: int | None,
    entry: str | None = None,
    chooses_strategy: bool = True,
) -> dict[str, Any] | None:
    """The settings that such a file stands for; None if the file is of another kind.

    `flags` are settings that were given besides, and win: what would contradict them is left out.
    So are the ranks if so many are `launched` already. An `entry` is the program's own name for a
    strategy and a data set. A command that trains by strategies of its own has none of the file's.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError):
        return None  # whoever reads it as another kind says what is wrong
    if not is_recognised(text, _KINDS):
        return None
    values = parse(text, _KINDS, source=str(path), optional=_OPTIONAL)
    outputs, classes = values["outputLayerNeurons"], values["labelOnehotDims"]
    if outputs != classes:
        raise UsageError(
            f"{path}: outputLayerNeurons={outputs} and labelOnehotDims={classes} must be the same, "
            "an output a class"
        )
    settings: dict[str, Any] = {}
    if entry is not None:
        chosen = find_entry_point(entry)
        flags = with_entry_point(chosen, flags)
        settings |= {"strategy": chosen.strategy, "dataset": chosen.dataset}
    settings |= _training(values) | _network(values, flags) | _data(values, flags, source=path)
    settings |= _held_out(settings.get("dataset", flags.get("dataset")), flags)
    if not chooses_strategy:
        return settings | _ranks(values, flags, launched) | _batch(values, flags, alone=False)
    settings |= _ranks(values, flags, launched)
    ranks = launched or flags.get("ranks") or settings.get("ranks")
    if ranks is None and flags.get("device") != "cuda":  # where it would be one a GPU
        ranks = 1
    named = resolve(flags.get("strategy") or "")
    settings |= _strategy(flags, named, several=ranks is not None and ranks > 1)
    alone = named == "single" or (not named and ranks == 1)
    return settings | _batch(values, flags, alone=alone)


def _ranks(
    values: Mapping[str, Any], flags: Mapping[str, Any], launched: int | None
) -> dict[str, Any]:
    alone = resolve(flags.get("strategy") or "") == "single"
    if "parallelism" not in values or launched is not None or alone:
        return {}
    return {"ranks": values["parallelism"]}


def _strategy(flags: Mapping[str, Any], named: str, *, several: bool) -> dict[str, Any]:
    """The main network and those that send it the changes of their weights, where it is possible.

    Options of another strategy choose that one, as they do without such a file.
    """
    server = STRATEGIES["server"]
    others = any(
        not server.takes(one.name, flags[one.name]) for one in OPTIONS if one.name in flags
    )
    if named not in ("", "server") or (not named and (others or not several)):
        return {}
    changes = "exchange" not in flags and not any(map(flags.get, _NEED_GRADIENTS))
    if flags.get("optimizer", "sgd") != "sgd" or "decay" in flags.get("optimizer_options", ""):
        changes = False
    return {"strategy": "server"} | ({"exchange": "changes"} if changes else {})


def _batch(values: Mapping[str, Any], flags: Mapping[str, Any], *, alone: bool) -> dict[str, Any]:
    """The program steps after every sample if it trains alone, and else after each batch."""
    if flags.get("batch_size") is not None or flags.get("batch_size_per_rank") is not None:
        return {}
    return {"batch_size": 1} if alone else {"batch_size_per_rank": values["batchSize"]}


def _held_out(dataset: str | None, flags: Mapping[str, Any]) -> dict[str, Any]:
    """A tenth of the samples to validate with; of iris, another tenth to test with."""
    test = 0.0
    settings: dict[str, Any] = {}
    if dataset == "iris":
        test = flags.get("test_split", _TENTH)
        settings["test_split"] = test
    if flags.get("validation_split") is None and not flags.get("test_as_validation"):
        settings["validation_split"] = round(_TENTH / (1 - test), 4)  # of those that are left
    return settings


def _training(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "epochs": values["numEpochs"],
        "optimizer": "sgd",
        "learning_rate": values["learningRate"],
        "normalise": False,
        "loss": "squared-error",
        "reduction": "sum",
    }


def _network(values: Mapping[str, Any], flags: Mapping[str, Any]) -> dict[str, Any]:
    if flags.get("model") not in (None, "mlp"):
        return {}
    return {
        "model": "mlp",
        "hidden": (values["inputLayerNeurons"], values["hiddenLayerNeurons"]),
        "activation": "sigmoid",
        "output_activation": "sigmoid",
        "standardise": True,
    }


def _data(values: Mapping[str, Any], flags: Mapping[str, Any], *, source: Path) -> dict[str, Any]:
    """The data set, if an embedded one has the file's sizes; the size of images, if they are."""
    name = flags.get("dataset")
    if name is None:
        return {"dataset": _embedded(values, source=source)}
    if flags.get("resize") is not None or flags.get("pool") is not None:
        return {}
    if name == "images":
        side = math.isqrt(values["inputdataDims"] // 3)
        if 3 * side * side == values["inputdataDims"]:
            return {"resize": f"{side}x{side}"}
        raise UsageError(
            f"{source}: inputdataDims={values['inputdataDims']} is not 3 colours of a square "
            "image: give --resize"
        )
    _check_sizes(name, values, source=source)
    return {}


def _embedded(values: Mapping[str, Any], *, source: Path) -> str:
    sizes = (values["inputdataDims"], values["labelOnehotDims"])
    for entry in data.describe():
        if entry.embedded and _sizes(entry) == sizes:
            return entry.name
    raise UsageError(
        f"{source}: no embedded data set has inputdataDims={sizes[0]} and "
        f"labelOnehotDims={sizes[1]}: give --dataset, and perhaps --data-dir"
    )


def _check_sizes(name: str, values: Mapping[str, Any], *, source: Path) -> None:
    """Refuse sizes that are not those of the data set, as far as they are known beforehand."""
    sizes = {entry.name: _sizes(entry) for entry in data.describe()}
    for key, size in zip(("inputdataDims", "labelOnehotDims"), sizes.get(name, ()), strict=False):
        if size is not None and size != values[key]:
            raise UsageError(f"{source}: {key}={values[key]}, but for {name} it is {size}")


def _sizes(entry: data.DatasetEntry) -> tuple[int | None, int | None]:
    """The values of a sample and the classes, where they are known without reading the data."""
    sides = [side for side in entry.input_shape if isinstance(side, int)]
    known = len(sides) == len(entry.input_shape)
    classes = entry.classes if isinstance(entry.classes, int) else None
    return math.prod(sides) if known else None, classes
