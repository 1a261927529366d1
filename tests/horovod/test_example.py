"""The example of docs/horovod.md: seven steps, and the weights of one rank on any number."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import phalanx.data
import phalanx.horovod.torch as hvd
from examples.horovod_torch import SAMPLES, train

GLOBAL_BATCH = 64
LEARNING_RATE = 0.1
EPOCHS = 2


def sequential() -> nn.Module:
    """The same training, in plain torch, on the batches of all ranks joined."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    samples = phalanx.data.load("digits").train.take(torch.arange(SAMPLES))
    for epoch in range(EPOCHS):
        order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(GLOBAL_BATCH):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            outputs = model(samples.inputs[batch])
            F.cross_entropy(outputs, samples.targets[batch]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return model


@pytest.mark.usefixtures("horovod")
@pytest.mark.ranks(1, 2, 4)
def test_weights_are_those_of_a_single_process(shared_path: Path) -> None:
    size = hvd.size()
    model = train(
        epochs=EPOCHS,
        batch_size=GLOBAL_BATCH // size,
        learning_rate=LEARNING_RATE / size,
        folder=shared_path,
    )
    expected = sequential().state_dict()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-5, atol=1e-5)
    hvd.barrier()
    saved = torch.load(shared_path / "horovod_digits.pt")
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())
