"""PyDTNN's command line: what it means here, what is noted, and what is refused."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from phalanx import data
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.comm.single import SingleCommunicator
from phalanx.compat.pydtnn import Translation, translate
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.models import model_names
from phalanx.settings.table import Settings
from phalanx.train.companions.pydtnn_weights import PyDTNNWeights
from phalanx.train.trainer import Trainer
from tests.commands import Phalanx
from tests.data.conftest import idx

#: The command of PyDTNN's own README.
README = """--model=simplecnn --dataset=mnist --dataset_train_path=../datasets/mnist
    --dataset_test_path=../datasets/mnist --batch_size=64 --validation_split=0.2 --num_epochs=10
    --optimizer=Adam --learning_rate=0.01
    --loss_func=categorical_accuracy,categorical_cross_entropy --parallel=data --blocking_mpi
    --dtype=float32 --evaluate"""


def translated(line: str) -> Translation:
    return translate(shlex.split(line))


def settings(line: str) -> dict[str, Any]:
    return translated(line).settings


def test_the_command_of_its_readme() -> None:
    found = translated(README)
    assert found.notes == ()
    assert found.settings == {
        "model": "pydtnn-simplecnn",
        "dataset": "mnist",
        "data_dir": Path("../datasets/mnist"),
        "normalise": False,
        "validation_split": 0.2,
        "epochs": 10,
        "dtype": "float32",
        "batch_size_per_rank": 64,
        "evaluate_first": True,
        "optimizer": "pydtnn-adam",
        "learning_rate": 0.01,
        "optimizer_options": "epsilon=1e-08 betas=0.99,0.999",
        "loss": "cross-entropy",
        "strategy": "allreduce",
    }


def test_its_defaults_are_kept() -> None:
    found = settings("")
    assert found["model"] == "pydtnn-simplecnn"
    assert (found["dataset"], found["validation_split"]) == ("mnist", 0.0)
    assert (found["strategy"], found["loss"]) == ("single", "cross-entropy")
    assert (found["epochs"], found["batch_size_per_rank"]) == (1, 64)
    assert (found["optimizer"], found["learning_rate"], found["momentum"]) == ("sgd", 0.01, 0.9)


@pytest.mark.parametrize(
    ("line", "evaluates"),
    [
        ("--evaluate", True),
        ("--evaluate=True", True),
        ("--evaluate=false", False),
        ("--evaluate 1 --num_epochs 3", True),
        ("--evaluate no", False),
        ("--evaluate --num-epochs=3", True),
        ("", False),
    ],
)
def test_switches_stand_alone_or_have_a_value(line: str, evaluates: bool) -> None:
    assert settings(line).get("evaluate_first", False) is evaluates


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("simplecnn", "pydtnn-simplecnn"),
        ("vgg1", "pydtnn-vgg1"),
        ("vgg2", "pydtnn-vgg2"),
        ("vgg3", "pydtnn-vgg3"),
        ("vgg3do", "pydtnn-vgg3do"),
        ("vgg3do2", "pydtnn-vgg3do2"),
        ("vgg3dobn", "pydtnn-vgg3dobn"),
        ("resnet1202", "resnet1202"),
        ("resnet1202_cifar10", "resnet1202"),
        ("densenet_cifar10", "densenet121-k12"),
        ("alexnet_cifar10", "alexnet"),
        ("alexnet_imagenet", "alexnet"),
        ("vgg11_cifar10", "vgg11"),
        ("vgg16bn_cifar10", "vgg16-bn"),
        ("vgg16_imagenet", "vgg16"),
        ("resnet32_cifar10", "resnet32"),
        ("resnet34_cifar10", "resnet34"),
        ("resnet50_imagenet", "resnet50"),
        ("densenet121_imagenet", "densenet121"),
        ("inceptionv3_imagenet", "inception-v3"),
        ("mobilenetv1_cifar10", "mobilenet-v1"),
        ("googlenet", "googlenet"),
    ],
)
def test_models(name: str, model: str) -> None:
    assert settings(f"--model={name}")["model"] == model
    assert model in model_names()


def test_its_perceptron_has_three_hidden_layers() -> None:
    found = settings("--model=simplemlp")
    assert (found["model"], found["hidden"]) == ("mlp", (512, 512, 512))


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--optimizer=RMSProp --decay_rate=0.95 --epsilon=1e-6", "epsilon=1e-06 rho=0.95"),
        ("--optimizer=RMSProp", "epsilon=1e-08 rho=0.99"),
        ("--optimizer=Adam", "epsilon=1e-08 betas=0.99,0.999"),
        ("--optimizer=rmsprop --rho=0.8", "epsilon=1e-07 rho=0.8"),
        ("--optimizer=rmsprop --lr_schedulers=", "epsilon=1e-07 rho=0.9"),
        ("--optimizer=rmsprop --decay_rate=0.8 --lr_schedulers=", "epsilon=1e-07 rho=0.8"),
        ("--optimizer=Adam --decay=0.01", "epsilon=1e-07 decay=0.01 betas=0.99,0.999"),
        ("--optimizer=rmsprop --decay=0.01", "epsilon=1e-07 decay=0.01 rho=0.9"),
        ("--optimizer=Adam --epsilon=1e-6", "epsilon=1e-06 betas=0.99,0.999"),
        ("--optimizer=Nadam --beta1=0.95", "epsilon=1e-07 betas=0.95,0.999"),
        ("--optimizer=SGD --nesterov", "nesterov=true"),
        ("--optimizer=SGD --decay=1e-4", "decay=0.0001"),
        ("--optimizer=Adam --optimizer-epsilon=1e-5", "epsilon=1e-05 betas=0.99,0.999"),
    ],
)
def test_options_of_optimizers(line: str, options: str) -> None:
    found = translated(line)
    assert found.notes == ()
    named = line.partition(" ")[0].partition("=")[2].lower()
    ours = "sgd" if named == "sgd" and "decay" not in line else f"pydtnn-{named}"
    assert found.settings["optimizer"] == ours
    assert found.settings["optimizer_options"] == options
    Settings(**found.settings).optimizer_choices  # noqa: B018, raises for what cannot be read


def test_momentum_is_for_sgd_alone() -> None:
    assert settings("--optimizer=SGDMomentum --momentum=0.5")["momentum"] == 0.5
    found = translated("--optimizer=Adam --momentum=0.9 --decay_rate=0.99")
    assert "momentum" not in found.settings
    assert found.notes == ("--momentum has no part in Adam", "--decay_rate has no part in Adam")


@pytest.mark.parametrize(
    ("listed", "loss", "metrics", "notes"),
    [
        ("categorical_accuracy,categorical_cross_entropy", "cross-entropy", (), 0),
        ("categorical_cross_entropy", "cross-entropy", (), 0),
        ("categorical_accuracy", "cross-entropy", (), 0),
        ("accuracy,categorical_cross_entropy", "cross-entropy", (), 0),
        ("binary_cross_entropy", "binary-cross-entropy", (), 0),
        ("categorical_mse,categorical_mae,categorical_hinge", "hinge", ("mse", "mae"), 0),
        ("categorical_hinge, categorical_cross_entropy", "cross-entropy", ("hinge",), 0),
        ("categorical_cross_entropy,regression_mse", "squared-error", (), 2),
        ("regression_mae", "absolute-error", (), 1),
    ],
)
def test_the_last_loss_is_the_loss(
    listed: str, loss: str, metrics: tuple[str, ...], notes: int
) -> None:
    found = translate([f"--loss_func={listed}"])
    assert found.settings["loss"] == loss
    assert found.settings.get("metrics", ()) == metrics
    assert len(found.notes) == notes


def test_parallelism() -> None:
    assert "overlap" not in settings("--parallel=data")
    assert settings("--parallel=data --non_blocking_mpi")["overlap"] is True
    assert settings("--parallel=data --blocking_mpi=False")["overlap"] is True
    assert "overlap" not in settings("--parallel=sequential --non_blocking_mpi")
    assert settings("--profile --parallel=data")["profile"] is True
    assert settings("--enable_gpu")["device"] == "cuda"
    assert settings("--enable_gpu=False")["device"] == "cpu"
    assert "device" not in settings("")


def test_data() -> None:
    assert settings("--dataset=cifar10 --dataset_train_path=c")["data_dir"] == Path("c")
    photos = settings("--dataset=imagenet --dataset_train_path=d/train --dataset_test_path=d/val")
    assert (photos["dataset"], photos["data_dir"]) == ("images", Path("d"))
    held = settings("--test_as_validation --validation_split=0.2")
    assert held["test_as_validation"] is True
    assert "validation_split" not in held
    assert "steps_per_epoch" not in settings("--steps_per_epoch=0")
    assert settings("--steps_per_epoch=5")["steps_per_epoch"] == 5
    assert settings("--global_batch_size=96")["batch_size"] == 96
    assert settings("--normalize")["normalise"] is True


def test_two_folders() -> None:
    found = settings("--dataset_train_path=a --dataset_test_path=b")
    assert (found["data_dir"], found["test_dir"]) == (Path("a"), Path("b"))
    assert "test_dir" not in settings("--dataset_train_path=a --dataset_test_path=a")


def test_samples_that_are_made_up() -> None:
    found = settings("--use_synthetic_data --dataset=cifar10 --dataset_train_path=a")
    assert (found["dataset"], found["shape"], found["classes"]) == ("synthetic", "3x32x32", 10)
    assert "data_dir" not in found


def test_weights_are_those_of_pydtnn() -> None:
    found = settings("--evaluate_only --weights_and_bias_filename=w.npz")
    assert (found["weights"], found["epochs"]) == (Path("w.npz"), 0)


def test_what_changes_nothing_is_noted() -> None:
    found = translated("--enable_cudnn_auto_conv_alg=True --enable_conv_gemm True")
    (note,) = found.notes
    assert "--enable_cudnn_auto_conv_alg, --enable_conv_gemm" in note
    assert translated("--use_synthetic_data=False").notes == ()


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("--modl=simplecnn", "did you mean 'model'?"),
        ("simplecnn", "'simplecnn' is no option of PyDTNN"),
        ("--model=simplecn", "did you mean 'simplecnn'?"),
        ("--model=densenet12_cifar10", "did you mean 'densenet"),
        ("--dataset=minst", "did you mean 'mnist'?"),
        ("--optimizer=adm", "unknown optimizer 'adm'"),
        ("--loss_func=categorical_accuracy,cross_entropy", "unknown loss or metric"),
        ("--batch_size=many", "--batch_size takes a whole number, not 'many'"),
        ("--batch_size", "--batch_size needs a whole number behind it"),
        ("--learning_rate=nan", "--learning_rate takes a number, not 'nan'"),
        ("--evaluate=perhaps", "--evaluate takes True or False, not 'perhaps'"),
        ("--parallel=model", "--parallel is sequential or data, not 'model'"),
        ("--blocking_mpi --non_blocking_mpi", "contradict each other"),
        ("--dataset=imagenet --dataset_train_path=a/b --dataset_test_path=c/d", "from one folder"),
        ("--use_synthetic_data --dataset=iris", "makes up no samples of iris"),
        ("--augment_crop", "--crop N"),
    ],
)
def test_refusals(line: str, cause: str) -> None:
    with pytest.raises(UsageError) as error:
        translated(line)
    assert cause in str(error.value)


def test_translating_does_not_import_torch() -> None:
    imports = "import sys, phalanx.compat.pydtnn, phalanx.compat.three_layers"
    code = f"{imports}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def write_mnist(folder: Path, *, train: int, test: int) -> Path:
    """The embedded digits in the files and the size of MNIST."""
    folder.mkdir()
    dataset = data.load("digits")
    for part, split, count in (("train", dataset.train, train), ("t10k", dataset.test, test)):
        samples = split.take(torch.arange(count))
        pixels = (255 * F.interpolate(samples.inputs, (28, 28), mode="bilinear")).byte()
        images = idx(count, 28, 28, content=pixels.numpy().tobytes())
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        labels = idx(count, content=samples.targets.byte().numpy().tobytes())
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    return folder


LINE = re.compile(
    r"Epoch (\d)/4: 100%\|█{16}\| (\d+)/\2 \[00:\d\d<00:00, [\d.]+ samples/s, "
    r"acc: +[\d.]{4,5}%, cro: \d\.\d{7}, val_acc: +[\d.]{4,5}%, val_cro: \d\.\d{7}\]"
)


def test_it_runs_in_a_job(process: Phalanx, tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "some digits", train=1000, test=200)
    line = [word.replace("../datasets/mnist", str(folder)) for word in shlex.split(README)]
    line += ["--num_epochs=4", "--learning_rate=0.002", "--batch_size=16"]
    launcher, variables = mpiexec_command(2)
    many = {**started(variables), "OMP_NUM_THREADS": "99"}
    job = process("pydtnn", *line, before=tuple(launcher), **many)
    assert job.returncode == 0, job.stderr
    result = json.loads(
        (tmp_path / "runs" / "mnist-pydtnn-simplecnn-1" / "result.json").read_text()
    )
    assert (result["ranks"], result["strategy"]) == (2, "allreduce")
    assert result["test_before"]["accuracy"] < 0.4
    assert result["test"]["accuracy"] >= 0.85

    shown = shlex.split(job.stdout.splitlines()[0])
    assert shown[:3] == ["$", "phalanx", "train"]
    assert f"--data-dir={folder}" in shown  # quoted, for the space in it
    assert "note: 2 ranks of 99 threads each are more than the" in job.stdout
    # In the order of PyDTNN's README.
    stars = [line for line in job.stdout.splitlines() if line.startswith("****")]
    assert stars == [
        "**** Running with 2 processes...",
        "**** Creating simplecnn model...",
        "**** Parameters:",
        "**** Loading mnist dataset...",
        "**** Evaluating on test dataset...",
        "**** Training...",
        "**** Done... and thanks for all the fish!!!",
        "**** Evaluating on test dataset...",
    ]
    epochs = LINE.findall(job.stdout)
    assert epochs == [(str(number), "800") for number in range(1, 5)]
    before, after = re.findall(r"^test_acc: +([\d.]+)%, test_cro: \d\.\d{7}$", job.stdout, re.M)
    assert float(before) == pytest.approx(100 * result["test_before"]["accuracy"], abs=0.01)
    assert float(after) == pytest.approx(100 * result["test"]["accuracy"], abs=0.01)
    # Its throughput is of training and validation samples, ours of those that were trained on.
    (seconds,) = re.findall(r"^Time: ([\d.]+) s$", job.stdout, re.M)
    (rate,) = re.findall(r"^Throughput: ([\d.]+) samples/s$", job.stdout, re.M)
    assert float(rate) * float(seconds) == pytest.approx(4 * 1000, rel=0.05)


def test_weights_history_and_an_evaluation_alone(phalanx: Phalanx, tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "digits", train=300, test=100)
    paths = [f"--dataset_train_path={folder}", f"--dataset_test_path={folder}"]
    trained = phalanx(
        *("pydtnn", *paths, "--num_epochs=3", "--optimizer=adam", "--history_file=history.txt"),
        *("--lr_schedulers=model_checkpoint", "--model_checkpoint_save_freq=1"),
        *("--metrics=categorical_accuracy,categorical_mse", "--random_seed=1"),
    )
    assert trained.returncode == 0, trained.stderr
    assert "**** Evaluating" not in trained.stdout
    assert trained.stdout.count("LRScheduler ModelCheckpoint: saving model weights and bias") > 0
    assert re.search(
        r"\[.*, cro: [\d.]+, acc: .*%, mse: .*, val_cro: .*, val_mse: ", trained.stdout
    )
    rows = [line.split() for line in (tmp_path / "history.txt").read_text().splitlines()]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert {len(row) for row in rows} == {1 + 2 * 3}
    (weights,) = tmp_path.glob("model-simplecnn-epoch-*.npz")
    best = min(rows, key=lambda row: float(row[4]))[0]
    assert f"-epoch-{int(best) + 1}-" in weights.name

    alone = phalanx(
        *("pydtnn", *paths, "--evaluate_only", f"--weights_and_bias_filename={weights.name}"),
        "--lr_schedulers=",
    )
    assert alone.returncode == 0, alone.stderr
    result = json.loads(
        (tmp_path / "runs" / "mnist-pydtnn-simplecnn-dropout-1" / "result.json").read_text()
    )
    # The best weights are those that the training ended with, too.
    assert f"test_cro: {result['test']['loss']:.7f}" in alone.stdout
    assert f"test_acc: {100 * result['test']['accuracy']:5.2f}%" in alone.stdout
    exported = phalanx("export", "runs/mnist-pydtnn-simplecnn-dropout-1", "--format", "pydtnn")
    assert exported.returncode == 0, exported.stderr
    with (
        np.load(weights) as one,
        np.load(tmp_path / "runs" / "mnist-pydtnn-simplecnn-dropout-1" / "model.npz") as other,
    ):
        assert {*one.files} == {*other.files}
        assert all(np.array_equal(one[name], other[name]) for name in one.files)


def test_files_that_cannot_be_written(phalanx: Phalanx, tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "digits", train=100, test=50)
    refused = phalanx("pydtnn", f"--dataset_train_path={folder}", "--history_file=no/h.txt")
    assert refused.returncode == 2
    assert "no/h.txt: name a file in a folder that exists" in refused.stderr
    assert not (tmp_path / "runs").exists()


def test_weights_that_cannot_be_written_end_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = Split(torch.randn(8, 4), torch.arange(8) % 3)
    how = {"every": 1, "watch": "loss", "input_shape": (4,), "folder": tmp_path / "gone"}
    weights = PyDTNNWeights("own", **how)  # type: ignore[arg-type]
    with Trainer(model, optimizer, comm=SingleCommunicator()) as trainer:
        assert len(trainer.fit(samples, epochs=2, batch_size=4, callbacks=[weights])) == 2
    assert "not written: " in caplog.text


def started(variables: dict[str, str]) -> dict[str, str]:
    """What mpiexec needs in its environment, of all that is in there."""
    return {name: value for name, value in variables.items() if name.startswith(("OMPI_", "PRTE_"))}
