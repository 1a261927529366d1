"""A rank's part of a data set, for a DataLoader of one's own."""

from collections.abc import Iterator, Sized
from typing import Literal, final

from torch.utils.data import Sampler

from phalanx.comm.script import world
from phalanx.data.batches import order
from phalanx.errors import UsageError

Uneven = Literal["pad", "drop", "keep"]


@final
class DistributedSampler(Sampler[int]):
    """The indices of a rank's samples, in an order that the seed and the epoch fix.

    Ranks take turns, and so their batches together are the batches of one rank with all of them. If
    the samples are not a multiple of the ranks, `uneven` says what becomes of the rest:

    - `pad`: the first samples come once more, so that all ranks have as many. The default.
    - `drop`: the rest is left out, another one in each epoch.
    - `keep`: every sample once, for evaluation; some ranks have one more. A collective operation in
      every batch would then wait for ranks that have no batch left.

    Call `set_epoch` before each epoch, or every epoch has the same order. `rank` and `size` are by
    default those of this process in its job.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        rank: int | None = None,
        size: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        uneven: Uneven = "pad",
    ) -> None:
        if (rank is None) != (size is None):
            raise UsageError("give rank and size both, or neither to take those of the job")
        self.rank = world().rank if rank is None else rank
        self.size = world().size if size is None else size
        if not 0 <= self.rank < self.size:
            raise UsageError(f"there is no rank {self.rank} among {self.size} ranks")
        if uneven not in ("pad", "drop", "keep"):
            raise UsageError(f"uneven is 'pad', 'drop' or 'keep', not {uneven!r}")
        if uneven == "pad" and len(dataset) == 0:
            raise UsageError("a data set without samples cannot be padded; use uneven='keep'")
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.uneven = uneven
        self.epoch = 0
        order(0, seed=seed, epoch=0)  # refuses a seed that makes no order

    def set_epoch(self, epoch: int) -> None:
        """Have the next iteration follow the order of this epoch, the same one on all ranks."""
        order(0, seed=self.seed, epoch=epoch)
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        indices: list[int] = list(range(count))
        if self.shuffle:
            indices = order(count, seed=self.seed, epoch=self.epoch).tolist()
        places = range(self.rank, self._places(count), self.size)
        return iter([indices[place % count] for place in places])

    def __len__(self) -> int:
        return len(range(self.rank, self._places(len(self.dataset)), self.size))

    def _places(self, count: int) -> int:
        """How many indices all ranks have together."""
        if self.uneven == "keep":
            return count
        full = count // self.size * self.size
        return full if self.uneven == "drop" or full == count else full + self.size
