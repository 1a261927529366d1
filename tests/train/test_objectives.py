"""Objectives of a user's own: what is refused, evaluation and prediction."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader, IterableDataset

from phalanx import Split, Trainer
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.errors import UsageError
from phalanx.strategies.base import Objective
from tests.train.any_batch import (
    COUNT,
    FORMS,
    INPUTS,
    MASK,
    TARGETS,
    InOrder,
    Named,
    Rows,
    as_record,
    make_model,
    make_optimizer,
    make_trainer,
    masked,
    mean,
)

ALONE = SingleCommunicator()


def make_plain(**how: Any) -> Trainer:
    """A trainer with a loss of outputs and targets."""
    model = make_model()
    return Trainer(model, SGD(model.parameters(), lr=0.1), comm=ALONE, loss=nn.MSELoss(), **how)


def test_a_loader_is_refused_with_what_to_give() -> None:
    trainer = make_plain()
    with pytest.raises(UsageError, match=r"a DataLoader has an order .* \(loader.dataset, batch_s"):
        trainer.fit(DataLoader(Rows(), batch_size=4), epochs=1, batch_size=4)
    loader = DataLoader(Rows(), batch_size=5, collate_fn=as_record, num_workers=2)
    wanted = r"to evaluate, \(loader.dataset, batch_size=5, collate=…, workers=2\)"
    with pytest.raises(UsageError, match=wanted):
        trainer.evaluate(loader)


@pytest.mark.parametrize("form", ["data set of dictionaries", "dictionary", "tensors", "stream"])
def test_a_loss_needs_pairs(form: str) -> None:
    with pytest.raises(UsageError, match=r"is no pair .* or objective=, a function of"):
        make_plain().fit(FORMS[form][0], epochs=1, batch_size=4)


def test_one_thing_is_made_small() -> None:
    with pytest.raises(UsageError, match="give loss= or objective="):
        make_plain(objective=mean)
    with pytest.raises(UsageError, match=r"objective= is a function .* not a str"):
        make_trainer(ALONE, None, "mean")


@pytest.mark.ranks(2)
@pytest.mark.parametrize("strategy", ["pipeline", "gather"])
def test_strategies_that_take_none_are_named(comm: Communicator, strategy: str) -> None:
    with pytest.raises(
        UsageError, match=f"strategy '{strategy}' .* give a loss in place of objective"
    ):
        make_trainer(comm, strategy, mean)


def test_passes_of_ones_own_are_not_compiled() -> None:
    with pytest.raises(UsageError, match="compile compiles a model and its loss, and not a func"):
        make_trainer(ALONE, None, mean, compile=True)


@pytest.mark.parametrize("found", [torch.zeros(3), 0.5, None, {"loss": torch.zeros(())}])
def test_a_loss_is_one_number(found: Any) -> None:
    trainer = make_trainer(ALONE, None, lambda _model, _batch: found)
    with pytest.raises(UsageError, match="and must give one number"):
        trainer.fit(Rows(), epochs=1, batch_size=4)


def test_a_split_is_a_batch_of_pairs() -> None:
    def pair(model: nn.Module, batch: Any) -> Any:
        inputs, targets = batch
        return (model(inputs) - targets).square().mean()

    trainer = make_trainer(ALONE, None, pair)
    (epoch,) = trainer.fit(Split(INPUTS, TARGETS), epochs=1, batch_size=8)
    assert epoch.train.count == COUNT
    scaled = trainer.evaluate(Split(INPUTS, TARGETS, scale=0.5))  # as it is taken anywhere else
    assert scaled.loss == pytest.approx(trainer.evaluate((0.5 * INPUTS, TARGETS)).loss)
    assert scaled.accuracy is None  # of outputs of an objective nobody knows what is right


def test_collate_is_for_data_sets() -> None:
    with pytest.raises(UsageError, match="collate= puts the samples of a data set together"):
        make_trainer(ALONE, None).fit((INPUTS, TARGETS, MASK), epochs=1, batch_size=4, collate=list)


def test_a_data_set_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="there is not one sample to train on"):
        make_trainer(ALONE, None).fit((INPUTS[:0], TARGETS[:0]), epochs=1, batch_size=4)


@pytest.mark.ranks(1, 2)
def test_predictions_are_the_outputs_beside_the_loss(comm: Communicator) -> None:
    with make_trainer(comm, "allreduce", mean) as trainer:
        for data in (Rows(), FORMS["data set of texts"][0], FORMS["dictionary"][0]):
            outputs = trainer.predict(data)
            if comm.rank == 0:
                with torch.no_grad():
                    wanted = trainer.model(INPUTS)
                torch.testing.assert_close(outputs, wanted, rtol=1e-5, atol=1e-6)
            else:
                assert outputs is None


def test_there_must_be_outputs_to_predict() -> None:
    with pytest.raises(UsageError, match=r"have it return \(loss, outputs\)"):
        make_trainer(ALONE, None, masked).predict(Rows())


class Long(IterableDataset[Named]):
    """More chunks than ranks, and the last one smaller; or nothing at all."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __iter__(self) -> Iterator[Named]:
        for index in range(self._count):
            place = index % COUNT
            yield Named(INPUTS[place] + index, TARGETS[place], MASK[place])


