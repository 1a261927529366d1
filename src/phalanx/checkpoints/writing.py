"""Writing checkpoints while a training goes on: it waits for a copy in memory, not for the disk."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

from torch import Tensor

from phalanx.checkpoints import plain
from phalanx.checkpoints.document import Document, parts_to_store
from phalanx.checkpoints.folders import Claim, Partial, sync_folder
from phalanx.checkpoints.job import Job, warn, write_part, write_whole
from phalanx.checkpoints.tensor_files import check_tensor
from phalanx.comm.base import Communicator
from phalanx.errors import CheckpointError, UsageError
from phalanx.state import Slice, State, gather
from phalanx.state.gathering import Outline, merged, outline
from phalanx.state.parts import Part


class _Told(NamedTuple):
    """What a rank tells the others before all begin to write."""

    parts: dict[str, Outline]
    values: dict[str, Any]
    #: Why its state cannot be written, if so.
    refusal: str | None
    #: Of rank 0: the name of the folder to write to; None if it cannot be made.
    folder: str | None


@final
class CheckpointWriter(AbstractContextManager["CheckpointWriter"]):
    """Writes a training's checkpoints into a folder, one at a time, in a thread on each rank.

    Every rank makes one, with the same arguments. Each writes its own part of a state that is in
    parts, if all ranks see the folder; else rank 0 is given the whole and writes it. Whatever goes
    wrong with a disk is a warning, and the last checkpoint stays. Close it, or use it in a `with`
    block, after a `finish`.
    """

    def __init__(
        self, folder: Path, comm: Communicator, *, keep: int | None, in_parts: bool = False
    ) -> None:
        """Collective. Makes the folder if it is not there; the newest `keep` stay in it, which is
        this training's alone until `close`, and with None all of them. If the model is in parts,
        no rank is ever given the whole."""
        if keep is not None and keep < 1:
            raise UsageError(f"keep: {keep} checkpoints; 1 or more can be kept")
        self._folder, self._comm, self._keep = folder.absolute(), comm, keep
        self._job: Job | None = None
        self._failure: str | None = None
        self._claim: Claim | None = None
        self._is_shared = _check_folder(folder, comm)
        if keep is not None:
            self._claim = _claimed(folder, comm)
        if in_parts and not self._is_shared:
            raise CheckpointError(
                f"{folder}: not all ranks see this folder, or may write there, and of a model in "
                "parts each rank writes its own: name one on a file system that they share"
            )

    def ready(self) -> bool:
        """Collective. Whether `write` would begin at once, so that a copy is worth its while."""
        return all(self._comm.allgather_objects(self._job is None or self._job.is_over))

    def write(self, state: State, step: int) -> None:
        """Collective. Begin to write this rank's parts of a state, which nobody changes any more.

        If the one before is still being written it waits for that: there are never two copies. To
        leave one out instead, ask `ready` before a copy is made.
        """
        self.finish()
        self._failure = None
        if not self._is_shared:
            whole = gather(self._comm, state)
            state = State(whole.tensors, whole.values) if self._comm.rank == 0 else State()
        begun = self._begin(step) if self._comm.rank == 0 else None
        try:
            everyone = self._comm.allgather_objects(_tell(state, begun))
            planned = _plan(everyone, step=step, ranks=self._comm.size if self._is_shared else 1)
        except Exception:  # it cannot be written, or a rank is lost
            if begun is not None:
                begun.drop()
            raise
        folder = everyone[0].folder
        if folder is not None:
            self._job = Job(self._work(begun, self._folder / folder, state, planned))

    def _begin(self, step: int) -> Partial | None:
        try:
            return Partial(self._folder, step)
        except OSError as error:
            self._failure = warn(step, error)
            return None

    def _work(
        self, begun: Partial | None, folder: Path, state: State, planned: Document
    ) -> Callable[[Job], None]:
        """What this rank's thread does."""
        rank = self._comm.rank
        tensors = {
            name: _elements(state.tensors[name])
            for name, parts in planned.tensors.items()
            if any(one.rank == rank for one in parts)
        }
        in_rows = {name for name in tensors if isinstance(state.tensors[name], Slice)}
        if begun is None:
            return lambda _job: write_part(folder, rank, tensors, in_rows=in_rows)
        how: dict[str, Any] = {"planned": planned, "in_rows": in_rows, "keep": self._keep}
        return partial(write_whole, partial=begun, tensors=tensors, **how)

    def finish(self) -> str | None:
        """Collective. Wait until all is on the disk; if it is not, why, the same on every rank."""
        if self._comm.rank != 0:
            self._wait()
        failures = self._comm.allgather_objects(self._failure)
        if self._comm.rank == 0:
            for rank, why in enumerate(failures):
                if rank > 0 and why is not None and self._job is not None:
                    self._job.give_up(f"rank {rank}: {why}")  # it may not have left a note
            self._wait()
        return self._comm.broadcast_object(self._failure)

    def _wait(self) -> None:
        if self._job is not None:
            self._job.wait()
            self._failure, self._job = self._job.failure, None

    def close(self) -> None:
        """Wait for this rank's thread, and no longer for others: what is not finished is lost."""
        if self._job is not None:
            self._job.give_up("the training has ended")
            self._wait()
        if self._claim is not None:
            self._claim.free()
            self._claim = None

    def __exit__(self, *_error: object) -> None:
        self.close()


