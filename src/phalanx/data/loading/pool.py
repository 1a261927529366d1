"""The workers of one rank."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, final

from torch import Tensor

from phalanx.data.loading.jobs import Source
from phalanx.data.loading.memory import write_apart
from phalanx.data.loading.packing import pack
from phalanx.data.loading.process import WorkerProcess
from phalanx.data.transforms import Draw
from phalanx.errors import LoadingError, UsageError
from phalanx.wording import a

#: For how many batches each worker is asked before the first of them is needed.
_AHEAD = 2


class Reader(NamedTuple):
    """What workers read from one data set."""

    #: Batches to ask for before they are needed.
    ahead: int
    ask: Callable[[Tensor, Draw], "Future[Any]"]


@final
class Workers(AbstractContextManager["Workers"]):
    """So many processes that read samples. They start when the first are asked for."""

    def __init__(self, count: int) -> None:
        self._count, self._closed = count, False
        self._sources: list[tuple[Source, int]] = []
        self._processes: list[WorkerProcess] = []

    def reader(self, dataset: Any, collate: Any) -> Reader:
        """Have workers read from a data set: a UsageError if it cannot be sent to them."""
        try:
            packed = pack((dataset, collate))
        except Exception as error:
            raise UsageError(
                f"workers are sent the data set, {a(dataset)}, and its collate "
                f"function, and these cannot be pickled ({type(error).__name__}: {error}): open "
                "files and connections when the first sample is read, or train with workers=0"
            ) from error
        descriptor, spans = write_apart(packed)
        source = Source(len(self._sources), spans)
        self._sources.append((source, descriptor))
        for process in self._processes:
            process.give(source, descriptor)

        def ask(indices: Tensor, draw: Draw) -> "Future[Any]":
            process = min(self._started(), key=lambda one: one.waiting)
            return process.ask(source.number, indices, draw=draw)

        return Reader(_AHEAD * self._count, ask)

    def _started(self) -> list[WorkerProcess]:
        if self._closed:
            raise LoadingError("the workers that read samples were closed: nobody reads any more")
        while len(self._processes) < self._count:
            process = WorkerProcess()
            self._processes.append(process)
            for source, descriptor in self._sources:
                process.give(source, descriptor)
        return self._processes

    def close(self, *, at_once: bool = False) -> None:
        """End the processes; those that are busy are waited for, but not `at_once`."""
        for process in self._processes:
            process.begin_to_close(at_once=at_once)
        for process in self._processes:
            process.close()
        for _, descriptor in self._sources:
            os.close(descriptor)
        self._processes, self._sources, self._closed = [], [], True

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self.close(at_once=kind is not None)
