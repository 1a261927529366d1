"""What a user trains on, as the loop takes it: a `Split`, a data set of torch's, or tensors."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from phalanx.data.loading.pool import Workers
from phalanx.data.own.collected import Collate, Collected, InMemory, Taken
from phalanx.data.own.nest import with_tensors
from phalanx.data.own.paired import Paired
from phalanx.data.own.stream import Stream
from phalanx.data.split import Dataset, Split
from phalanx.errors import UsageError
from phalanx.wording import a

Source = Split | Paired | Taken | Stream


def samples_of(data: Any, *, use: str, whole: bool, collate: Collate | None = None) -> Source:
    """Samples to `use`, or a sentence about what else to give.

    `whole` says that an objective takes batches as they are; else they are inputs and targets.
    """
    if isinstance(data, DataLoader):
        raise UsageError(_loader(data, use))
    if isinstance(data, Dataset):
        raise UsageError(f"give a part of the data set to {use}: its .train or its .test")
    found = _found(data, whole=whole, collate=collate)
    if found is None:
        raise UsageError(
            f"there are samples to {use}, a torch.utils.data.Dataset, arrays, or a "
            f"phalanx.Split(inputs, targets), not {a(data)}"
        )
    if collate is not None and not isinstance(found, Collected | Stream):
        raise UsageError("collate= puts the samples of a data set together: leave it out here")
    if not isinstance(found, Stream) and len(found) == 0:
        raise UsageError(f"there is not one sample to {use}")
    return found


@contextmanager
def read_beside(
    train: Source, validation: Source | None = None, *, workers: int
) -> Iterator[tuple[Source, Source | None]]:
    """While inside, so many processes read the samples of data sets; none is there afterwards."""
    check_workers(train, workers)
    if workers == 0:
        yield train, validation
        return
    with Workers(workers) as pool:
        yield _beside(train, pool), None if validation is None else _beside(validation, pool)


def check_workers(samples: Source, workers: int) -> None:
    """Refuse workers that would have nothing to do."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise UsageError(f"workers= is how many processes read samples, 0 or more, not {workers!r}")
    if workers == 0 or isinstance(samples, Collected):
        return
    why = "are in memory already, or read by a thread"
    if isinstance(samples, Stream):
        why = "come one after the other, and only who goes through them all knows the next"
    raise UsageError(
        f"workers={workers} read the samples of a torch.utils.data.Dataset, which are picked by "
        f"their indices, and these {why}: leave workers= out"
    )


def _beside(samples: Source, pool: Workers) -> Source:
    return samples.beside(pool) if isinstance(samples, Collected) else samples


def _found(data: Any, *, whole: bool, collate: Collate | None) -> Source | None:
    if isinstance(data, Split | InMemory | Collected | Stream):
        return Paired(data) if whole and isinstance(data, Split) else data
    if isinstance(data, IterableDataset):
        return Stream(data, collate=collate, whole=whole)
    if isinstance(data, TensorDataset) and collate is None:
        data = data.tensors
    if isinstance(data, Tensor | np.ndarray | tuple | Mapping):
        nest = with_tensors(data)
        is_pair = isinstance(nest, tuple) and all(isinstance(one, Tensor) for one in nest)
        if not whole and is_pair and len(nest) == 2:
            return Split(*nest)
        return InMemory(nest, whole=whole)
    if isinstance(data, TorchDataset) or _is_indexed(data):
        return Collected(data, collate=collate, whole=whole)
    return None


def _is_indexed(data: Any) -> bool:
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, str)


def _loader(loader: "DataLoader[Any]", use: str) -> str:
    size = "" if loader.batch_size is None else f", batch_size={loader.batch_size}"
    workers = f", workers={loader.num_workers}" if loader.num_workers else ""
    own = type(loader.collate_fn).__name__ == "function"
    known = getattr(loader.collate_fn, "__name__", "") in ("default_collate", "default_convert")
    collate = ", collate=…" if own and not known else ""
    return (
        f"a DataLoader has an order and batches of its own, and here they are the Trainer's, the "
        f"same on any number of ranks: give the data set that it loads to {use}, "
        f"(loader.dataset{size}{collate}{workers})"
    )
