"""PyDTNN's command line: what it means here, what is noted, and what is refused."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from phalanx import data
from phalanx.comm.launch.mpiexec import mpiexec_command
from phalanx.compat.pydtnn import Translation, translate
from phalanx.errors import UsageError
from phalanx.models import model_names
from phalanx.settings.table import Settings
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
        "optimizer": "adam",
        "learning_rate": 0.01,
        "optimizer_options": "eps=1e-08 betas=0.99,0.999",
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
        ("--optimizer=RMSProp --decay_rate=0.95 --epsilon=1e-6", "eps=1e-06 alpha=0.95"),
        ("--optimizer=RMSProp", "eps=1e-08 alpha=0.99"),
        ("--optimizer=Adam", "eps=1e-08 betas=0.99,0.999"),
        ("--optimizer=rmsprop --rho=0.8", "eps=1e-07 alpha=0.8"),
        ("--optimizer=rmsprop --lr_schedulers=", "eps=1e-07 alpha=0.9"),
        ("--optimizer=rmsprop --decay_rate=0.8 --lr_schedulers=", "eps=1e-07 alpha=0.8"),
        (
            "--optimizer=Adam --decay=0.01",
            "eps=1e-07 weight_decay=0.01 decoupled_weight_decay=true betas=0.99,0.999",
        ),
        ("--optimizer=Adam --epsilon=1e-6", "eps=1e-06 betas=0.99,0.999"),
        ("--optimizer=Nadam --beta1=0.95", "eps=1e-07 betas=0.95,0.999"),
        ("--optimizer=SGD --nesterov", "nesterov=true"),
        ("--optimizer=SGD --decay=1e-4 --momentum=0", "weight_decay=0.0001"),
        ("--optimizer=Adam --optimizer-epsilon=1e-5", "eps=1e-05 betas=0.99,0.999"),
    ],
)
def test_options_of_optimizers(line: str, options: str) -> None:
    found = translated(line)
    assert found.notes == ()
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
        ("--dataset_train_path=a --dataset_test_path=b", "are two folders"),
        ("--use_synthetic_data", "--dataset synthetic"),
        ("--crop_images=True", "--crop N"),
        ("--weights_and_bias_filename=w.npz", "give a run's model.safetensors"),
        ("--history_file=h", "every run's folder has a history.csv"),
        ("--learning_rate_scaling", "PyDTNN divides the rate by its ranks"),
        ("--flip_images --flip_images_prob=0.2", "--flip_images_prob=0.2: half of the images"),
        ("--optimizer=sgd --decay=0.01", "--decay=0.01: PyDTNN takes it off the weights"),
        ("--optimizer=rmsprop --decay=0.01", "or take --optimizer=Adam"),
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


def test_it_runs_in_a_job(process: Phalanx, tmp_path: Path) -> None:
    folder = write_mnist(tmp_path / "some digits", train=1000, test=200)
    line = [word.replace("../datasets/mnist", str(folder)) for word in shlex.split(README)]
    line += ["--num_epochs=4", "--learning_rate=0.002", "--batch_size=16"]
    launcher, variables = mpiexec_command(2)
    job = process("pydtnn", *line, before=tuple(launcher), **started(variables))
    assert job.returncode == 0, job.stderr
    result = json.loads(
        (tmp_path / "runs" / "mnist-pydtnn-simplecnn-1" / "result.json").read_text()
    )
    assert (result["ranks"], result["strategy"]) == (2, "allreduce")
    assert result["test_before"]["accuracy"] < 0.4
    assert result["test"]["accuracy"] >= 0.85

    lines = job.stdout.splitlines()
    before = next(at for at, line in enumerate(lines) if line.startswith("test before: loss"))
    first = next(at for at, line in enumerate(lines) if line.startswith("epoch 1/4"))
    assert lines.index("**** Parameters:") < before < first
    shown = shlex.split(lines[0])
    assert shown[:3] == ["$", "phalanx", "train"]
    assert f"--data-dir={folder}" in shown  # quoted, for the space in it


def started(variables: dict[str, str]) -> dict[str, str]:
    """What mpiexec needs in its environment, of all that is in there."""
    return {name: value for name, value in variables.items() if name.startswith(("OMPI_", "PRTE_"))}
