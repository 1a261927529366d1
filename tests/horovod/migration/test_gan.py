"""Two networks, one of whose losses goes back through the other: what is refused, what works."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import phalanx.horovod.torch as hvd

pytestmark = [pytest.mark.usefixtures("horovod"), pytest.mark.ranks(2)]

Backward = Callable[[Tensor, nn.Module, nn.Module], None]


def textbook(loss: Tensor, generator: nn.Module, discriminator: nn.Module) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def inputs(loss: Tensor, generator: nn.Module, discriminator: nn.Module) -> None:
    loss.backward(inputs=list(generator.parameters()))  # type: ignore[no-untyped-call]


def train(backward: Backward, *, freeze: bool = False, alone: bool = False) -> list[Tensor]:
    """Three rounds on each rank's rows, or on those of both `alone`."""
    torch.manual_seed(1)
    generator, discriminator = nn.Linear(2, 3), nn.Linear(3, 1)
    data = torch.Generator().manual_seed(2)
    plain: list[Any] = [
        torch.optim.SGD(one.parameters(), lr=0.1) for one in (discriminator, generator)
    ]
    if not alone:
        plain = [hvd.DistributedOptimizer(one) for one in plain]
    of_discriminator, of_generator = plain
    for _ in range(3):
        real, noise = torch.randn(4, 3, generator=data), torch.randn(4, 2, generator=data)
        if not alone:
            real, noise = real[hvd.rank() :: 2], noise[hvd.rank() :: 2]
        discriminator.zero_grad()
        fake = generator(noise)
        (discriminator(fake.detach()).mean() - discriminator(real).mean()).backward()
        of_discriminator.step()
        generator.zero_grad()
        discriminator.requires_grad_(not freeze)
        backward(-discriminator(fake).mean(), generator, discriminator)
        discriminator.requires_grad_(True)
        of_generator.step()
    return [p.detach() for one in (generator, discriminator) for p in one.parameters()]


def test_the_message_says_what_to_do() -> None:
    with pytest.raises(AssertionError) as caught:
        train(textbook)
    told = str(caught.value)
    assert "as a GAN's generator loss does through the discriminator" in told
    assert "`loss.backward(inputs=list(generator.parameters()))`" in told
    assert "`discriminator.requires_grad_(False)`" in told


@pytest.mark.parametrize(("backward", "freeze"), [(inputs, False), (textbook, True)])
def test_the_advice_works(backward: Backward, freeze: bool) -> None:
    expected = train(textbook, alone=True)
    for own, other in zip(train(backward, freeze=freeze), expected, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-5, atol=1e-6)
