"""The demo behind `make demo`, on one screen: two ranks beside one process
and beside torch's DDP; the same bits on 1, 2 and 3 ranks; and again after a `kill -9`.

All by the commands that it prints. Timed ones are interleaved and repeated, and medians are shown:
other programs on the machine then disturb all rows alike. One process is timed with two threads,
too, because torch uses all cores by itself and two ranks have to beat that as well.
"""

import argparse
import csv
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from phalanx.runs.folder import read_result

NETWORK = "--model resnet20 --batch-size 128 --epochs 4"
BITS = "--model simplecnn --shards 6"
ONE, THREADS, RANKS = "--threads 1", "--threads 2", "--ranks 2"
DDP = "torchrun --standalone --nproc-per-node 2 examples/ddp.py"
KILLED = "--ranks 3 --on-failure shrink"
#: The rank that is killed.
VICTIM = 2
ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="less of everything, to test it")
    quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="phalanx-demo-") as name:
        folder = Path(name)
        repeats, less = (1, "--epochs 1") if quick else (3, "")
        fewer = "--epochs 20" if quick else ""
        rates = measure((RANKS, DDP) if quick else (ONE, THREADS, RANKS, DDP), repeats, less)
        ways = ("", KILLED) if quick else ("", "--ranks 2", "--ranks 3", KILLED)
        digests = {way: trained(folder / str(n), way, less=fewer) for n, way in enumerate(ways)}
        lost = read_result(folder / str(len(ways) - 1))["losses"]
    _tell("")
    show_rates(rates, repeats)
    show_digests(digests, lost=len(lost))
    if len(set(digests.values())) != 1 or len(lost) != 1:
        sys.exit("the weights should be the same, and one rank lost")


def measure(ways: tuple[str, ...], repeats: int, less: str) -> dict[str, float]:
    """The samples a second of each way to train the network, with flags for `less` of it."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    for repeat in range(repeats):
        for way in ways:
            command = way if way == DDP else f"phalanx train {NETWORK} {way}"
            _tell(f"round {repeat + 1} of {repeats}: {command}")
            found[way].append(ddp_rate(less) if way == DDP else our_rate(f"{way} {less}"))
    return {way: statistics.median(rates) for way, rates in found.items()}


def our_rate(way: str) -> float:
    """The samples a second of the best epoch, warm-up not counted, as for DDP."""
    with tempfile.TemporaryDirectory(prefix="phalanx-demo-") as name:
        run = Path(name) / "run"
        flags = ["--checkpoint-every", "never", "--output", str(run)]
        _run([*_phalanx(NETWORK, way), *flags])
        with (run / "history.csv").open(newline="") as file:
            return max(float(row["samples_per_second"]) for row in csv.DictReader(file))


def ddp_rate(less: str) -> float:
    words = shlex.split(f"{DDP} {less}")[1:]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # torchrun's own choice, without its note
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    return float(_run(command, cwd=ROOT, env=environment).split()[0])


def trained(output: Path, way: str, *, less: str) -> str:
    """The digest of the weights that a training ends with; a rank of the last one is killed."""
    _tell(f"phalanx train {BITS} {way}".rstrip())
    command = [*_phalanx(BITS, way, less), "--output", str(output)]
    if way == KILLED:
        _run_and_kill(command, output.parent)
    else:
        _run(command)
    return str(read_result(output)["weights_sha256"])


def _run_and_kill(command: list[str], folder: Path) -> None:
    """Train in a folder, and kill one of the ranks after the first epochs."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("epoch 2/"):
                os.kill(_rank_in(folder), signal.SIGKILL)
                break
        _, errors = process.communicate()
    if process.returncode:
        sys.exit(errors)


def _rank_in(folder: Path) -> int:
    """The process of the rank to kill, of the job that works in this folder."""
    wanted = f"OMPI_COMM_WORLD_RANK={VICTIM}".encode()
    for entry in Path("/proc").iterdir():
        try:
            here = entry.name.isdigit() and (entry / "cwd").resolve() == folder.resolve()
            if here and wanted in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
        except OSError:  # not ours, or gone by now
            continue
    sys.exit(f"there is no rank {VICTIM} to kill")


def _phalanx(*flags: str) -> list[str]:
    words = [word for text in flags for word in shlex.split(text)]
    return [sys.executable, "-m", "phalanx", "train", *words]


def _run(command: list[str], **how: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(done.stderr)
    return str(done.stdout)


def _tell(text: str) -> None:
    """What goes on at the moment, in one line that changes; nothing of it stays."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text[:79]}", end="", flush=True)


def show_rates(rates: dict[str, float], repeats: int) -> None:
    first = next(iter(rates.values()))
    title = f"One network on the same two cores, median of {repeats}"
    print(f"{title:58}{'samples/s':>9}{'speed-up':>11}")
    for way, rate in rates.items():
        command = way if way == DDP else f"phalanx train $NETWORK {way}"
        print(f"  {command:58}{rate:>7,.0f}{rate / first:>10.2f}×")
    print(f"  NETWORK='{NETWORK}'\n")


def show_digests(digests: dict[str, str], *, lost: int) -> None:
    print(f"{'The same bits on any number of ranks':54}weights sha256")
    for way, digest in digests.items():
        print(f"  {f'phalanx train $BITS {way}'.rstrip():52}{digest[:20]}…")
    print(f"  BITS='{BITS}'")
    print(f"  In the last one, rank {VICTIM} was ended by kill -9: {lost} rank lost, 2 went on.")


if __name__ == "__main__":
    main()
