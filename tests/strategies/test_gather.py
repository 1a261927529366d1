"""`gather`: the weights of `single`, with samples that rank 0 alone reads."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, Adam

from phalanx import clock
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import Batch
from phalanx.data.split import Samples, Split
from phalanx.strategies.gather import Gather, LocalParts
from phalanx.strategies.single import Single
from phalanx.train.losses import make_loss
from phalanx.train.trainer import Trainer
from tests.strategies.server_cases import (
    CASES,
    assert_equals_single,
    make_model,
    make_split,
    sharded_digest,
)


@pytest.mark.ranks(1, 3, 4)
@pytest.mark.parametrize("case", CASES)
def test_equals_single(comm: Communicator, case: str) -> None:
    assert_equals_single(comm, Gather(), case)


@pytest.mark.ranks(1, 3)
@pytest.mark.parametrize("shards", [2, 4])
def test_fixed_shards_give_the_same_bits(comm: Communicator, shards: int) -> None:
    """With 2 shards on 3 ranks one has none."""
    digests = comm.allgather_objects(sharded_digest(comm, Gather(), shards=shards))
    assert set(digests) == {sharded_digest(SingleCommunicator(), Single(), shards=shards)}


@pytest.mark.ranks(3)
def test_only_rank_0_reads_samples_and_has_optimizer_state(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, take = make_split(), Split.take

    def looked_at(self: Split, indices: Tensor, **options: Any) -> Samples:
        assert self is not split or comm.rank == 0 or len(indices) == 0
        return take(self, indices, **options)

    monkeypatch.setattr(Split, "take", looked_at)
    model, again = make_model("mlp"), make_model("mlp")
    optimizer = Adam(model.parameters(), lr=0.01)
    Trainer(model, optimizer, strategy=Gather(), comm=comm).fit(split, epochs=2, batch_size=13)
    alone = Trainer(
        again, Adam(again.parameters(), lr=0.01), strategy=Single(), comm=SingleCommunicator()
    )
    alone.fit(make_split(), epochs=2, batch_size=13)
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert bool(optimizer.state) == (comm.rank == 0)


@pytest.mark.ranks(2)
def test_targets_and_inputs_of_any_kind(comm: Communicator) -> None:
    """Floating targets of several columns, inputs as float64, another shape in the next fit."""

    torch.manual_seed(8)
    splits = [Split(torch.rand(11, *more, 6), torch.rand(11, *more, 3)) for more in ((), (2,))]

    def trained(comm: Communicator, strategy: Gather | Single) -> list[Tensor]:
        torch.manual_seed(4)
        model = torch.nn.Linear(6, 3).double()
        trainer = Trainer(
            model,
            SGD(model.parameters(), lr=0.01),
            strategy=strategy,
            comm=comm,
            loss=make_loss("squared-error", "sum"),
        )
        for split in splits:
            trainer.fit(split, epochs=1, batch_size=4)
        return [parameter.detach() for parameter in model.parameters()]

    mine = trained(comm, Gather())
    for one, other in zip(mine, trained(SingleCommunicator(), Single()), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("case", ["simplecnn", "small batches"])
def test_layer_by_layer_it_equals_single(comm: Communicator, case: str) -> None:
    assert_equals_single(comm, Gather(by_layer=True), case)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("by_layer", [False, True])
def test_every_phase_is_timed(comm: Communicator, by_layer: bool) -> None:
    model = make_model("mlp")
    optimizer = SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, optimizer, strategy=Gather(by_layer=by_layer), comm=comm)
    running = clock.start()
    try:
        trainer.fit(make_split(), epochs=1, batch_size=13)
    finally:
        clock.stop()
    phases = {"load", "scatter inputs", "scatter labels", "forward", "backward", "broadcast"}
    phases |= {"gather layer 1", "gather layer 2"} if by_layer else {"gather"}
    assert phases <= set(running.seconds)
    assert ("gather" in running.seconds) != by_layer
    assert ("update" in running.seconds) == (comm.rank == 0)


def test_local_parts_are_those_of_the_batch() -> None:
    """Of 7 samples in 3 parts, the last two ones: 3 to 5 and 5 to 7."""
    mine = Samples(torch.arange(3, 7).float(), torch.arange(3, 7))
    split = Split(torch.arange(7.0), torch.arange(7))
    local = LocalParts(Batch(split, torch.arange(7)), mine, start=3)
    assert local.weight(lambda targets: float(targets.sum())) == sum(range(7))
    assert local.part(1, of=3).targets.tolist() == [3, 4]
    assert local.part(2, of=3).targets.tolist() == [5, 6]
    with pytest.raises(AssertionError, match="another rank"):
        local.part(0, of=3)
