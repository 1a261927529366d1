import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from phalanx.comm.single import SingleCommunicator
from phalanx.data import load
from phalanx.data.prepare import prepare
from phalanx.data.registry import EMBEDDED_FOLDER
from phalanx.errors import UsageError
from phalanx.inference.user_samples import read_samples
from phalanx.runs.inputs import input_values
from phalanx.settings.table import Settings


def test_iris_is_the_uci_file() -> None:
    rows = (EMBEDDED_FOLDER / "iris.csv").read_text("ascii").splitlines()[1:]
    measures = [row.rpartition(",") for row in rows]
    uci = "".join(f"{numbers},Iris-{species}\n" for numbers, _, species in measures) + "\n"
    assert hashlib.sha256(uci.encode()).hexdigest() == (
        "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0"
    )


def test_iris_is_split_evenly_over_species() -> None:
    iris = load("iris")
    assert iris.classes == ("setosa", "versicolor", "virginica")
    assert iris.input_shape == (4,)
    assert Counter(iris.train.targets.tolist()) == {0: 40, 1: 40, 2: 40}
    assert Counter(iris.test.targets.tolist()) == {0: 10, 1: 10, 2: 10}


@pytest.mark.parametrize(("share", "tested"), [(0.1, 5), (0.2, 10), (0.5, 25), (0.9, 45)])
def test_iris_with_another_share_to_test_with(share: float, tested: int) -> None:
    iris = load("iris", options={"test_split": share})
    assert Counter(iris.test.targets.tolist()) == dict.fromkeys(range(3), tested)
    assert Counter(iris.train.targets.tolist()) == dict.fromkeys(range(3), 50 - tested)
    if share == 0.2:
        assert torch.equal(iris.test.inputs, load("iris").test.inputs)


def test_iris_tested_on_what_it_is_trained_on_and_shares_that_leave_nothing() -> None:
    iris = load("iris", options={"test_split": 0.0})
    assert (len(iris.train), len(iris.test)) == (150, 150)
    for share, what in ((0.001, "none to test with"), (0.99, "none to train on")):
        with pytest.raises(UsageError, match=what):
            load("iris", options={"test_split": share})


def test_iris_is_standardised_by_its_training_part() -> None:
    train = load("iris").train
    inputs = train.take(torch.arange(len(train))).inputs
    assert inputs.dtype == torch.float32
    torch.testing.assert_close(inputs.mean(dim=0), torch.zeros(4), rtol=0, atol=1e-6)
    torch.testing.assert_close(inputs.std(dim=0, correction=0), torch.ones(4))


def test_iris_is_stored_in_centimetres(tmp_path: Path) -> None:
    iris = load("iris")
    assert iris.train.inputs[0].tolist() == [5.1, 3.5, 1.4, 0.2]
    assert iris.test.inputs[0].tolist() == [5.0, 3.6, 1.4, 0.2]
    values = input_values(iris.test)
    assert values["mean"] == pytest.approx(iris.train.inputs.mean(0).tolist())
    assert len(values["deviation"]) == 4
    np.savetxt(tmp_path / "new.csv", iris.test.inputs.numpy(), delimiter=",")
    np.savez(tmp_path / "new.npz", x=iris.test.inputs.numpy())
    every = torch.arange(len(iris.test))
    for name in ("new.csv", "new.npz"):
        new = read_samples(tmp_path / name, like=iris.test, settings=Settings(dataset="iris"))
        assert torch.equal(new.split.take(every).inputs, iris.test.take(every).inputs), name


def test_iris_that_is_normalised_again_tells_what_is_done_to_centimetres() -> None:
    iris = load("iris")
    again = prepare(iris, {"normalise": True}, comm=SingleCommunicator())
    every = torch.arange(len(iris.test))
    taken = again.test.take(every, dtype=torch.float64).inputs
    torch.testing.assert_close(taken, iris.test.take(every, dtype=torch.float64).inputs)
    values = input_values(again.test)
    mean, deviation = (
        torch.tensor(values[name], dtype=torch.float64) for name in ("mean", "deviation")
    )
    torch.testing.assert_close(taken, (again.test.inputs - mean) / deviation)


def test_digits_are_complete() -> None:
    digits = load("digits")
    assert digits.classes == tuple("0123456789")
    assert (len(digits.train), len(digits.test)) == (1438, 359)
    labels = Counter(torch.cat([digits.train.targets, digits.test.targets]).tolist())
    assert [labels[digit] for digit in range(10)] == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180
    ]  # fmt: skip


def test_no_digit_is_in_both_parts() -> None:
    digits = load("digits")
    trained = {image.numpy().tobytes() for image in digits.train.inputs}
    assert not any(image.numpy().tobytes() in trained for image in digits.test.inputs)


def test_digits_are_bytes_that_scale_to_one() -> None:
    digits = load("digits")
    assert digits.train.inputs.dtype == torch.uint8
    assert digits.input_shape == (1, 8, 8)
    taken = digits.train.take(torch.arange(len(digits.train))).inputs
    assert (taken.min().item(), taken.max().item()) == (0.0, 1.0)
    assert digits.train.targets.dtype == torch.int64


def test_digits_stay_the_same_between_releases() -> None:
    digits = load("digits")
    digest = hashlib.sha256()
    for split in (digits.train, digits.test):
        digest.update(split.inputs.numpy().tobytes())
        digest.update(split.targets.to(torch.uint8).numpy().tobytes())
    assert digest.hexdigest() == "4eabbbbc1ba42e3a5eb7ff99e5bcc17347287babb659f0b9475f06a184d0601c"
