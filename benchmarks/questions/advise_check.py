"""Is `phalanx advise` right? It predicts the time of an epoch, which is then measured.

`python -m benchmarks.questions.advise_check --write` takes about 20 minutes of an idle machine, and
puts the tables into docs/advise.md. Places are `here` (2 ranks of this host), `1gbit`
and `100mbit` (1 + 1 ranks of two hosts, as `tests/hosts` makes them), and `sizes` (mlps of
several widths, 2 ranks here). What is found is kept, line by line, and not measured again.
"""

import argparse
import csv
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from benchmarks.launchers import ROOT
from benchmarks.questions.advise_table import HERE, SIZES, tables, write_tables
from phalanx.observe.advise.fitting import fit
from phalanx.observe.advise.link import parse_link
from phalanx.observe.advise.measurements import Measurements, lower_quartile
from phalanx.observe.advise.thresholds import crossing
from tests.hosts.network import Network, network

_IMAGES = "--dataset synthetic --shape 3x32x32 --batch-size 64"
#: The flags of a training, and how many epochs of it are measured.
WORKLOADS = {
    "iris MLP": ("--dataset iris --model mlp", 100),
    "simplecnn": ("--dataset digits --model simplecnn --batch-size 64", 20),
    "ResNet-20": (f"{_IMAGES} --model resnet20 --samples 512", 4),
    "VGG-11": (f"{_IMAGES} --model vgg11 --samples 192", 3),
    "mlp": ("--dataset digits --model mlp --hidden 128,128 --batch-size 64", 12),
}
PLACES = (HERE, "1gbit", "100mbit", SIZES)
_FAMILY = "mlp"
#: What a message between two of these hosts takes whatever its size: the kernel's TCP, twice.
_LATENCY = "50us"
#: Of which the one counts that was disturbed least.
_TRAININGS = 3
Run = Callable[..., None]


def here(ranks: int) -> Run:
    """Runs `phalanx COMMAND` on ranks of this host."""

    def run(command: str, *words: str) -> None:
        _done(
            subprocess.run(
                [sys.executable, "-m", "phalanx", command, *words, f"--ranks={ranks}"],
                capture_output=True,
                text=True,
                check=False,
            )
        )

    return run


def between(hosts: Network) -> Run:
    """Runs it on a rank of each of two hosts."""

    def run(command: str, *words: str) -> None:
        _done(hosts.run((1, 1), "-m", "phalanx", command, *words, seconds=600))

    return run


def _done(done: "subprocess.CompletedProcess[str]") -> None:
    if done.returncode:
        raise SystemExit(f"{shlex.join(map(str, done.args))}\n{done.stdout}{done.stderr}")


def predicted(run: Run, flags: list[str], folder: Path) -> dict[str, Any]:
    """What `phalanx advise` says."""
    file = folder / "advice.json"
    run("advise", *flags, "--threads=1", f"--json={file}")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def measured(
    run: Run, flags: list[str], folder: Path, *, epochs: int, trainings: int = _TRAININGS
) -> list[float]:
    """Of each training, the seconds that a quarter of its epochs took less than."""
    found = []
    for _ in range(trainings):
        output = Path(mkdtemp(dir=folder))
        how = (f"--epochs={epochs + 1}", f"--output={output}", "--checkpoint-every=never")
        run("train", *flags, "--threads=1", *how)
        with (output / "history.csv").open(newline="") as file:
            times = [float(row["seconds"]) for row in csv.DictReader(file)]
        found.append(lower_quartile(times[1:]))  # the first gets everybody warm
    return found


def check(name: str, place: str, hosts: Network | None, folder: Path) -> dict[str, Any]:
    """Predict an epoch of 2 ranks, and measure it; here, also predict it for other places."""
    words, epochs = WORKLOADS[name]
    flags = words.split()
    run = here(2) if hosts is None else between(hosts)
    advice = predicted(run, flags, folder)
    times = measured(run, flags, folder, epochs=epochs)
    row = next(row for row in advice["rows"] if row["ranks"] == 2)
    found = {
        "workload": name,
        "place": place,
        "use": advice["use"],
        "predicted": row["seconds"],
        "least": row["least"],
        "most": row["most"],
        "measured": min(times),
        "trainings": times,
        "link": advice["link"] if hosts else None,
    }
    if hosts is None:
        costs = Measurements.from_json(advice["measurements"])
        for link in ("1gbit", "100mbit"):
            there = fit(costs, parse_link(f"{link},{_LATENCY}"), ranks_a_host=1)
            found[f"predicted for {link}"] = there.epoch(2)
        found["predicted for one"] = advice["rows"][0]["seconds"]
        alone = measured(here(1), flags, folder, epochs=epochs)
        found["measured on one"] = min(alone)
    return found


def check_sizes(folder: Path) -> dict[str, Any]:
    """The network from which two ranks pay off, as predicted and as measured."""
    words, epochs = WORKLOADS[_FAMILY]
    advice = predicted(here(2), words.split(), folder)
    points = []
    for size in advice["measurements"]["sizes"]:
        flags = [*words.split(), f"--hidden={size['name']}"]
        one, two = (min(measured(here(ranks), flags, folder, epochs=epochs)) for ranks in (1, 2))
        points.append((size["parameters"], one / (2 * two)))
    curve = [tuple(point) for point in advice["efficiency_by_size"]]
    levels = {
        str(level): (crossing(curve, level), crossing(points, level)) for level in (0.5, 0.65, 0.8)
    }
    return {
        "workload": _FAMILY,
        "place": SIZES,
        "predicted": curve,
        "measured": points,
        "crossings": levels,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=[*WORKLOADS], help=", ".join(WORKLOADS))
    parser.add_argument("--places", default=",".join(PLACES), help="of them, all by default")
    parser.add_argument("--kept", type=Path, default=Path("advise_check.jsonl"))
    parser.add_argument("--write", action="store_true", help="the tables into docs/advise.md")
    asked = parser.parse_args()
    kept = read(asked.kept)
    wanted = [(name, place) for name in asked.workloads for place in asked.places.split(",")]
    with TemporaryDirectory(prefix="advise-") as folder:
        for name, place in wanted:
            if (name, place) in kept or (place == SIZES) != (name == _FAMILY):
                continue
            print(f"{name}, {place} …", file=sys.stderr, flush=True)
            kept[name, place] = check_at(place, name, Path(folder))
            with asked.kept.open("a") as file:
                file.write(json.dumps(kept[name, place]) + "\n")
    print("\n".join(tables(kept)))
    if asked.write:
        write_tables(ROOT / "docs" / "advise.md", kept)


def read(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What earlier runs have kept."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {(one["workload"], one["place"]): one for one in map(json.loads, lines)}


def check_at(place: str, name: str, folder: Path) -> dict[str, Any]:
    """Whatever is asked for at a place, with the day it was found on."""
    day = {"date": date.today().isoformat()}
    if place == SIZES:
        return day | check_sizes(folder)
    if place == HERE:
        return day | check(name, place, None, folder)
    with network(2) as hosts:
        hosts.shape([f"root handle 1: tbf rate {place} burst 128kb latency 100ms"])
        return day | check(name, place, hosts, folder)


if __name__ == "__main__":
    main()
