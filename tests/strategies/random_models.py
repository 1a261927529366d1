"""Models, data, losses and optimizers drawn from a seed: the same on every rank."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop

from phalanx.data.split import Split

CLASSES = 3
WIDTH = 6


@dataclass(frozen=True)
class Case:
    """One training, which any number of ranks can make anew from its seed."""

    seed: int

    def draw(self, purpose: str) -> Random:
        """What is chosen for a purpose does not depend on what is chosen for another."""
        return Random(f"{self.seed} {purpose}")

    @property
    def dtype(self) -> torch.dtype:
        return self.draw("dtype").choice([torch.float32, torch.float64])

    @property
    def kind(self) -> str:
        return self.draw("kind").choice(["table", "table", "words", "images", "sequence"])

    @property
    def batch_size(self) -> int:
        return self.draw("batch").randint(3, 11)

    @property
    def options(self) -> dict[str, Any]:
        draw = self.draw("options")
        options: dict[str, Any] = {}
        if draw.random() < 0.25:
            options["clip_norm"] = draw.choice([0.1, 1.0])
        if draw.random() < 0.25:
            options["accumulate"] = draw.randint(2, 3)
        return options

    def model(self) -> nn.Module:
        torch.manual_seed(self.seed)
        model = RandomModel(self)
        for parameter in model.parameters():  # and not the buffers, of which some are complex
            parameter.data = parameter.data.to(self.dtype)
        return model

    def loss(self) -> nn.Module:
        draw = self.draw("loss")
        weights = torch.tensor([draw.uniform(0.1, 4) for _ in range(CLASSES)], dtype=self.dtype)
        made: nn.Module = draw.choice(LOSSES)(weights)
        return made

    def split(self) -> Split:
        draw, torch_draw = self.draw("data"), torch.Generator().manual_seed(self.seed)
        count = draw.randint(5, 23)
        inputs = self._inputs(count, torch_draw)
        if isinstance(self.loss(), nn.CrossEntropyLoss | nn.NLLLoss | nn.MultiMarginLoss):
            targets = torch.randint(0, CLASSES, (count,), generator=torch_draw)
            ignores = getattr(self.loss(), "ignore_index", None) == -100
            if ignores and draw.random() < 0.3:
                targets[torch.rand(count, generator=torch_draw) < 0.3] = -100
                targets[0] = 1
        else:
            targets = torch.rand(count, CLASSES, generator=torch_draw).softmax(1)
        return Split(inputs, targets)

    def _inputs(self, count: int, draw: torch.Generator) -> Tensor:
        if self.kind == "words":
            return torch.randint(0, 9, (count, 4), generator=draw)
        shape = {"images": (1, 4, 4), "sequence": (5, WIDTH)}.get(self.kind, (WIDTH,))
        return torch.randn(count, *shape, generator=draw)

    def optimizer(self, model: nn.Module) -> Optimizer:
        draw = self.draw("optimizer")
        free = [one for one in model.parameters() if one.requires_grad]
        groups: list[dict[str, Any]] = [{"params": free}]
        if len(free) > 1 and draw.random() < 0.4:
            groups = [{"params": free[:1], "lr": 0.003}, {"params": free[1:]}]
        return draw.choice(OPTIMIZERS)(groups)


OPTIMIZERS: list[Callable[[Any], Optimizer]] = [
    lambda groups: SGD(groups, lr=0.01),
    lambda groups: SGD(groups, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
    # Large epsilons: else the rounding of a gradient that is almost zero becomes a whole step.
    lambda groups: Adam(groups, lr=0.01, eps=0.01),
    lambda groups: AdamW(groups, lr=0.01, eps=0.01, amsgrad=True),
    lambda groups: RMSprop(groups, lr=0.01, eps=0.1),
    lambda groups: Adagrad(groups, lr=0.01, initial_accumulator_value=0.1),
]

LOSSES: list[Callable[[Tensor], nn.Module]] = [
    lambda weights: nn.CrossEntropyLoss(),
    lambda weights: nn.CrossEntropyLoss(weight=weights),
    lambda weights: nn.CrossEntropyLoss(ignore_index=1),
    lambda weights: nn.CrossEntropyLoss(weight=weights, ignore_index=0, label_smoothing=0.1),
    lambda weights: nn.CrossEntropyLoss(weight=weights, reduction="sum"),
    lambda weights: nn.NLLLoss(weight=weights),
    lambda weights: nn.MultiMarginLoss(weight=weights),
    lambda weights: nn.MSELoss(),
    lambda weights: nn.MSELoss(reduction="sum"),
    lambda weights: nn.BCEWithLogitsLoss(pos_weight=weights),
    lambda weights: nn.SmoothL1Loss(beta=0.3),
    lambda weights: nn.KLDivLoss(reduction="batchmean"),
]


class RandomModel(nn.Module):
    """A first layer for the kind of data, some random ones, and what models have besides."""

    calls: Tensor | None

    def __init__(self, case: Case) -> None:
        super().__init__()
        draw = case.draw("model")
        self.first = _first(case.kind, draw)
        self.blocks = nn.ModuleList(_block(draw) for _ in range(draw.randint(0, 3)))
        self.last = nn.Linear(WIDTH, CLASSES, bias=draw.random() < 0.8)
        self.scale = nn.Parameter(torch.tensor(1.0)) if draw.random() < 0.3 else None
        if draw.random() < 0.2:
            self.unused = nn.Linear(2, 2)
        if draw.random() < 0.3:
            next(self.first.parameters()).requires_grad = False
        if draw.random() < 0.3 and len(self.blocks) > 1:
            self.blocks[1] = self.blocks[0]  # tied
        self._add_buffers(draw)

    def _add_buffers(self, draw: Random) -> None:
        for number in range(draw.randint(0, 3)):
            value = draw.choice(
                [
                    torch.full((2,), torch.finfo(torch.float32).min),
                    torch.tensor([1 / 3, 0.1]),
                    torch.tensor([1 + 2j]),
                    torch.tensor(2**53 + 1),
                    torch.tensor([True, False]),
                    torch.zeros(0),
                ]
            )
            self.register_buffer(f"constant{number}", value, persistent=draw.random() < 0.5)
        self.register_buffer("calls", torch.tensor(0) if draw.random() < 0.4 else None)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training and self.calls is not None:
            self.calls += 1
        value: Tensor = self.first(inputs)
        for block in self.blocks:
            value = block(value)
        outputs: Tensor = self.last(value)
        outputs = outputs if self.scale is None else outputs * self.scale
        return outputs.log_softmax(1)


class LastState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        state: Tensor = self.cells(inputs)[1][0]
        return state


class Attended(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        value: Tensor = self.layer(inputs)
        return value.mean(1)


def _first(kind: str, draw: Random) -> nn.Module:
    match kind:
        case "words":
            sparse = nn.EmbeddingBag(9, WIDTH, mode=draw.choice(["mean", "sum"]))
            return draw.choice(
                [sparse, nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, WIDTH))]
            )
        case "images":
            layer = nn.Conv2d(1, WIDTH, 3, padding=1)
            norm: list[nn.Module] = [nn.GroupNorm(2, WIDTH)] if draw.random() < 0.5 else []
            return nn.Sequential(layer, *norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        case "sequence":
            return LastState() if draw.random() < 0.5 else Attended()
        case _:
            return nn.Linear(WIDTH, WIDTH)


def _block(draw: Random) -> nn.Module:
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Linear(WIDTH, WIDTH),
        lambda: nn.Sequential(nn.Linear(WIDTH, 11, bias=False), nn.GELU(), nn.Linear(11, WIDTH)),
        nn.Tanh,
        lambda: nn.LayerNorm(WIDTH),
        nn.PReLU,
        lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    ]
    return draw.choice(makers)()
