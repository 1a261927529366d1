"""Files of KEY=VALUE lines: what they mean, and what is said about what cannot be meant."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from examples.commands import read_history, read_networks
from phalanx.cli.flags.settings import with_settings
from phalanx.compat.entry_points import NAMES
from phalanx.compat.three_layers import read_three_layers
from phalanx.errors import UsageError
from phalanx.settings.files import read_settings
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from tests.commands import Phalanx

EXAMPLES = Path(__file__).parents[2] / "examples" / "iris"
LINES = {
    "inputdataDims": "4",
    "inputLayerNeurons": "6",
    "hiddenLayerNeurons": "5",
    "outputLayerNeurons": "3",
    "labelOnehotDims": "3",
    "numEpochs": "7",
    "learningRate": "0.1",
    "batchSize": "10",
    "parallelism": "2",
}


#: Flags by their names in Python.
Given = dict[str, Any]


def write(folder: Path, **changes: str | None) -> Path:
    lines = {key: value for key, value in (LINES | changes).items() if value is not None}
    path = folder / ".irisenv"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def read(
    path: Path, *, launched: int | None = None, entry: str | None = None, **flags: Any
) -> dict[str, Any]:
    found = read_three_layers(path, flags, launched=launched, entry=entry)
    assert found is not None
    return found


def test_what_the_lines_mean(tmp_path: Path) -> None:
    assert read(write(tmp_path)) == {
        "dataset": "iris",
        "model": "mlp",
        "hidden": (6, 5),
        "activation": "sigmoid",
        "output_activation": "sigmoid",
        "standardise": True,
        "loss": "squared-error",
        "reduction": "sum",
        "epochs": 7,
        "optimizer": "sgd",
        "learning_rate": 0.1,
        "normalise": False,
        "batch_size_per_rank": 10,
        "ranks": 2,
        "strategy": "server",
        "exchange": "changes",
        "test_split": 0.1,
        "validation_split": 0.1111,
    }


def test_comments_quotes_and_exports_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None, numEpochs="'9'  # enough", learningRate='"1e-2"')
    path.write_text(f"# the flowers\n\n{path.read_text()}export parallelism = 3\n")
    found = read(path)
    assert (found["epochs"], found["learning_rate"], found["ranks"]) == (9, 0.01, 3)


def test_ranks_are_left_to_a_launcher_and_to_single(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert "ranks" not in read(path, launched=3)
    assert "ranks" not in read(path, strategy="single")
    assert read(path, strategy="server")["ranks"] == 2


def test_later_files_leave_the_ranks_to_the_launcher(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None)
    for launched in (None, 3):
        assert "ranks" not in read(path, launched=launched)
    assert read(path, launched=3)["batch_size_per_rank"] == 10
    assert read(path, ranks=3)["batch_size_per_rank"] == 10
    assert "ranks" not in read(write(tmp_path), strategy="sequential")


def test_several_ranks_send_changes_of_weights_to_a_main_network(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None)
    several: list[Given] = [
        *({"launched": 2}, {"ranks": 2}, {"ranks": 1, "strategy": "non-collective"}),
    ]
    whole: list[Given] = [{"exchange": "gradients"}, {"shards": 4}, {"clip_norm": 1.0}]
    other_steps: list[Given] = [
        *({"optimizer": "adam"}, {"optimizer_options": "weight_decay=0.1"}),
    ]
    others: list[Given] = [
        *({"strategy": "central"}, {"strategy": "own.py:Ring"}, {"compress": "bf16"}),
    ]
    for flags in several:
        found = read(path, **flags)
        assert (found["strategy"], found["exchange"]) == ("server", "changes")
    for flags in whole:
        found = read(path, ranks=4, **flags)
        assert found["strategy"] == "server"
        assert "exchange" not in found
    for flags in other_steps:
        assert "exchange" not in read(path, ranks=4, **flags)
    for flags in others:
        assert not {"strategy", "exchange"} & set(read(path, ranks=4, **flags))
    other = read_three_layers(path, {}, launched=4, chooses_strategy=False)
    assert other is not None
    assert not {"strategy", "exchange", "batch_size"} & set(other)


def test_the_batch_is_that_of_each_network_that_trains(tmp_path: Path) -> None:
    path = write(tmp_path, batchSize="4", parallelism=None)
    for strategy, samples in ((None, 12), ("allreduce", 16), ("server", 12), ("async", 12)):
        flags: Given = {} if strategy is None else {"strategy": strategy}
        settings = Settings(**(read(path, ranks=4, **flags) | flags))
        assert settings.batch(4) == samples


def test_one_network_alone_steps_after_every_sample(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None)
    alone: list[Given] = [{}, {"ranks": 1}, {"strategy": "single"}, {"strategy": "sequential"}]
    for flags in alone:
        assert read(path, **flags)["batch_size"] == 1
        assert "batch_size_per_rank" not in read(path, **flags)
    assert not {"batch_size", "batch_size_per_rank"} & set(read(path, batch_size_per_rank=5))
    assert read(path, strategy="allreduce")["batch_size_per_rank"] == 10
    assert read(path, device="cuda")["batch_size_per_rank"] == 10  # one rank a GPU, perhaps


@pytest.mark.parametrize(
    ("flags", "validation", "test"),
    [
        ({}, 0.1111, 0.1),
        ({"test_split": 0.2}, 0.125, 0.2),
        ({"validation_split": 0.3}, None, 0.1),
        ({"test_as_validation": True}, None, 0.1),
        ({"dataset": "images", "resize": "8x8"}, 0.1, None),
    ],
)
def test_a_tenth_is_for_validation_and_of_iris_a_tenth_for_the_test(
    tmp_path: Path, flags: dict[str, Any], validation: float | None, test: float | None
) -> None:
    found = read(write(tmp_path), **flags)
    assert (found.get("validation_split"), found.get("test_split")) == (validation, test)


@pytest.mark.parametrize(
    ("name", "strategy", "dataset"),
    [
        ("Single_node_iris", "single", "iris"),
        ("Mpi_iris_Allreduce", "allreduce", "iris"),
        ("Mpi_iris_SendRecv", "server", "iris"),
        ("Mpi_images_Allreduce", "allreduce", "images"),
        ("Mpi_images_SendRecv", "server", "images"),
    ],
)
def test_entry_points_by_name(tmp_path: Path, name: str, strategy: str, dataset: str) -> None:
    inputs = "4" if dataset == "iris" else str(3 * 150 * 150)
    path = write(tmp_path, inputdataDims=inputs, parallelism=None)
    for spelled in (name, name.lower(), f"mpicode.{name}()", f"singlenode.{name}(true)"):
        found = read(path, entry=spelled, ranks=1 if strategy == "single" else 4)
        assert (found["strategy"], found["dataset"]) == (strategy, dataset)
        assert found.get("exchange") == ("changes" if strategy == "server" else None)
        assert found.get("resize") == (None if dataset == "iris" else "150x150")
    assert read(path, entry=name, strategy=strategy, dataset=dataset)["strategy"] == strategy
    with pytest.raises(UsageError, match=f"--entry {name} stands for --strategy {strategy}: leave"):
        read(path, entry=name, strategy="central")
    with pytest.raises(UsageError, match=f"--entry {name} stands for --dataset {dataset}: leave"):
        read(path, entry=name, dataset="digits")


def test_an_unknown_entry_and_one_without_its_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'Mpi_iris_SendRecv'") as error:
        read(write(tmp_path), entry="Mpi_iris_SendRece")
    assert all(name in str(error.value) for name in NAMES)
    toml = tmp_path / "settings.toml"
    toml.write_text("epochs = 3")
    for config in (None, toml):
        with pytest.raises(UsageError, match=r"give such a file as --config"):
            with_settings(print)(config=config, entry="Single_node_iris")


def test_what_flags_contradict_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert "batch_size_per_rank" not in read(path, batch_size=64)
    other = read(path, model="logistic")
    assert not {"model", "hidden", "activation", "output_activation", "standardise"} & set(other)


def test_images_get_the_size_that_the_network_reads(tmp_path: Path) -> None:
    path = write(tmp_path, inputdataDims=str(3 * 48 * 48))
    assert read(path, dataset="images")["resize"] == "48x48"
    assert "resize" not in read(path, dataset="images", resize="64x36")
    with pytest.raises(UsageError, match="give --resize"):
        read(write(tmp_path, inputdataDims="7000"), dataset="images")


@pytest.mark.parametrize("text", ["epochs = 3\n", "", "[table]\nkey = 1\n", "# inputdataDims=4\n"])
def test_other_files_are_not_taken_for_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    assert read_three_layers(path, {}, launched=None) is None
    assert read_three_layers(tmp_path / "absent", {}, launched=None) is None


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        (
            {"learningrate": "0.1"},
            "line 10: unknown key 'learningrate': did you mean 'learningRate'",
        ),
        ({"batchSizes": "3"}, "line 10: unknown key 'batchSizes': did you mean 'batchSize'"),
        ({"numEpochs": None}, "has no numEpochs"),
        ({"numEpochs": "many"}, "line 6: numEpochs must be a whole number above 0, not 'many'"),
        ({"numEpochs": "2.5"}, "numEpochs must be a whole number above 0, not '2.5'"),
        ({"batchSize": "0"}, "line 8: batchSize must be a whole number above 0"),
        ({"learningRate": "nan"}, "line 7: learningRate must be a number above 0, not 'nan'"),
        ({"learningRate": "inf"}, "learningRate must be a number above 0, not 'inf'"),
        (
            {"outputLayerNeurons": "4"},
            "outputLayerNeurons=4 and labelOnehotDims=3 must be the same",
        ),
        ({"inputdataDims": "5"}, "no embedded data set has inputdataDims=5 and labelOnehotDims=3"),
    ],
)
def test_refusals_name_file_line_and_cause(
    tmp_path: Path, changes: dict[str, str | None], cause: str
) -> None:
    with pytest.raises(UsageError) as error:
        read(write(tmp_path, **changes))
    assert cause in str(error.value)
    assert str(tmp_path / ".irisenv") in str(error.value)


def test_a_line_of_another_form_and_a_key_twice(tmp_path: Path) -> None:
    path = write(tmp_path)
    text = path.read_text()
    path.write_text(text + "numEpochs\n")
    with pytest.raises(UsageError, match="line 10: 'numEpochs' is not of the form KEY=VALUE"):
        read(path)
    path.write_text(text + "numEpochs=8\n")
    with pytest.raises(UsageError, match="line 10: numEpochs stands in line 6 already"):
        read(path)


@pytest.mark.parametrize(
    ("dataset", "cause"),
    [("digits", "inputdataDims=4, but for digits it is 64"), ("fashion-mnist", "it is 784")],
)
def test_sizes_of_another_data_set(tmp_path: Path, dataset: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        read(write(tmp_path), dataset=dataset)


def test_the_command_line_takes_the_file_and_flags_win(tmp_path: Path) -> None:
    found: list[Settings] = []
    command = with_settings(found.append)
    command(config=write(tmp_path), epochs=2, batch_size="30", learning_rate=0.5)
    settings = found[0]
    assert (settings.ranks, settings.epochs, settings.learning_rate) == (2, 2, 0.5)
    assert (settings.batch_size, settings.batch_size_per_rank) == (30, None)
    assert (settings.optimizer, settings.normalise) == ("sgd", False)
    assert (settings.model, settings.hidden) == ("mlp", (6, 5))
    check_settings(settings, 2)
    with pytest.raises(UsageError, match="line 6: numEpochs"):
        command(config=write(tmp_path, numEpochs="no"))
    toml = tmp_path / "settings.toml"
    toml.write_text("epochs = 3")
    command(config=toml)
    assert found[1] == read_settings({"epochs": 3})


#: Its file as it is: without the ranks, which are left to whoever starts them.
CURRENT = {
    "inputLayerNeurons": "30",
    "hiddenLayerNeurons": "20",
    "numEpochs": "2",
    "learningRate": "0.01",
    "batchSize": "4",
    "parallelism": None,
}


def test_the_current_file_trains_and_validates_and_tests(phalanx: Phalanx, tmp_path: Path) -> None:
    """One network that trains on 120 flowers, one by one, and then three beside a main one."""
    write(tmp_path, **CURRENT)
    alone = phalanx("train", "--config", ".irisenv", "--output", "alone")
    assert alone.returncode == 0, alone.stderr
    assert "120 training, 15 validation, 15 test samples" in alone.stdout
    assert "1 samples a step over all ranks" in alone.stdout
    entry = ("--entry", "mpicode.Mpi_iris_SendRecv", "--ranks", 4)
    several = phalanx("train", "--config", ".irisenv", *entry, "--output", "several")
    assert several.returncode == 0, several.stderr
    assert "12 samples a step over all ranks" in several.stdout
    for run, strategy in (("alone", "single"), ("several", "server")):
        config = json.loads((tmp_path / run / "config.json").read_text())
        assert config["settings"]["strategy"] == strategy
        assert "entry" not in config["settings"]
        history = read_history(tmp_path / run / "history.csv")
        assert len(history["validation_loss"]) == len(history["validation_accuracy"]) == 2
    networks = read_networks(tmp_path / "several" / "networks.csv")
    assert {rank: len(one["accuracy"]) for rank, one in networks.items()} == {1: 2, 2: 2, 3: 2}


def test_the_current_file_of_images_trains(phalanx: Phalanx, tmp_path: Path) -> None:
    """150×150 pixels, layers of 60 and 10, six classes, two networks beside a main one."""
    sizes = {"inputdataDims": "67500", "outputLayerNeurons": "6", "labelOnehotDims": "6"}
    layers = {"inputLayerNeurons": "60", "hiddenLayerNeurons": "10", "numEpochs": "1"}
    path = write(tmp_path, **CURRENT | sizes | layers | {"learningRate": "0.004"})
    path.rename(tmp_path / ".imgenv")
    for part in ("seg_train", "seg_test"):
        for shade, name in enumerate(
            ("buildings", "forest", "glacier", "mountain", "sea", "street")
        ):
            folder = tmp_path / "archive" / part / part / name
            folder.mkdir(parents=True)
            for number in range(4):
                pixels = np.full((20, 20, 3), 40 * shade + number, dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{number}.png")
    flags = ("--config", ".imgenv", "--entry", "Mpi_images_SendRecv", "--data-dir", "archive")
    done = phalanx("train", *flags, "--ranks", 3, "--output", "run")
    assert done.returncode == 0, done.stderr
    assert "22 training, 2 validation, 24 test samples" in done.stdout
    assert "8 samples a step over all ranks" in done.stdout


@pytest.mark.parametrize(("name", "size"), [(".irisenv", None), (".imgenv", "48x48")])
def test_the_files_of_the_example(name: str, size: str | None) -> None:
    found = read(EXAMPLES / name, dataset=None if size is None else "images")
    assert found.get("resize") == size
    Settings(**found)


def test_a_message_does_not_repeat_all_of_a_long_value(tmp_path: Path) -> None:
    (tmp_path / ".irisenv").write_text(f"numEpochs={'[' * 100_000}\n")
    with pytest.raises(UsageError, match="numEpochs must be a whole number above 0") as caught:
        read_three_layers(tmp_path / ".irisenv", {}, launched=None)
    assert len(str(caught.value)) < 1000
