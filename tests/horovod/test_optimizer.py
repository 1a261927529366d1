"""DistributedOptimizer: what it does to a training loop that plain torch would do to all data."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import phalanx.horovod.torch as hvd
from phalanx.errors import UsageError

pytestmark = pytest.mark.usefixtures("horovod")

STEPS = 3
ROWS = 12

Loop = Callable[[nn.Module, Any, list[tuple[Tensor, Tensor]]], None]


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def batches(rank: int | None) -> list[tuple[Tensor, Tensor]]:
    """The steps' batches: one rank's rows, or those of all ranks."""
    generator = torch.Generator().manual_seed(11)
    whole = [
        (torch.randn(ROWS, 4, generator=generator), torch.randn(ROWS, 2, generator=generator))
        for _ in range(STEPS)
    ]
    if rank is None:
        return whole
    return [(x[rank :: hvd.size()], y[rank :: hvd.size()]) for x, y in whole]


def backward(model: nn.Module, batch: tuple[Tensor, Tensor], scale: float = 1.0) -> Tensor:
    loss = nn.functional.mse_loss(model(batch[0]), batch[1]) * scale
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def plain_loop(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
    for batch in data:
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()


def compare(
    make: Callable[[nn.Module], torch.optim.Optimizer],
    loop: Loop = plain_loop,
    *,
    reference: Loop | None = None,
    tolerance: float = 1e-6,
    **options: Any,
) -> Any:
    """Train on each rank's rows with the wrapper, and on all rows without; compare weights."""
    expected, model = network(), network()
    (reference or loop)(expected, make(expected), batches(None))
    optimizer = hvd.DistributedOptimizer(make(model), model.named_parameters(), **options)
    loop(model, optimizer, batches(hvd.rank()))
    for own, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=tolerance, atol=tolerance)
    return optimizer


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@pytest.mark.ranks(1, 2, 3, 4)
def test_parity() -> None:
    optimizer = compare(sgd)
    assert isinstance(optimizer, torch.optim.SGD)
    assert type(optimizer).__name__ == "SGD"


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda model: torch.optim.AdamW(model.parameters(), lr=0.05),
        lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01),
        lambda model: torch.optim.Adagrad(
            [{"params": [p], "lr": 0.1 / (i + 1)} for i, p in enumerate(model.parameters())]
        ),
    ],
    ids=["AdamW", "RMSprop", "groups of parameters"],
)
def test_any_optimizer(make: Callable[[nn.Module], torch.optim.Optimizer]) -> None:
    compare(make, tolerance=1e-5)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "options",
    [
        {"gradient_predivide_factor": 2.0},
        {"num_groups": 2},
        {"compression": hvd.Compression.fp16, "tolerance": 2e-3},
        {"groups": 1},
    ],
    ids=str,
)
def test_options(options: dict[str, Any]) -> None:
    compare(sgd, **options)


@pytest.mark.ranks(2)
def test_groups_of_parameters_that_go_together() -> None:
    model = network()
    parameters = list(model.parameters())
    optimizer = hvd.DistributedOptimizer(sgd(model), groups=[parameters[:1], parameters[2:]])
    plain_loop(model, optimizer, batches(hvd.rank()))
    weights = hvd.allgather(parameters[2].detach()[None])
    torch.testing.assert_close(weights[0], weights[1])


@pytest.mark.ranks(2)
def test_a_compressor_of_the_users_own() -> None:
    class Doubled:
        @staticmethod
        def compress(tensor: Tensor) -> tuple[Tensor, Any]:
            return tensor * 2, "context"

        @staticmethod
        def decompress(tensor: Tensor, ctx: Any) -> Tensor:
            assert ctx == "context"
            return tensor / 2

    compare(sgd, compression=Doubled)


