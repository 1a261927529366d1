"""The options of `allreduce`: overlap with the backward pass, and compression."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from phalanx import data, models
from phalanx.comm.algorithm_names import ALGORITHMS
from phalanx.comm.base import Communicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.exchange.compression import CompressedSum
from phalanx.exchange.compressions import compressed_sum
from phalanx.exchange.eight_bits import Int8
from phalanx.exchange.formats import Format
from phalanx.exchange.low_rank import Matrix
from phalanx.exchange.pairs import CompressedPairSum
from phalanx.exchange.sixteen_bits import BFloat16, Float16
from phalanx.exchange.stream import Stream
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies.allreduce import Allreduce
from phalanx.strategies.base import Strategy
from phalanx.strategies.registry import default_strategy, make
from phalanx.strategies.single import Single
from phalanx.train.trainer import Trainer

#: Formats that keep what they lose, and the largest error of one rounding, relative to the largest.
ROUNDING: dict[type[Format], float] = {Float16: 2**-11, Int8: 1 / 254}
#: One bucket for all, and one for each parameter.
OVERLAPS = [Allreduce(overlap=True), Allreduce(overlap=True, bucket_bytes=1)]


class Tied(nn.Module):
    """Two layers with one weight, a parameter that no step uses, one that a single sample uses."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)
        self.second = nn.Linear(64, 64)
        self.second.weight = self.first.weight
        self.unused = nn.Parameter(torch.ones(5))
        self.seldom = nn.Parameter(torch.ones(10))
        self.last = nn.Linear(64, 10)

    def forward(self, inputs: Tensor) -> Tensor:
        flat = inputs.flatten(1)
        outputs: Tensor = self.last(torch.relu(self.second(torch.relu(self.first(flat)))))
        chosen = flat[:, :1] > 1.0
        return outputs + chosen * self.seldom if chosen.any() else outputs


def make_model(name: str) -> nn.Module:
    torch.manual_seed(11)
    return Tied() if name == "tied" else models.build(name, input_shape=(1, 8, 8), classes=10)


def make_split() -> Split:
    """Digits, of which one sample is marked by a pixel brighter than any other."""
    split = data.load("digits").train.subset(torch.arange(67))
    split.inputs[7].view(-1)[0] = 255
    return split


