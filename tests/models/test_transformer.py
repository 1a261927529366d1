"""The transformer computes what its layers say, and no token sees those behind it."""

import math
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.models import build
from phalanx.models.attention import CausalHeads
from phalanx.models.families.transformer import Block
from phalanx.models.table import layer_rows, parameter_count

TOKENS, LENGTH, SIZE = 11, 7, 12


def make_model(**options: object) -> nn.Sequential:
    torch.manual_seed(3)
    given = {"embedding_size": SIZE, "attention_heads": 3, **options}
    model = build("transformer", input_shape=(LENGTH,), classes=TOKENS, options=given)
    assert isinstance(model, nn.Sequential)
    return model


def make_tokens(samples: int = 2) -> Tensor:
    return torch.randint(TOKENS, (samples, LENGTH), generator=torch.Generator().manual_seed(4))


def test_its_size_and_its_shapes() -> None:
    model = make_model(blocks=3)
    block = 4 * SIZE + (3 * SIZE**2) + (SIZE**2 + SIZE) + (8 * SIZE**2 + 5 * SIZE)
    around = TOKENS * SIZE + LENGTH * SIZE + 2 * SIZE + TOKENS * SIZE + TOKENS
    assert parameter_count(model) == 3 * block + around
    assert model(make_tokens()).shape == (2, TOKENS, LENGTH)
    assert model(make_tokens()[:, :4]).shape == (2, TOKENS, 4)
    rows = layer_rows(model, (LENGTH,), dtype=torch.int64)
    assert rows[-1].output_shape == (TOKENS, LENGTH)


def test_a_token_sees_itself_and_those_before_it() -> None:
    model, tokens = make_model(), make_tokens(1)
    other = tokens.clone()
    other[0, 4] = (other[0, 4] + 1) % TOKENS
    before, after = model(tokens), model(other)
    torch.testing.assert_close(before[:, :, :4], after[:, :, :4])
    for place in range(4, LENGTH):
        assert not torch.allclose(before[:, :, place], after[:, :, place])


def test_heads_compute_attention() -> None:
    """As the definition has it, head by head: softmax of queries times keys, times values."""
    size, heads = 4, 3
    inputs = torch.randn(2, LENGTH, heads * 3 * size, dtype=torch.float64)
    outputs = CausalHeads(size)(inputs)
    for head in range(heads):
        mine = inputs[..., head * 3 * size :][..., : 3 * size]
        queries, keys, values = torch.split(mine, size, -1)
        scores = queries @ keys.transpose(1, 2) / math.sqrt(size)
        later = torch.ones(LENGTH, LENGTH).triu(1).bool()
        weights = scores.masked_fill(later, -math.inf).softmax(-1)
        expected = weights @ values
        torch.testing.assert_close(outputs[..., head * size :][..., :size], expected)
    some = CausalHeads(size)(inputs[..., 3 * size :])
    torch.testing.assert_close(some, outputs[..., size:])  # the last two heads by themselves


def test_initial_weights_are_small_and_guess_evenly() -> None:
    model = make_model(blocks=2)
    block = cast(Block, model.get_submodule("block1"))
    added, other = (cast(nn.Linear, block.mlp[place]).weight.std() for place in (3, 1))
    assert added < 0.7 * other
    loss = nn.CrossEntropyLoss()(model(make_tokens()), make_tokens())
    assert loss.item() == pytest.approx(math.log(TOKENS), rel=0.05)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"attention_heads": 5}, "12 does not divide by 5 attention heads"),
        ({"blocks": 0}, "blocks must be at least 1"),
        ({"dropout_rate": 1.0}, "dropout_rate must be from 0 to below 1"),
    ],
)
def test_what_it_cannot_be(options: dict[str, object], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        make_model(**options)


def test_it_reads_tokens_alone() -> None:
    with pytest.raises(UsageError, match="reads samples of tokens"):
        build("transformer", input_shape=(1, 8, 8), classes=10)
