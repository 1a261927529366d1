"""Random models: plain torch, `single`, `allreduce` and `central` agree.

`make test` takes the first few, `make test-long` 200 of them.
"""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.checked import CheckedCommunicator
from phalanx.comm.single import SingleCommunicator
from phalanx.data.batches import batches
from phalanx.train.trainer import Trainer
from tests.strategies.random_models import Case
from tests.tiers import many, more_when_long

#: In tens, because a test by itself for each would take longer to report than to run.
TENS = range(many(20, long=200) // 10)
EPOCHS = 2


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """More than one, for models as small as these, would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def plain(case: Case) -> list[Tensor]:
    """What a plain loop makes of it."""
    model, loss = case.model(), case.loss()
    optimizer, clip = case.optimizer(model), case.options.get("clip_norm")
    for epoch in range(EPOCHS):
        for batch in batches(
            case.split(), batch_size=case.batch_size, seed=case.seed, epoch=epoch, dtype=case.dtype
        ):
            samples = batch.whole()
            model.zero_grad()
            loss(model(samples.inputs), samples.targets).backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def trained(case: Case, comm: Communicator, strategy: str, shards: int | None) -> list[Tensor]:
    model = case.model()
    with Trainer(
        model,
        case.optimizer(model),
        loss=case.loss(),
        strategy=strategy,
        comm=comm,
        seed=case.seed,
        shards=shards,
        memory_format="preserve",
        **case.options,
    ) as trainer:
        trainer.fit(case.split(), epochs=EPOCHS, batch_size=case.batch_size)
    for name, buffer in model.named_buffers():
        if name.startswith("constant"):
            assert torch.equal(buffer, case.model().get_buffer(name)), name
    return [parameter.detach() for parameter in model.parameters()]


def assert_close(ours: list[Tensor], theirs: list[Tensor], what: str) -> None:
    for mine, wanted in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            mine, wanted, rtol=0, atol=1e-5, msg=lambda text: f"{what}: {text}"
        )


@more_when_long
@pytest.mark.parametrize("ten", TENS)
def test_one_rank(ten: int) -> None:
    for case in map(Case, range(10 * ten, 10 * ten + 10)):
        wanted = plain(case)
        for shards in (None, 3):
            ours = trained(case, SingleCommunicator(), "single", shards)
            assert_close(ours, wanted, f"single, seed {case.seed}, shards {shards}")


@pytest.mark.ranks(1, 2, 3)
@more_when_long
@pytest.mark.parametrize("ten", TENS)
def test_ranks(comm: Communicator, ten: int) -> None:
    """Checked and as they are by default: the same bits."""
    assert isinstance(comm, CheckedCommunicator)
    for case in map(Case, range(10 * ten, 10 * ten + 10)):
        wanted = plain(case)
        shards = 4 if case.seed % 4 == 0 else None
        for strategy in ("allreduce", "central"):
            what = f"{strategy}, seed {case.seed}, shards {shards}"
            ours = trained(case, comm._inner, strategy, shards)
            assert_close(ours, wanted, what)
            for mine, checked in zip(ours, trained(case, comm, strategy, shards), strict=True):
                torch.testing.assert_close(mine, checked, rtol=0, atol=0)
