"""The report's PyTorch program, as it is written with Horovod: 500 values, 256 neurons, 10 digits.

    phalanx run -n 2 python -m examples.horovod_report.torch_program --output FOLDER

The first import is all that differs from Horovod's `import horovod.torch as hvd`; numbered comments
are the report's steps.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import phalanx.horovod.torch as hvd
from examples.horovod_report.data import load_digits

BATCH_SIZE = 32
LEARNING_RATE = 0.01
Loader = DataLoader[tuple[Tensor, ...]]


def main() -> None:
    parser = argparse.ArgumentParser(description="The report's PyTorch program.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", type=Path, default=Path(), help="a folder for the model")
    arguments = parser.parse_args()
    train(epochs=arguments.epochs, folder=arguments.output)


def train(*, epochs: int, folder: Path) -> tuple[nn.Module, float]:
    """The trained model, and its accuracy over the test samples of all ranks."""
    # 1. Initialise Horovod.
    hvd.init()

    # 2. Give each process a GPU of its own, if there are GPUs.
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())
        torch.cuda.set_device(device)
    torch.manual_seed(7)

    # 3. Partition the data set: a distributed sampler gives each rank samples of its own.
    training, test = (TensorDataset(*samples) for samples in load_digits())
    sampler: DistributedSampler[object] = DistributedSampler(
        training, num_replicas=hvd.size(), rank=hvd.rank()
    )
    loader = DataLoader(training, BATCH_SIZE, sampler=sampler)
    # No sampler for these: one would repeat samples so that all ranks have as many.
    mine = torch.utils.data.Subset(test, range(hvd.rank(), len(test), hvd.size()))

    # 4. The loss and the optimizer, whose learning rate grows with the number of ranks.
    model = nn.Sequential(nn.Linear(500, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    loss_function = nn.CrossEntropyLoss()
    plain = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE * hvd.size())

    # 5. Distribute the optimizer.
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())

    # 6. Broadcast the initial state.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    hvd.barrier()
    started = time.perf_counter()
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        loss = train_epoch(model, loader, optimizer, loss_function)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}", flush=True)
    hvd.barrier()
    seconds = time.perf_counter() - started
    accuracy = evaluate(model, DataLoader(mine, BATCH_SIZE), count=len(test))

    # 7. What is to be done once is done on one rank.
    if hvd.rank() == 0:
        path = folder / "model.pt"
        torch.save(model.state_dict(), path)
        print(f"{hvd.size()} ranks: time {seconds:.3f} s, accuracy {accuracy:.2%}, saved {path}")
    return model, accuracy


def train_epoch(
    model: nn.Module,
    loader: Loader,
    optimizer: torch.optim.Optimizer,
    loss_function: Callable[[Tensor, Tensor], Tensor],
) -> float:
    """Once through this rank's samples; the mean loss of all ranks."""
    device = next(model.parameters()).device
    total = 0.0
    for inputs, targets in loader:  # load a batch
        optimizer.zero_grad()  # reset the gradients
        outputs = model(inputs.to(device))  # forward propagation
        loss = loss_function(outputs, targets.to(device))
        loss.backward()  # type: ignore[no-untyped-call]  # backward propagation
        optimizer.step()  # update the weights
        total += loss.item()
    return hvd.allreduce(torch.tensor(total / len(loader)), name="loss").item()


def evaluate(model: nn.Module, loader: Loader, *, count: int) -> float:
    """The accuracy over the samples of all ranks, of which there are so many."""
    device = next(model.parameters()).device
    right = torch.tensor(0)
    model.eval()
    with torch.no_grad():
        for inputs, targets in loader:
            predictions = model(inputs.to(device)).argmax(1).cpu()
            right += (predictions == targets).sum()
    return hvd.allreduce(right, op=hvd.Sum, name="right").item() / count


if __name__ == "__main__":
    main()