@pytest.mark.ranks(1, 2, 3)
def test_a_stream_is_predicted_in_its_order(comm: Communicator) -> None:
    with make_trainer(comm, "allreduce", mean) as trainer:
        outputs = trainer.predict(Long(1100))
        listed = trainer.predict([*Long(1100)])
        assert trainer.evaluate(Long(1100)).count == 1100
        few = trainer.predict(Long(3))
        if comm.rank == 0:
            assert torch.equal(outputs, listed)
            torch.testing.assert_close(few, listed[:3])
        with pytest.raises(UsageError, match="there is not one sample to predict"):
            trainer.predict(Long(0))


@pytest.mark.ranks(2)
def test_a_stream_that_is_cut_by_rank_is_refused(comm: Communicator) -> None:
    with (
        make_trainer(comm, "allreduce", mean) as trainer,
        pytest.raises(UsageError, match=r"evaluate: rank 1 brought samples of a stream"),
    ):
        trainer.evaluate(Long(10 + comm.rank))


def test_what_counts_for_nothing_is_no_part_of_an_evaluation() -> None:
    """A chunk of 256 samples without anything that counts, beside one with."""
    inputs, targets = torch.randn(512, 4), torch.randn(512, 3)
    mask = (torch.arange(512) >= 256)[:, None].expand(-1, 3)
    trainer = make_trainer(ALONE, None, Objective(masked, lambda batch: float(batch[2].sum())))
    found = trainer.evaluate((inputs, targets, mask))
    with torch.no_grad():
        wanted = (trainer.model(inputs[256:]) - targets[256:]).square().mean()
    assert found.loss == pytest.approx(float(wanted), rel=1e-5)
    assert found.count == 512


def test_samples_of_which_nothing_counts_are_samples() -> None:
    trainer = make_trainer(ALONE, None, shards=8)
    (epoch,) = trainer.fit(Rows(), epochs=1, batch_size=COUNT)
    assert epoch.train.count == COUNT
    assert epoch.train.loss == pytest.approx(
        float(masked(make_model(), (INPUTS, TARGETS, MASK)).detach()), rel=1e-5
    )


def test_a_validation_of_a_stream() -> None:
    model = make_model()
    trainer = Trainer(model, make_optimizer(model), objective=mean, comm=ALONE)
    (epoch,) = trainer.fit(Rows(), epochs=1, batch_size=4, validation=InOrder())
    assert epoch.validation is not None
    assert epoch.validation.loss == pytest.approx(trainer.evaluate(Rows()).loss, rel=1e-6)
