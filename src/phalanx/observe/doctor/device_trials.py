"""The program of ranks that try out their devices: every way that tensors and trainings take there.

On GPUs it is the first thing to run. Without any, gloo stands in for NCCL, and CPU memory for that
of GPUs, which tries the same code. Each trial compares with one process in CPU memory. The first
rank prints what came of all as lines of JSON, each as soon as it is known.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch
from torch import Tensor, nn

from phalanx.comm import world
from phalanx.comm.base import Communicator
from phalanx.comm.device.gpus import gpu_of, sharing
from phalanx.comm.device.on_device import on_device
from phalanx.comm.hosts import on_one_host
from phalanx.comm.launch.process import die_with_parent
from phalanx.comm.single import SingleCommunicator
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.observe.doctor.verbs import TRIALS
from phalanx.strategies.base import Strategy
from phalanx.strategies.registry import STRATEGIES, check_ranks, make
from phalanx.train.compute import choose_device
from phalanx.train.trainer import Trainer

#: What makes a strategy give the weights of one rank.
_EXACTLY: dict[str, dict[str, Any]] = {"async": {"max_staleness": 0}, "local": {"every": 1}}
_TOLERANCE = 1e-4
_SHARDS = 4


class NotTried(Exception):  # noqa: N818 (it is none)
    """Why something cannot be tried here."""


@final
@dataclass(frozen=True)
class Ranks:
    """Those that are examined, and where each has its tensors."""

    plain: Communicator
    on_device: Communicator
    device: torch.device

    @staticmethod
    def open() -> "Ranks":
        """Collective. On GPUs if every rank sees one, else in CPU memory."""
        comm = world()
        seen = all(comm.allgather_objects(torch.cuda.is_available()))
        device = choose_device(comm, "cuda" if seen else "cpu")
        if seen or comm.size == 1:
            return Ranks(comm, on_device(comm, device), device)
        from phalanx.comm.device.distributed import DistributedCommunicator

        return Ranks(comm, DistributedCommunicator(comm, device), device)

    @property
    def has_gpus(self) -> bool:
        return self.device.type == "cuda"

    def trainer(self, strategy: Strategy | str, **options: Any) -> Trainer:
        """Collective. A training of the ranks on their devices."""
        return _trainer(self.on_device, self.device, strategy, **options)


def _trainer(
    comm: Communicator, device: torch.device, strategy: Strategy | str, **options: Any
) -> Trainer:
    generator = torch.random.get_rng_state()
    torch.manual_seed(4)
    layers = [nn.Linear(12, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 4)]
    torch.random.set_rng_state(generator)
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Trainer(model, optimizer, strategy=strategy, comm=comm, seed=3, **options)


def _samples() -> Split:
    numbers = torch.randn(56, 12, generator=torch.Generator().manual_seed(9))
    return Split(numbers, numbers[:, :4].argmax(1))


def _train(trainer: Trainer, epochs: int = 1) -> None:
    trainer.fit(_samples(), epochs=epochs, batch_size=14)


def _weights(trainer: Trainer) -> Tensor:
    trainer.sync()
    return torch.cat([one.detach().cpu().reshape(-1) for one in trainer.model.parameters()])


def _trained(trainer: Trainer) -> Tensor:
    _train(trainer)
    weights = _weights(trainer)
    trainer.close()
    return weights


def _alone(**options: Any) -> Tensor:
    """What one process makes of it in CPU memory."""
    return _trained(_trainer(SingleCommunicator(), torch.device("cpu"), "single", **options))


def _compared(found: Tensor, expected: Tensor) -> str:
    difference = float((found - expected).abs().max())
    if not difference <= _TOLERANCE:
        raise AssertionError(f"weights are {difference:.1e} from those of one process on the CPU")
    return f"weights within {difference:.0e} of one process on the CPU"


def _pinning(ranks: Ranks) -> str:
    if not ranks.has_gpus:
        raise NotTried("torch does not see a GPU on every rank")
    gpus = ranks.plain.allgather_objects(gpu_of(ranks.device))
    if (shared := sharing(gpus)) is not None:
        raise NotTried(f"{shared}, so tensors go through host memory: start a rank a GPU")
    return f"{len(gpus)} ranks have a GPU each: {', '.join(gpus)}"


def _verb(name: str, ranks: Ranks) -> str:
    with ranks.device:
        right = TRIALS[name](ranks.on_device)
    if not right:
        raise AssertionError("numbers came out wrong")
    return "right, with few numbers and with many"


def _strategy(name: str, ranks: Ranks) -> str:
    try:
        check_ranks(name, ranks.plain.size)
    except UsageError as error:
        raise NotTried(str(error)) from error
    strategy = make(name, _EXACTLY.get(name))
    return _compared(_trained(ranks.trainer(strategy)), _alone())


def _overlap(ranks: Ranks) -> str:
    if ranks.plain.size == 1:
        raise NotTried("one rank exchanges nothing")
    return _compared(_trained(ranks.trainer(make("allreduce", {"overlap": True}))), _alone())


def _shards(name: str, ranks: Ranks) -> str:
    alone = _trainer(SingleCommunicator(), ranks.device, "single", shards=_SHARDS)
    if not torch.equal(_trained(ranks.trainer(name, shards=_SHARDS)), _trained(alone)):
        raise AssertionError("the bits are others than those of one rank")
    return "the same bits as on one rank"


def _resume(ranks: Ranks) -> str:
    """From the device to one process in CPU memory, and back."""
    if not on_one_host(ranks.plain):
        raise NotTried("ranks on several hosts share no temporary folder")
    there = ranks.trainer("central" if ranks.plain.size > 1 else "single")
    _train(there)
    with tempfile.TemporaryDirectory() as own:
        folder = ranks.plain.broadcast_object(own)
        there.save(folder)
        here = _trainer(SingleCommunicator(), torch.device("cpu"), "single")
        here.load(folder)
        _train(here)
        _train(there)
        _compared(_weights(there), _weights(here))
        state = here.state()
        there.load(state)
        ranks.plain.barrier()
    _train(here)
    _train(there)
    said = _compared(_weights(there), _weights(here))
    there.close()
    return f"from the device to the CPU and back, {said}"


def _half_precision(dtype: torch.dtype, ranks: Ranks) -> str:
    trainer = ranks.trainer("allreduce", autocast=dtype)
    epochs = trainer.fit(_samples(), epochs=8, batch_size=14)
    trainer.close()
    first, last = epochs[0].train.loss, epochs[-1].train.loss
    said = f"{str(dtype).partition('.')[2]}: the loss went from {first:.3f} to {last:.3f}"
    if not last < first:
        raise AssertionError(said)
    return said


def _memory(ranks: Ranks) -> str:
    if not ranks.has_gpus:
        raise NotTried("there is no GPU")
    most = max(ranks.plain.allgather_objects(torch.cuda.max_memory_allocated(ranks.device)))
    return f"{most / 2**20:.0f} MiB at most on a GPU"


def trials() -> Iterator[tuple[str, Callable[[Ranks], str]]]:
    """All of them by name. Collective: each says what it saw, or raises."""
    yield "pinning", _pinning
    for verb in TRIALS:
        yield verb, partial(_verb, verb)
    for name in STRATEGIES:
        yield f"strategy {name}", partial(_strategy, name)
    yield "overlap", _overlap
    for name in ("allreduce", "central"):
        yield f"shards, {name}", partial(_shards, name)
    yield "checkpoint and resume", _resume
    yield "half precision", partial(_half_precision, torch.bfloat16)
    yield "scaled losses", partial(_half_precision, torch.float16)
    yield "memory", _memory


def try_out(ranks: Ranks, trial: Callable[[Ranks], str]) -> dict[str, str]:
    """Collective. What came of a trial, on all ranks together."""
    try:
        mine = {"verdict": "fine", "said": trial(ranks)}
    except NotTried as reason:
        mine = {"verdict": "not tried", "said": str(reason)}
    except Exception as error:
        mine = {"verdict": "broken", "said": f"{type(error).__name__}: {error}"}
    everyone = ranks.plain.allgather_objects(mine)
    wrong = [rank for rank, one in enumerate(everyone) if one["verdict"] == "broken"]
    if not wrong:
        return everyone[0]
    return {"verdict": "broken", "said": f"rank {wrong[0]}: {everyone[wrong[0]]['said']}"}


def main() -> None:
    """Try out the devices of this job's ranks."""
    die_with_parent()
    torch.backends.cudnn.allow_tf32 = False  # parity is for whole float32
    ranks = Ranks.open()
    name = torch.cuda.get_device_name(ranks.device) if ranks.has_gpus else "CPU memory"
    _tell(ranks.plain, size=ranks.plain.size, device=name, way=_way(ranks))
    results: dict[str, dict[str, str]] = {}
    for title, trial in trials():
        _tell(ranks.plain, trying=title)
        results[title] = try_out(ranks, trial)
        _tell(ranks.plain, trials=results)
    ranks.plain.barrier()
    _tell(ranks.plain, done=True)


def _way(ranks: Ranks) -> str:
    if ranks.plain.size == 1:
        return "on one rank"
    if not ranks.on_device.progresses:
        return "through host memory"
    return "by NCCL" if ranks.has_gpus else "by gloo, in NCCL's place"


def _tell(comm: Communicator, **facts: Any) -> None:
    if comm.rank == 0:
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