def train_and_evaluate(
    comm: Communicator, strategy: Strategy, model: str, *, batch_size: int = 13, **options: Any
) -> tuple[list[Tensor], float]:
    """The weights after an epoch, and the loss over all samples."""
    network = make_model(model)
    optimizer = SGD(network.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    trainer = Trainer(network, optimizer, strategy=strategy, comm=comm, seed=5, **options)
    trainer.fit(make_split(), epochs=1, batch_size=batch_size)
    loss = trainer.evaluate(make_split()).loss
    return [tensor.detach().clone() for tensor in network.state_dict().values()], loss


def train(comm: Communicator, strategy: Strategy, model: str, **options: Any) -> list[Tensor]:
    return train_and_evaluate(comm, strategy, model, **options)[0]


@cache
def train_alone(model: str, **options: Any) -> tuple[list[Tensor], float]:
    """What all are compared with, once for all of them."""
    return train_and_evaluate(SingleCommunicator(), Single(), model, **options)


def largest_difference(mine: list[Tensor], reference: list[Tensor]) -> float:
    pairs = zip(mine, reference, strict=True)
    return max((one - other).abs().max().item() for one, other in pairs)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("strategy", [Allreduce(), *OVERLAPS], ids=["whole", "bucket", "buckets"])
@pytest.mark.parametrize("model", ["mlp", "simplecnn", "tied"])
# In batches of 3 some ranks have no samples.
@pytest.mark.parametrize(("batch_size", "accumulate"), [(13, 1), (13, 3), (3, 1)])
def test_overlap_equals_single(
    comm: Communicator, strategy: Strategy, model: str, batch_size: int, accumulate: int
) -> None:
    options = {"batch_size": batch_size, "accumulate": accumulate}
    parallel = train(comm, strategy, model, **options)
    alone, _ = train_alone(model, **options)
    assert largest_difference(parallel, alone) < 1e-5


@pytest.mark.ranks(2, 3, 4)
@pytest.mark.parametrize(
    ("algorithm", "overlap"),
    [
        *((name, False) for name in ALGORITHMS),
        *((name, True) for name in ("ring", "rabenseifner", "recursive-doubling")),
    ],
)
def test_every_algorithm_gives_the_same_weights(
    comm: Communicator, algorithm: str, overlap: bool
) -> None:
    strategy = Allreduce(algorithm=algorithm, overlap=overlap, bucket_bytes=1 << 12)
    parallel = train(comm, strategy, "mlp")
    assert largest_difference(parallel, train_alone("mlp")[0]) < 1e-5


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("packed", ROUNDING)
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e30])
def test_error_feedback_loses_nothing(
    comm: Communicator, packed: type[Format], scale: float
) -> None:
    """What was exchanged over many steps stays within one rounding of the exact sum."""
    generator = torch.Generator().manual_seed(3)
    buffer = torch.empty(1001)
    pair = comm.size == 2
    kind: type[CompressedSum | CompressedPairSum] = CompressedPairSum if pair else CompressedSum
    sums = Stream([kind(comm, buffer, packed())], threaded=False)
    exact = torch.zeros(1001, dtype=torch.float64)
    exchanged = torch.zeros_like(exact)
    # Mostly the same gradient: without feedback the error of each step would add up.
    steady = torch.randn(comm.size, 1001, generator=generator) * scale
    for _ in range(100):
        gradients = steady + 0.01 * scale * torch.randn(comm.size, 1001, generator=generator)
        buffer.copy_(gradients[comm.rank])
        sums.finish()
        exact += gradients.double().sum(0)
        exchanged += buffer.double()
        largest = gradients.abs().amax(1).sum() + gradients.sum(0).abs().amax()
        # A value that is sent is the gradient and less than a hundredth of it left from before.
        bound = 1.01 * ROUNDING[packed] * largest.item()
        assert (exchanged - exact).abs().max().item() <= bound
    for other in comm.allgather_objects(buffer):
        assert torch.equal(buffer, other)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("packed", [*ROUNDING, BFloat16])
@pytest.mark.parametrize("kind", [CompressedSum, CompressedPairSum])
def test_what_is_not_finite_arrives_and_is_forgotten(
    comm: Communicator, packed: type[Format], kind: type[CompressedSum | CompressedPairSum]
) -> None:
    buffer = torch.zeros(512)
    sums = Stream([kind(comm, buffer, packed())], threaded=False)
    for spoilt in (float("inf"), float("nan")):
        buffer.fill_(1.0)
        if comm.rank == 1:
            buffer[0] = spoilt
        sums.finish()
        assert not buffer[0].isfinite()
        assert buffer[256:].tolist() == [2.0] * 256  # another rank's part
        buffer.fill_(3.0)
        sums.finish()
        assert buffer.tolist() == [6.0] * 512


@pytest.mark.ranks(2, 3)
def test_low_rank_takes_matrices_that_have_it_as_they_are(comm: Communicator) -> None:
    """And arrives at others in the end: what it lacks of a gradient that stays, it adds later."""
    generator = torch.Generator().manual_seed(4)
    left, right = (torch.randn(comm.size, 40, 2, generator=generator) for _ in range(2))
    low = left @ right.transpose(1, 2)
    full = torch.randn(comm.size, 40, 40, generator=generator)
    for gradients, rank, steps, bound in ((low, 2 * comm.size, 1, 1e-4), (full, 2, 200, 0.1)):
        buffer = torch.zeros(7 + 1600)
        matrices = [Matrix(7, 40, 40)]
        one = compressed_sum("low-rank", comm, buffer, matrices=matrices, rank=rank)
        stream = Stream([one], threaded=False)
        exchanged = torch.zeros(1600)
        for _ in range(steps):
            buffer[:7] = comm.rank
            buffer[7:] = gradients[comm.rank].view(-1)
            stream.finish()
            assert buffer[:7].tolist() == [sum(range(comm.size))] * 7
            exchanged += buffer[7:] / steps
        exact = gradients.sum(0).view(-1)
        assert (exchanged - exact).norm() / exact.norm() < bound
        for other in comm.allgather_objects(buffer):
            assert torch.equal(buffer, other)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("model", ["mlp", "tied"])
