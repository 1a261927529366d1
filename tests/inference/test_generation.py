"""A text goes on by what its model deems likely."""

import pytest
import torch
from torch import Tensor, nn

from phalanx.data.text.vocabulary import Vocabulary
from phalanx.errors import DataError
from phalanx.inference.generation import go_on

LETTERS = Vocabulary(tuple("abcd"))


class Next(nn.Module):
    """Deems the next letter likely, the one behind it half as much, and looks at no more."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def forward(self, tokens: Tensor) -> Tensor:
        assert not self.training
        self.longest = max(self.longest, tokens.shape[1])
        shares = torch.tensor([0.0, 0.6, 0.3, 0.1])
        return torch.stack([shares.roll(int(one)) for one in tokens[0]]).log().T[None]


def test_the_likeliest() -> None:
    model = Next().train()
    assert go_on(model, LETTERS, "ab", length=6, context=3) == "cdabcd"
    assert model.longest == 3
    assert model.training


def test_what_is_drawn_depends_on_the_seed_and_the_temperature() -> None:
    def drawn(seed: int, temperature: float) -> str:
        options = {"temperature": temperature, "seed": seed}
        return go_on(Next(), LETTERS, "a", length=200, context=8, **options)  # type: ignore[arg-type]

    def steps(text: str) -> list[int]:
        return [(ord(two) - ord(one)) % 4 for one, two in zip("a" + text, text, strict=False)]

    assert drawn(1, 1.0) == drawn(1, 1.0) != drawn(2, 1.0)
    counts = [steps(drawn(1, 1.0)).count(step) for step in range(4)]
    assert counts[0] == 0
    assert counts[1] > counts[2] > counts[3] > 0
    assert set(steps(drawn(1, 1e-3))) == {1}


def test_a_prompt_of_strangers() -> None:
    with pytest.raises(DataError, match="the prompt: holds 'x'"):
        go_on(Next(), LETTERS, "ax", length=1, context=3)
