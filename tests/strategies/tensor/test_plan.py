"""Which layers are split, and how: nothing here needs more than one rank."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from phalanx import models
from phalanx.models.attention import CausalHeads
from phalanx.strategies.tensor.plan import make_plan, plan_table


def splits(model: nn.Module, ranks: int = 2) -> dict[str, str]:
    """How each module that is split is, and with whom: `output>name`."""
    plan = make_plan(model, ranks)
    return {one.name: one.how + (f">{one.partner}" if one.partner else "") for one in plan}


def test_blocks_of_a_residual_network_are_pairs() -> None:
    model = models.build("resnet20", input_shape=(3, 32, 32), classes=10)
    found = splits(model)
    assert found["4.residual.0"] == "output>4.residual.3"
    assert found["4.residual.1"] == "norm"
    assert found["4.residual.3"] == "input>4.residual.0"
    assert "0" not in found  # the stem and the head are small, and have no partner
    assert "14" not in found
    assert len(found) == 9 * 3


def test_the_heavier_layers_are_paired() -> None:
    model = nn.Sequential(
        nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 64)
    )
    assert splits(model) == {"2": "output>4", "4": "input>2"}


def test_a_layer_without_a_partner_gathers_its_larger_side() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 64), nn.Softmax(1))
    assert splits(model) == {"0": "output", "2": "input"}


def test_fewer_features_than_ranks_are_not_split() -> None:
    model = nn.Sequential(nn.Linear(50, 3), nn.ReLU(), nn.Linear(3, 50))
    assert splits(model, 3) == {"0": "output>2", "2": "input>0"}
    assert splits(model, 4) == {}
    assert splits(nn.Sequential(nn.Flatten(), nn.Linear(5000, 3)), 4) == {"1": "input"}


def tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(80, 80), nn.ReLU(), nn.Linear(80, 80))
    model[2].weight = model[0].weight
    return model


def repeated() -> nn.Module:
    layer = nn.Linear(80, 80)
    return nn.Sequential(layer, nn.ReLU(), layer)


def hooked() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(80, 80))
    model[1].register_forward_hook(lambda *_: None)
    return model


def normed_by_weights() -> nn.Module:
    layer = nn.Linear(80, 80)
    return nn.Sequential(nn.Flatten(), nn.utils.parametrizations.weight_norm(layer))


def depthwise() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 256, 1), nn.Conv2d(256, 256, 5, groups=256))


class Reading(nn.Module):
    """Uses a weight without calling its layer; on request in a way that cannot be traced."""

    def __init__(self, *, traceable: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(80, 80)
        self.traceable = traceable

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.traceable and bool(inputs[0, 0] > 0):
            return inputs
        outputs: Tensor = self.layer(inputs) + self.layer.weight.sum()
        return outputs


@pytest.mark.parametrize(
    "build",
    [
        *(tied, repeated, hooked, normed_by_weights, depthwise),
        lambda: Reading(traceable=True),
        lambda: Reading(traceable=False),
        lambda: nn.TransformerEncoderLayer(80, 2),
    ],
)
def test_what_stays_whole(build: Callable[[], nn.Module]) -> None:
    assert splits(build()) == {}


class Branching(nn.Module):
    """The first layer's outputs are read twice, so that the two are no pair."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(80, 80)
        self.second = nn.Linear(80, 80)

    def forward(self, inputs: Tensor) -> Tensor:
        features = torch.relu(self.first(inputs))
        outputs: Tensor = features + self.second(features)
        return outputs


def test_slices_have_one_reader() -> None:
    assert splits(Branching()) == {"first": "output", "second": "output"}


@pytest.mark.parametrize(
    ("between", "paired"),
    [
        ([nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout()], True),
        ([nn.BatchNorm2d(8), nn.Flatten(), nn.BatchNorm1d(512)], True),
        ([nn.MaxPool2d(2, return_indices=True), nn.Flatten()], False),
        ([nn.Flatten(2), nn.Flatten()], False),
        ([nn.Softmax(1), nn.Flatten()], False),
        ([nn.PReLU(), nn.Flatten()], False),
        ([nn.LayerNorm(8), nn.Flatten()], False),
        ([], False),
    ],
)
def test_what_may_lie_between(between: list[nn.Module], paired: bool) -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3), *between, nn.Linear(512, 4))
    assert ("0" in splits(model)) == paired


def test_tracing_leaves_no_trace() -> None:
    model = models.build("simplecnn", input_shape=(1, 8, 8), classes=10).eval()
    state = torch.get_rng_state()
    make_plan(model, 2)
    assert not any(module.training for module in model.modules())
    assert torch.equal(state, torch.get_rng_state())


def test_table() -> None:
    model = models.build("simplecnn", input_shape=(1, 8, 8), classes=10)
    table = plan_table(model, make_plan(model, 3), ranks=3)
    assert table.rows[0] == ("0", "by output", "2", "4 = 2 + 1 + 1", "20")
    assert table.rows[1] == ("2", "by input", "0", "4 = 2 + 1 + 1", "152")
    whole = plan_table(model, make_plan(model, 1), ranks=1)
    assert whole.rows[0] == ("0", "whole", "–", "–", "40")


def transformer(heads: int) -> nn.Module:
    options = {"blocks": 1, "attention_heads": heads, "embedding_size": 24}
    return models.build("transformer", input_shape=(8,), classes=5, options=options)


def test_heads_of_attention_are_split_with_the_layers_around_them() -> None:
    plan = {split.name: split for split in make_plan(transformer(heads=4), 3)}
    assert {name: one.partner for name, one in plan.items()} == {
        "block1.attention.1": "block1.attention.3",
        "block1.attention.3": "block1.attention.1",
        "block1.mlp.1": "block1.mlp.3",
        "block1.mlp.3": "block1.mlp.1",
    }
    # Four heads of 6: two of them for the first rank, and each with its queries, keys and values.
    inner, outer = plan["block1.attention.1"], plan["block1.attention.3"]
    assert (inner.how, outer.how) == ("output", "input")
    assert inner.slices(3) == [slice(0, 36), slice(36, 54), slice(54, 72)]
    assert outer.slices(3) == [slice(0, 12), slice(12, 18), slice(18, 24)]


def test_fewer_heads_than_ranks_are_not_split() -> None:
    assert [*splits(transformer(heads=2), 3)] == ["block1.mlp.1", "block1.mlp.3"]


def test_heads_that_do_not_fit_the_layers_around_them_are_left_alone() -> None:
    model = nn.Sequential(nn.Linear(80, 90), nn.ReLU(), CausalHeads(10), nn.Linear(30, 80))
    assert splits(model) == {"0": "output"}
