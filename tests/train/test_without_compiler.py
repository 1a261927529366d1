"""Optimizers that leave torch's compiler out compute what torch's own do."""

import json
import subprocess
import sys

import pytest

from phalanx.settings.optimizers import OPTIMIZERS

#: How: what every optimizer came to, and which modules were loaded by then.
Trained = dict[str, tuple[dict[str, object], list[bool]]]
#: Three steps with every optimizer, a schedule, a hook and a saved state, as torch's or as ours.
TRAIN = """
import json, sys
import torch
from torch.optim import Optimizer
from phalanx.settings.optimizers import OPTIMIZERS
from phalanx.strategies.building_blocks.passes import backward
from phalanx.strategies.building_blocks.sliced_optimizer import computes_as
from phalanx.train.measures.baselines import _logistic
from phalanx.train.optimizers import make_optimizer
from phalanx.settings.table import Settings

if sys.argv[1] == "torch":
    import torch._dynamo

found = {}
for name in OPTIMIZERS:
    torch.manual_seed(7)
    model = torch.nn.Linear(5, 3)
    optimizer = make_optimizer(Settings(optimizer=name), model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(torch.is_grad_enabled()))
    for _ in range(3):
        optimizer.zero_grad()
        backward(model(torch.randn(4, 5)).square().sum(), 0.5)
        optimizer.step()
        schedule.step()
    optimizer.load_state_dict(optimizer.state_dict())
    found[name] = [model.weight.tolist(), model.bias.tolist(), seen]
    assert type(optimizer).__name__ == OPTIMIZERS[name].kind
    own = getattr(torch.optim, OPTIMIZERS[name].kind, Optimizer)
    assert own in (computes_as(type(optimizer)), Optimizer)
    assert "hooked" not in vars(own.step) or sys.argv[1] == "torch", "torch's class is another"
torch.manual_seed(7)
rows, few = torch.randn(20, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
found["a baseline"] = _logistic(rows, torch.arange(20) % 3, few, outputs=3).tolist()
print(json.dumps([found, [name in sys.modules for name in ("torch._dynamo", "sympy")]]))
"""


@pytest.fixture(scope="module")
def trained() -> Trained:
    started = {
        how: subprocess.Popen([sys.executable, "-c", TRAIN, how], stdout=subprocess.PIPE, text=True)
        for how in ("torch", "ours")
    }
    return {how: json.loads(process.communicate()[0]) for how, process in started.items()}


def test_the_compiler_is_not_loaded(trained: Trained) -> None:
    """Nor is sympy, which torch imports for its symbolic shapes: a third of a second a rank."""
    assert trained["torch"][1] == [True, True]
    assert trained["ours"][1] == [False, False]


@pytest.mark.parametrize("name", [*OPTIMIZERS, "a baseline"])
def test_the_same_bits(trained: Trained, name: str) -> None:
    assert trained["ours"][0][name] == trained["torch"][0][name]