def _check_folder(folder: Path, comm: Communicator) -> bool:
    """Collective. Make the folder on rank 0; whether all ranks see it and may write there."""
    token = comm.broadcast_object(secrets.token_hex(8))
    seen = folder / f".seen-{token}"
    refusal = None
    if comm.rank == 0:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(PermissionError):  # to look into; it is there in any case
                sync_folder(folder.absolute().parent)
            seen.touch(exist_ok=False)
        except OSError as error:
            refusal = f"{folder}: no checkpoints can be written there ({error.strerror})"
    refusal = comm.broadcast_object(refusal)
    if refusal is not None:
        raise CheckpointError(refusal)
    is_shared = all(comm.allgather_objects(seen.exists() and _may_write(folder, token, comm.rank)))
    if comm.rank == 0:
        seen.unlink(missing_ok=True)
    return is_shared


def _claimed(folder: Path, comm: Communicator) -> Claim | None:
    """Collective. Rank 0's claim to the folder; raises on all ranks if it is another training's."""
    claim, refusal = None, None
    if comm.rank == 0:
        try:
            claim = Claim(folder)
        except CheckpointError as error:
            refusal = str(error)
    refusal = comm.broadcast_object(refusal)
    if refusal is not None:
        raise CheckpointError(refusal)
    return claim


def _may_write(folder: Path, token: str, rank: int) -> bool:
    probe = folder / f".seen-{token}-{rank}"
    with suppress(OSError):
        probe.touch(exist_ok=False)
        probe.unlink()
        return True
    return False


def _tell(state: State, begun: Partial | None) -> _Told:
    refusal, values = None, {}
    try:
        for name, part in state.tensors.items():
            check_tensor(name, part if isinstance(part, Tensor) else part.values)
        values = plain.decode(plain.encode(state.values))  # a copy, as it will be read
    except UsageError as error:
        refusal = str(error)
    parts = {name: outline(part) for name, part in state.tensors.items()}
    return _Told(parts, values, refusal, None if begun is None else begun.path.name)


def _plan(everyone: Sequence[_Told], *, step: int, ranks: int) -> Document:
    """What is written by whom; a UsageError, on all ranks alike, if it cannot be."""
    for one in everyone:
        if one.refusal is not None:
            raise UsageError(one.refusal)
    try:
        stored = parts_to_store([one.parts for one in everyone])
    except ValueError as error:
        raise UsageError(f"the state of all ranks is not whole: {error}") from error
    return Document(step, ranks, merged([one.values for one in everyone]), stored, {})


def _elements(part: Part) -> Tensor:
    tensor = part if isinstance(part, Tensor) else part.values
    return tensor.detach().cpu()