@pytest.mark.parametrize("overlap", [False, True], ids=["whole", "overlap"])
@pytest.mark.parametrize(
    ("compression", "bound"), [("fp16", 1e-4), ("bf16", 1e-3), ("int8", 1e-2), ("low-rank", 0.1)]
)
def test_compressed_training_stays_close(
    comm: Communicator, model: str, overlap: bool, compression: str, bound: float
) -> None:
    strategy = Allreduce(compress=compression, overlap=overlap, bucket_bytes=1 << 12)
    compressed, loss = train_and_evaluate(comm, strategy, model)
    alone, expected = train_alone(model)
    assert largest_difference(compressed, alone) < bound
    assert loss == pytest.approx(expected, abs=bound)
    for tensor in compressed:
        assert all(torch.equal(tensor, other) for other in comm.allgather_objects(tensor))


def test_alone_nothing_is_rounded() -> None:
    comm = SingleCommunicator()
    for strategy in (Allreduce(compress="bf16"), Allreduce(compress="fp16", overlap=True)):
        assert largest_difference(train(comm, strategy, "mlp"), train(comm, Single(), "mlp")) == 0


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"algorithm": "rign"}, "did you mean 'ring'?"),
        ({"algorithm": "linear", "overlap": True}, "has ring, rabenseifner, recursive-doubling"),
        ({"algorithm": "ring", "compress": "fp16"}, "give one of the two"),
        (
            {"compress": "fp8"},
            "one of bf16, fp16, int8, int4, low-rank, not 'fp8'",
        ),
        ({"bucket_bytes": 0}, "at least 1, not 0"),
    ],
)
def test_options_that_cannot_work(options: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError) as error:
        Allreduce(**options)
    assert cause in str(error.value)


@pytest.mark.parametrize(
    "options", [{"overlap": True}, {"compress": "fp16"}, {"algorithm": "ring"}]
)
def test_fixed_shards_leave_nothing_to_choose(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="leave out those, or the shards"):
        train(SingleCommunicator(), Allreduce(**options), "mlp", shards=4)


def test_a_compiled_pass_leaves_nothing_to_overlap_with() -> None:
    with pytest.raises(UsageError, match="leaves nothing to overlap"):
        train(SingleCommunicator(), Allreduce(overlap=True), "mlp", compile=True)


def test_settings_become_options() -> None:
    settings = Settings(overlap=True, algorithm="ring")
    name = default_strategy(2, settings.strategy_options)
    assert make(name, settings.strategy_options) == Allreduce(overlap=True, algorithm="ring")


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({"overlap": True, "strategy": "server"}, "strategies that take it: allreduce, central"),
        ({"compress": "fp16", "strategy": "single"}, "strategies that take it: allreduce"),
        ({"compress": "bf16", "shards": 4}, "leaves nothing to --compress"),
        ({"lossy": True, "shards": 4}, "so that nothing lossy is used"),
        ({"algorithm": "ring", "compress": "bf16"}, "give one of the two"),
        ({"algorithm": "linear", "overlap": True}, "does not work with overlap"),
        ({"algorithm": "rabenseifer"}, "did you mean 'rabenseifner'?"),
        ({"compress": "int3"}, "--compress must be one of bf16, fp16"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], cause: str) -> None:
    with pytest.raises(UsageError) as error:
        check_settings(Settings(**settings), 1)
    assert cause in str(error.value)
