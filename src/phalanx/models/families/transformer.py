"""A small decoder-only transformer, as GPT has it: the next token, for each token of a text."""

import math
from collections import OrderedDict
from typing import final

import torch
from torch import Tensor, nn

from phalanx.errors import UsageError
from phalanx.models.attention import CausalHeads
from phalanx.models.options import ATTENTION_HEADS, BLOCKS, DROPOUT_RATE, EMBEDDING_SIZE

#: Deviation of the initial weights, as GPT-2 has it.
_DEVIATION = 0.02
#: How many times wider than the embedding the layer in the middle of a block is.
_WIDENED = 4


def build(
    *,
    input_shape: tuple[int, ...],
    classes: int,
    blocks: int = BLOCKS.default,
    attention_heads: int = ATTENTION_HEADS.default,
    embedding_size: int = EMBEDDING_SIZE.default,
    dropout_rate: float = DROPOUT_RATE.default,
) -> nn.Sequential:
    """For samples of so many tokens or fewer, each one of `classes`.

    Inputs are the tokens' numbers, [samples, tokens]; outputs [samples, classes, tokens], as
    `nn.CrossEntropyLoss` wants them.
    """
    for option, value in (
        (BLOCKS, blocks),
        (ATTENTION_HEADS, attention_heads),
        (EMBEDDING_SIZE, embedding_size),
        (DROPOUT_RATE, dropout_rate),
    ):
        option.check(value)
    _check(input_shape, classes, size=embedding_size, heads=attention_heads)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    layers["embedding"] = Embedding(classes, input_shape[0], embedding_size, dropout_rate)
    for number in range(1, blocks + 1):
        layers[f"block{number}"] = Block(embedding_size, attention_heads, dropout_rate)
    layers["norm"] = nn.LayerNorm(embedding_size)
    layers["head"] = nn.Linear(embedding_size, classes)
    layers["outputs"] = ClassesFirst()
    model = nn.Sequential(layers)
    _initialise(model, blocks)
    return model


@final
class Embedding(nn.Module):
    """A vector for each token, plus one for the place that it has."""

    def __init__(self, tokens: int, places: int, size: int, dropout_rate: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tokens, size)
        self.places = nn.Parameter(torch.empty(places, size))
        self.dropout = nn.Dropout(dropout_rate)

    def forward(self, tokens: Tensor) -> Tensor:
        """[samples, tokens, size]."""
        embedded: Tensor = self.dropout(self.tokens(tokens) + self.places[: tokens.shape[1]])
        return embedded


@final
class Block(nn.Module):
    """Attention, then two layers token by token, each added to what it reads."""

    def __init__(self, size: int, heads: int, dropout_rate: float) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.LayerNorm(size),
            # No bias: that of the keys would change nothing, and Adam make much of its rounding.
            nn.Linear(size, CausalHeads.parts * size, bias=False),
            CausalHeads(size // heads),
            nn.Linear(size, size),
            nn.Dropout(dropout_rate),
        )
        self.mlp = nn.Sequential(
            nn.LayerNorm(size),
            nn.Linear(size, _WIDENED * size),
            nn.GELU(),
            nn.Linear(_WIDENED * size, size),
            nn.Dropout(dropout_rate),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """The same shape."""
        inputs = inputs + self.attention(inputs)
        outputs: Tensor = inputs + self.mlp(inputs)
        return outputs


@final
class ClassesFirst(nn.Module):
    """[samples, tokens, classes] as losses want it: [samples, classes, tokens]."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.transpose(1, 2)


def _initialise(model: nn.Module, blocks: int) -> None:
    """Small weights; those that are added to what they read smaller still, the more there are."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            added = name.endswith("3.weight")
            nn.init.normal_(parameter, std=_DEVIATION / (math.sqrt(2 * blocks) if added else 1))


def _check(input_shape: tuple[int, ...], classes: int, *, size: int, heads: int) -> None:
    if len(input_shape) != 1 or input_shape[0] < 1 or classes < 1:
        raise UsageError(
            f"transformer reads samples of tokens, such as those of data set text, and cannot map "
            f"inputs of shape {input_shape} to {classes} classes"
        )
    if size % heads:
        raise UsageError(
            f"transformer: an embedding size of {size} does not divide by {heads} attention heads: "
            f"take {size // heads * heads + heads}, or other heads"
        )
