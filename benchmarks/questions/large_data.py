"""Training on data larger than memory: the most that each rank ever had resident.

`python -m benchmarks.questions.large_data` makes a data set of images as large as asked for, in
files that are holes in the disk and so take no place there, trains on it for a few steps on two
ranks through the command line, and prints each rank's peak.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from argparse import ArgumentParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SHAPE = (3, 32, 32)
_LIMIT = 1 << 30


def make_folder(folder: Path, size: int) -> int:
    """Write training images of so many bytes and a few test images; how many there are."""
    count = size // int(np.prod(SHAPE))
    for part, images in (("train", count), ("test", 256)):
        header: dict[str, Any] = {
            "descr": "|u1",
            "fortran_order": False,
            "shape": (images, *SHAPE),
        }
        with (folder / f"x_{part}.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + images * int(np.prod(SHAPE)))
        np.save(folder / f"y_{part}.npy", (np.arange(images) % 10).astype(np.uint8))
    return count


def peaks_of_ranks(process: "subprocess.Popen[bytes]", mark: bytes) -> dict[int, int]:
    """The most that each rank had resident, in bytes, watched until the process ends.

    Ranks are known by a mark in their environment.
    """
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (found := _rank_and_peak(entry, mark)):
                peaks[found[0]] = max(peaks.get(found[0], 0), found[1])
        time.sleep(0.05)
    return peaks


def _rank_and_peak(entry: Path, mark: bytes) -> tuple[int, int] | None:
    try:
        variables = (entry / "environ").read_bytes().split(b"\0")
        status = (entry / "status").read_text()
    except OSError:  # gone meanwhile, or somebody else's
        return None
    ranks = [one for one in variables if one.startswith(b"OMPI_COMM_WORLD_RANK=")]
    peaks = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    if mark not in variables or not ranks or not peaks:
        return None
    return int(ranks[0].partition(b"=")[2]), int(peaks[0][1]) << 10


def train(folder: Path, *, ranks: int, steps: int, batch_size: int) -> dict[int, int]:
    """Train through the command line; each rank's peak."""
    command = [
        *(sys.executable, "-m", "phalanx", "train", "--dataset", "npz", "--data-dir", folder),
        *("--ranks", ranks, "--epochs", 1, "--steps-per-epoch", steps, "--model", "simplecnn"),
        *("--batch-size", batch_size, "--flip", "--crop", 2, "--output", folder / "run"),
    ]
    mark = f"LARGE_DATA={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, env=os.environ | {name: value}
    )
    peaks = peaks_of_ranks(process, mark.encode())
    if process.returncode:
        raise SystemExit(process.returncode)
    return peaks


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=256)
    arguments = parser.parse_args()
    with TemporaryDirectory() as name:
        count = make_folder(Path(name), int(arguments.gigabytes * 1e9))
        peaks = train(
            Path(name),
            ranks=arguments.ranks,
            steps=arguments.steps,
            batch_size=arguments.batch_size,
        )
    print(json.dumps({"samples": count, "peak_bytes": peaks, "limit": _LIMIT}))
    if len(peaks) != arguments.ranks or max(peaks.values()) >= _LIMIT:
        raise SystemExit("a rank had more memory resident than the limit")


if __name__ == "__main__":
    main()
