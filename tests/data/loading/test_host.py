"""What the first rank of a host loads, all ranks of it have: the same memory, and errors alike."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from phalanx.comm import shared
from phalanx.comm.base import Communicator
from phalanx.data.formats import images
from phalanx.data.loading.host import loaded_once, once_a_host
from phalanx.data.split import Dataset, Split
from phalanx.data.transforms import Flip
from phalanx.errors import DataError


def dataset(first: float = 0.0) -> Dataset:
    inputs = torch.arange(first, first + 60_000).view(-1, 3, 2, 2)
    split = Split(inputs, torch.arange(5000) % 7, 0.5, transforms=[Flip()])
    return Dataset("rows", split, split, tuple("abcdefg"), notes=("one",))


@pytest.mark.ranks(1, 2, 3)
def test_all_have_what_the_first_has_loaded(comm: Communicator) -> None:
    loaded = once_a_host(comm, lambda: dataset(float(comm.rank)))
    mine = dataset()
    assert torch.equal(loaded.train.inputs, mine.train.inputs)
    assert torch.equal(loaded.train.targets, mine.train.targets)
    assert loaded.train is loaded.test
    assert (loaded.train.scale, loaded.notes) == (0.5, ("one",))
    some = torch.tensor([4, 2])
    assert torch.equal(loaded.train.take(some).inputs, mine.train.take(some).inputs)


@pytest.mark.ranks(2)
def test_it_is_in_memory_once(comm: Communicator) -> None:
    loaded = once_a_host(comm, dataset)
    address = loaded.train.inputs.data_ptr()
    regions = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    (inode,) = [
        words[4]
        for words in regions
        if int(words[0].partition("-")[0], 16) <= address < int(words[0].partition("-")[2], 16)
    ]
    assert len({*comm.allgather_objects(inode)} - {"0"}) == 1
    assert address % 64 == 0
    comm.barrier()
    loaded.train.inputs.fill_(comm.rank)  # which others do not see
    comm.barrier()
    assert (loaded.train.inputs == comm.rank).all()


@pytest.mark.ranks(2)
def test_an_error_of_the_first_is_everybodys(comm: Communicator) -> None:
    def load() -> Dataset:
        assert comm.rank == 0, "only the first rank of a host loads"
        raise DataError("train.csv: line 7: no number")

    with pytest.raises(DataError, match=r"train\.csv: line 7"):
        once_a_host(comm, load)


@pytest.mark.ranks(2)
def test_where_no_memory_is_shared_everybody_loads(
    comm: Communicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(size: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(shared, "_unnamed", refuse)
    loaded = once_a_host(comm, lambda: torch.full((5000,), comm.rank))
    assert set(loaded.tolist()) == {comm.rank}
    apart = once_a_host(comm, lambda: torch.full((5000,), comm.rank), shares=lambda _: False)
    assert set(apart.tolist()) == {comm.rank}


@pytest.mark.ranks(2)
def test_images_are_listed_and_decoded_once(comm: Communicator, tmp_path: Path) -> None:
    folder = Path(comm.broadcast_object(str(tmp_path)))
    if comm.rank == 0:
        drawn = np.random.default_rng(0)
        for name in ("cat", "dog"):
            (folder / name).mkdir()
            for number in range(4):
                pixels = drawn.integers(0, 256, (8, 8, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / name / f"{number}.png")
    comm.barrier()
    options = {"resize": "8x8", "test_split": 0.0}
    loaded = loaded_once(comm, "images", folder, options=options)
    kept = images.load(folder, resize="8x8", test_split=0.0).train.fetch(torch.arange(8))
    comm.barrier()
    if comm.rank == 0:
        loaded.train.fetch(torch.arange(8))
        for file in folder.rglob("*.png"):
            file.write_bytes(b"no image any more")
    comm.barrier()
    assert torch.equal(loaded.train.fetch(torch.arange(8)), kept)  # which nobody decodes again
