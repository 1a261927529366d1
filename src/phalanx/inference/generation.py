"""A text that a trained model goes on with, token by token."""

import torch
from torch import Tensor, nn

from phalanx.data.text.vocabulary import Vocabulary
from phalanx.models.modes import kept_modes


@torch.inference_mode()
def go_on(
    model: nn.Module,
    vocabulary: Vocabulary,
    prompt: str,
    *,
    length: int,
    context: int,
    temperature: float = 0.0,
    seed: int = 0,
) -> str:
    """What follows a prompt: so many tokens, each by the `context` tokens before it at most.

    Without a temperature each is the likeliest; with one it is drawn, by the seed, from
    probabilities that are the more even the higher the temperature is.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = vocabulary.encode(prompt, where="the prompt").tolist()
    begun = len(tokens)
    with kept_modes(model):
        model.eval()
        for _ in range(length):
            window = torch.tensor([tokens[-context:]])
            tokens.append(_next(model(window)[0, :, -1], temperature, generator))
    return vocabulary.decode(tokens[begun:])


def _next(outputs: Tensor, temperature: float, generator: torch.Generator) -> int:
    if temperature == 0:
        return int(outputs.argmax())
    # From the largest on: what a small temperature makes of it stays a number.
    scores = (outputs - outputs.max()).to(torch.float64) / temperature
    return int(torch.multinomial(scores.softmax(0), 1, generator=generator))
