"""Six programs as their authors would write them, in plain torch and by a Trainer: the same."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from examples.programs.run import PROGRAMS, difference, lines_of, main, weights_of
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator

STRATEGIES = ("allreduce", "central")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """What `shards` promises holds for ranks with as many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def trained(name: str, *, dropout: float = 0.0, **how: Any) -> list[Tensor]:
    model = PROGRAMS[name].make_model(dropout)
    PROGRAMS[name].ours(model, **how)
    return weights_of(model)


@pytest.mark.parametrize("name", PROGRAMS)
def test_ours_is_shorter(name: str) -> None:
    assert lines_of(PROGRAMS[name].ours) < lines_of(PROGRAMS[name].plain)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_weights_are_those_of_the_plain_loop(
    comm: Communicator, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROGRAMS[name], "EPOCHS", 2)
    model = PROGRAMS[name].make_model()
    PROGRAMS[name].plain(model)
    for strategy in STRATEGIES:
        found = difference(trained(name, strategy=strategy, comm=comm), weights_of(model))
        assert found <= 1e-5, f"{name}, {strategy}"


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_shards_have_the_same_bits_noise_and_all(
    comm: Communicator, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PROGRAMS[name], "EPOCHS", 1)
    how: dict[str, Any] = {"dropout": 0.2, "shards": 3}
    wanted = trained(name, strategy="single", comm=SingleCommunicator(), **how)
    for strategy in STRATEGIES:
        ours = trained(name, strategy=strategy, comm=comm, **how)
        assert all(map(torch.equal, ours, wanted)), f"{name}, {strategy}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_learn(name: str) -> None:
    """The loss of the first epoch against that of a second training from where it ended."""
    program = PROGRAMS[name]
    model = program.make_model()
    first = program.ours(model, strategy="single", comm=SingleCommunicator())
    last = program.ours(model, strategy="single", comm=SingleCommunicator())
    assert last[-1].train.loss < 0.9 * first[0].train.loss


def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for program in PROGRAMS.values():
        monkeypatch.setattr(program, "EPOCHS", 1)
    main("single")
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["program", "lines", "plain", "ours", "largest", "difference"]
    assert [row.split()[0] for row in rows] == list(PROGRAMS)
    assert max(float(row.split()[-1]) for row in rows) <= 1e-5
