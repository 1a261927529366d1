"""Does a rebuild leave every weight as it was, to the last bit?

    .venv/bin/python tools/golden.py COMMIT

Puts COMMIT into a git worktree, trains a matrix of short trainings with its code and with the
present code, both here and now, and compares the `weights sha256` that each of them prints: every
deterministic strategy × mlp, simplecnn and a network with BatchNorm and dropout × SGD with momentum
and Adam × 1, 2 and 3 ranks, with and without --shards. Exits with 1 if any of them differs, or
fails with one code and not with the other.

Only the command line is used, which outlives any rebuild. All trainings of a number of ranks share
one MPI job, so that hundreds of them take minutes.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = ("single", "allreduce", "central", "server", "gather", "local", "pipeline", "tensor")
OPTIMIZERS = (["sgd", "--momentum=0.9"], ["adam", "--learning-rate=0.01"])
RANKS = (1, 2, 3)
SHARDS = 6
#: Where stages begin: a cut by measured times would differ from run to run.
_CUTS = {"mlp": {2: "3", 3: "2,4"}, "simplecnn": {2: "3", 3: "3,5"}, "norm": {2: "4", 3: "3,5"}}
_NORM = """
from torch import nn

def make_model(input_shape, classes):
    return nn.Sequential(
        nn.Conv2d(input_shape[0], 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.2),
        nn.Flatten(), nn.Linear(8 * (input_shape[1] - 2) * (input_shape[2] - 2), classes),
    )
"""
#: Run on every rank: the command line, as a user calls it, for one case after the other.
_WORKER = """
import contextlib, json, os, pathlib, sys
from phalanx.__main__ import main

cases, output = json.loads(open(sys.argv[1]).read()), sys.argv[2]
for number, (name, arguments) in enumerate(cases):
    run = pathlib.Path(f"{output}-{number}")
    sys.argv = ["phalanx", "train", *arguments, f"--output={run}"]
    with contextlib.suppress(SystemExit):
        main()
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0" and (run / "result.json").exists():
        digest = json.loads((run / "result.json").read_text())["weights_sha256"]
        with open(output, "a") as file:
            file.write(json.dumps([name, digest]) + "\\n")
"""


def cases(ranks: int, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The trainings on so many ranks, by name."""
    models = {
        "mlp": ["--model=mlp", "--hidden=40,20"],
        "simplecnn": ["--model=simplecnn"],
        "norm": [f"--model={folder / 'norm.py'}:make_model"],
    }
    for strategy, model, optimizer, shards in product(STRATEGIES, models, OPTIMIZERS, (0, SHARDS)):
        if not _fits(strategy, ranks, shards=shards):
            continue
        flags = [f"--strategy={strategy}", *models[model], f"--optimizer={optimizer[0]}"]
        flags += [*optimizer[1:], "--epochs=2", "--steps-per-epoch=4", "--seed=3", "--threads=1"]
        flags += ["--batch-size=64", "--no-normalise"]
        flags += [f"--shards={shards}"] if shards else []
        if strategy == "pipeline" and ranks > 1:
            flags.append(f"--cut={_CUTS[model][ranks]}")
        name = f"{strategy} {model} {optimizer[0]} on {ranks}"
        yield name + (f", {shards} shards" if shards else ""), flags


def _fits(strategy: str, ranks: int, *, shards: int) -> bool:
    if strategy == "local":
        return not shards
    return ranks == 1 if strategy == "single" else ranks > 1 or strategy != "server"


def train_all(source: Path, folder: Path) -> dict[str, str]:
    """The digest of every training, by name, with the code of a source folder."""
    (folder / "norm.py").write_text(_NORM)
    (folder / "worker.py").write_text(_WORKER)
    found: dict[str, str] = {}
    for ranks in RANKS:
        chosen = folder / f"cases-{ranks}.json"
        chosen.write_text(json.dumps(list(cases(ranks, folder))))
        output = folder / f"digests-{ranks}"
        command = [str(folder / "worker.py"), str(chosen), str(output)]
        if ranks > 1:
            mpiexec = Path(sys.executable).with_name("mpiexec")
            start = [str(mpiexec), "-n", str(ranks), "--bind-to", "none"]
            command = [*start, "--map-by", ":OVERSUBSCRIBE", sys.executable, *command]
        else:
            command = [sys.executable, *command]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        environment |= {"OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl": "^ofi"}
        ended = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False
        )
        lines = output.read_text().splitlines() if output.exists() else []
        found |= dict(json.loads(line) for line in lines)
        print(f"  {ranks} ranks: {len(lines)} trainings, exit code {ended.returncode}", flush=True)
        if ended.returncode:
            print("  " + "\n  ".join(ended.stderr.splitlines()[-15:]), flush=True)
    return found


def main() -> int:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit", help="the code to compare the present one with")
    commit = parser.parse_args().commit
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        folder, tree = Path(name), Path(name) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True
        )
        try:
            digests = []
            for title, source in ((commit, tree / "src"), ("the present code", ROOT / "src")):
                print(f"{title}:", flush=True)
                run = folder / f"run-{len(digests)}"
                run.mkdir()
                digests.append(train_all(source, run))
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=False)
        expected = [name for ranks in RANKS for name, _ in cases(ranks, folder)]
    before, after = digests
    same = [name for name in expected if name in before and before[name] == after.get(name)]
    for name in expected:
        if name not in same:
            was, now = before.get(name, "no result"), after.get(name, "no result")
            print(f"differs: {name}: {was[:12]} before, {now[:12]} now")
    print(f"{len(same)} of {len(expected)} trainings have the same weights, bit for bit")
    return 0 if len(same) == len(expected) else 1


if __name__ == "__main__":
    sys.exit(main())
