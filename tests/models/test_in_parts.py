"""Models that are made without memory for their weights have the numbers that torch gives them."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from phalanx import UsageError, in_parts, models
from phalanx.models.in_parts import initial_of, is_in_parts

WIDTH = 512  # a layer has 1 MiB


class Awkward(nn.Module):
    """Looks back at weights that it made long ago, in ways that torch does not tell of."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Linear(WIDTH, WIDTH) for _ in range(6)]
        self.layers = nn.Sequential(*layers)
        self.words = nn.Embedding(100, WIDTH, padding_idx=3)
        self.out = nn.Linear(WIDTH, 100, bias=False)
        self.out.weight = self.words.weight
        self.norm = nn.BatchNorm1d(WIDTH)
        self.register_buffer("mask", torch.ones(WIDTH, WIDTH).tril())
        self.plain = torch.randn(WIDTH, WIDTH)
        self.apply(self.initialise)
        nn.init.orthogonal_(layers[2].weight)
        nn.init.trunc_normal_(layers[3].weight, std=0.02)
        self.seen = float(layers[0].weight.detach().numpy().sum())
        self.told = layers[1].weight.sum().item()
        with torch.no_grad():
            layers[4].weight.mul_(0.5)[3:5] += layers[0].weight[1:3]
            layers[4].bias.copy_(torch.from_numpy(np.arange(WIDTH, dtype=np.float32)))
        self.copied = copy.deepcopy(nn.ModuleList([self.layers[0], self.norm]))

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)


def make_resnet() -> nn.Module:
    return models.build("resnet20", input_shape=(3, 32, 32), classes=10, options={})


@pytest.mark.parametrize("make", [Awkward, make_resnet])
def test_the_numbers_are_those_of_a_whole_model(make: type[nn.Module]) -> None:
    torch.manual_seed(3)
    whole, then = make(), torch.randn(3)
    torch.manual_seed(3)
    parts, now = in_parts(make), torch.randn(3)
    assert torch.equal(then, now)
    assert is_in_parts(parts)
    for (name, expected), (_, found) in zip(
        whole.named_parameters(), parts.named_parameters(), strict=True
    ):
        assert found.is_meta
        assert found.requires_grad
        assert torch.equal(initial_of(name, found).values(), expected), name
    buffers = dict(parts.named_buffers())
    assert all(torch.equal(buffers[name], one) for name, one in whole.named_buffers())
    if isinstance(whole, Awkward) and isinstance(parts, Awkward):
        assert (whole.seen, whole.told) == (parts.seen, parts.told)
        assert torch.equal(whole.plain, parts.plain)
        assert parts.out.weight is parts.words.weight


class Most(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all tensors that were ever there at the same time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storages: dict[int, torch.UntypedStorage] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(one, torch.Tensor) and one.device.type == "cpu":
                self._storages[one.untyped_storage()._cdata] = one.untyped_storage()
        held = torch._C._storage_Use_Count
        self._storages = {at: one for at, one in self._storages.items() if held(at) > 1}
        self.bytes = max(self.bytes, sum(one.nbytes() for one in self._storages.values()))
        return found


def test_no_more_than_a_few_layers_are_in_memory() -> None:
    layer = 4 * WIDTH * (WIDTH + 1)
    with Most() as most:
        in_parts(lambda: nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(24)]))
    assert layer <= most.bytes <= 4 * layer


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match=r"gave a Tensor, not an nn\.Module"):
        in_parts(torch.ones, 3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="has no shape yet"):
        in_parts(nn.LazyLinear, 3)
