"""Files of KEY=VALUE lines: what they mean, and what is said about what cannot be meant."""

from pathlib import Path
from typing import Any

import pytest

from phalanx.cli.flags.settings import with_settings
from phalanx.compat.three_layers import read_three_layers
from phalanx.errors import UsageError
from phalanx.settings.files import read_settings
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings

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


def write(folder: Path, **changes: str | None) -> Path:
    lines = {key: value for key, value in (LINES | changes).items() if value is not None}
    path = folder / ".irisenv"
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    return path


def read(path: Path, *, launched: bool = False, **flags: Any) -> dict[str, Any]:
    found = read_three_layers(path, flags, launched=launched)
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
    }


def test_comments_quotes_and_exports_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None, numEpochs="'9'  # enough", learningRate='"1e-2"')
    path.write_text(f"# the flowers\n\n{path.read_text()}export parallelism = 3\n")
    found = read(path)
    assert (found["epochs"], found["learning_rate"], found["ranks"]) == (9, 0.01, 3)


def test_ranks_are_left_to_a_launcher_and_to_single(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert "ranks" not in read(path, launched=True)
    assert "ranks" not in read(path, strategy="single")
    assert read(path, strategy="server")["ranks"] == 2


def test_later_files_leave_the_ranks_to_the_launcher(tmp_path: Path) -> None:
    path = write(tmp_path, parallelism=None)
    for launched in (False, True):
        found = read(path, launched=launched)
        assert "ranks" not in found
        assert found["batch_size_per_rank"] == 10
    assert "ranks" not in read(write(tmp_path), strategy="sequential")


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
    assert read_three_layers(path, {}, launched=False) is None
    assert read_three_layers(tmp_path / "absent", {}, launched=False) is None


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


@pytest.mark.parametrize(("name", "size"), [(".irisenv", None), (".imgenv", "48x48")])
def test_the_files_of_the_example(name: str, size: str | None) -> None:
    found = read(EXAMPLES / name, dataset=None if size is None else "images")
    assert found.get("resize") == size
    Settings(**found)


def test_a_message_does_not_repeat_all_of_a_long_value(tmp_path: Path) -> None:
    (tmp_path / ".irisenv").write_text(f"numEpochs={'[' * 100_000}\n")
    with pytest.raises(UsageError, match="numEpochs must be a whole number above 0") as caught:
        read_three_layers(tmp_path / ".irisenv", {}, launched=False)
    assert len(str(caught.value)) < 1000