@pytest.mark.ranks(1, 2)
def test_backward_passes_per_step() -> None:
    def loop(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
        for inputs, targets in data:
            optimizer.zero_grad()
            half = len(inputs) // 2
            for rows in (slice(half), slice(half, None)):
                backward(model, (inputs[rows], targets[rows]), 0.5)
            optimizer.step()

    compare(sgd, loop, backward_passes_per_step=2)


@pytest.mark.ranks(1, 2, 3)
def test_clipping_between_synchronize_and_step() -> None:
    def clipped(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
        for batch in data:
            optimizer.zero_grad()
            backward(model, batch)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()

    def loop(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
        for batch in data:
            optimizer.zero_grad(set_to_none=False)
            backward(model, batch)
            optimizer.synchronize()
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            with optimizer.skip_synchronize():
                optimizer.step()

    compare(sgd, loop, reference=clipped)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_closures(search: str | None) -> None:
    def loop(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
        for batch in data:

            def closure(batch: tuple[Tensor, Tensor] = batch) -> Tensor:
                optimizer.zero_grad()
                return backward(model, batch)

            assert optimizer.step(closure) is not None

    if search is None:
        compare(sgd, loop)
    else:
        compare(
            lambda model: torch.optim.LBFGS(
                model.parameters(), max_iter=3, line_search_fn="strong_wolfe"
            ),
            loop,
            tolerance=1e-4,
        )


@pytest.mark.ranks(1, 2)
def test_gradient_scaler() -> None:
    def loop(model: nn.Module, optimizer: Any, data: list[tuple[Tensor, Tensor]]) -> None:
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for batch in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(batch[0]), batch[1])
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()

    compare(sgd, loop, reference=plain_loop)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("when", ["before", "after"])
def test_schedulers(when: str) -> None:
    model = network()
    plain = sgd(model)
    if when == "before":
        scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.5)
    optimizer = hvd.DistributedOptimizer(plain)
    if when == "after":
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for batch in batches(hvd.rank()):
        optimizer.zero_grad()
        backward(model, batch)
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 2**STEPS)


@pytest.mark.ranks(1)
def test_refusals() -> None:
    model = network()
    with pytest.raises(UsageError, match="lacks 3"):
        hvd.DistributedOptimizer(sgd(model), list(model.named_parameters())[:1])
    with pytest.raises(UsageError, match="more than once: w"):
        hvd.DistributedOptimizer(sgd(model), [("w", p) for p in model.parameters()])
    with pytest.raises(UsageError, match="op Average, Sum and Adasum"):
        hvd.DistributedOptimizer(sgd(model), op=hvd.Max)
    with pytest.raises(UsageError, match="at least 1"):
        hvd.DistributedOptimizer(sgd(model), backward_passes_per_step=0)


@pytest.mark.ranks(2)
def test_state_and_groups_are_those_of_the_wrapped_one() -> None:
    model = network()
    plain = sgd(model)
    optimizer = hvd.DistributedOptimizer(plain)
    plain_loop(model, optimizer, batches(hvd.rank()))
    state = copy.deepcopy(optimizer.state_dict())
    optimizer.load_state_dict(state)
    assert optimizer.param_groups is plain.param_groups
    assert optimizer.state is plain.state
    assert optimizer.state_dict()["param_groups"] == state["param_groups"]


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_weights_of_convolutions(memory_format: torch.memory_format) -> None:
    torch.manual_seed(4)
    layers = (nn.Conv2d(1, 8, 3), nn.Conv2d(8, 16, 3), nn.Conv2d(16, 4, 1), nn.Flatten())
    model = nn.Sequential(*layers, nn.Linear(64, 2))
    model.to(memory_format=memory_format)  # type: ignore[call-overload]
    alone = copy.deepcopy(model)
    images, targets = torch.randn(6 * hvd.size(), 1, 8, 8), torch.randn(6 * hvd.size(), 2)
    mine = slice(hvd.rank(), None, hvd.size())
    optimizer = hvd.DistributedOptimizer(sgd(model), model.named_parameters())
    plain_loop(model, optimizer, [(images[mine], targets[mine])] * STEPS)
    plain_loop(alone, sgd(alone), [(images, targets)] * STEPS)
    for own, other in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-5)
