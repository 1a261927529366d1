"""Both programs of the report on 1, 2 and 4 ranks: one table of their times and accuracies.

    python -m examples.horovod_report.run
    python -m examples.horovod_report.run --backends torch jax tensorflow --ranks 1 2

Keras runs on each of its backends that is installed.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from examples.commands import show

PROGRAMS = {"torch": "torch_program", "keras": "keras_program"}
BACKENDS = ("torch", "jax", "tensorflow")
#: How a program says on rank 0, in its last line, what it came to.
_LAST = re.compile(r"ranks: time ([\d.]+ s), accuracy ([\d.]+%), saved ")


def main() -> None:
    arguments = parse_arguments()
    rows = []
    try:
        for title, program, backend in found(arguments.frameworks, arguments.backends):
            for ranks in arguments.ranks:
                folder: Path = arguments.output / f"{program}-{backend}-{ranks}"
                flags = ["--epochs", str(arguments.epochs), "--output", str(folder)]
                time, accuracy = run(program, flags, ranks=ranks, backend=backend, folder=folder)
                rows.append((title, str(ranks), time, accuracy))
    except subprocess.CalledProcessError as error:
        # The program has said what was wrong.
        sys.exit(error.returncode)
    show("500-256-10 by Horovod", ("framework", "ranks", "time", "accuracy"), rows)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--frameworks", nargs="+", choices=tuple(PROGRAMS), default=tuple(PROGRAMS))
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--ranks", nargs="+", type=int, default=(1, 2, 4))
    parser.add_argument("--epochs", type=int, default=40)
    output = Path("horovod-report")
    parser.add_argument("--output", type=Path, default=output, help="a folder for the models")
    return parser.parse_args()


def found(frameworks: list[str], backends: list[str]) -> list[tuple[str, str, str]]:
    """What can be run here, as a title, a program and a backend; what cannot is said."""
    programs = []
    if "torch" in frameworks:
        programs.append(("PyTorch", PROGRAMS["torch"], "torch"))
    if "keras" in frameworks:
        for backend in backends:
            missing = [name for name in ("keras", backend) if find_spec(name) is None]
            if missing:
                print(f"Keras on {backend} is left out: {missing[0]} is not installed here.")
            else:
                programs.append((f"Keras on {backend}", PROGRAMS["keras"], backend))
    return programs


def run(
    program: str, flags: list[str], *, ranks: int, backend: str, folder: Path
) -> tuple[str, str]:
    """The time and the accuracy that a program ends with on so many ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["-m", f"examples.horovod_report.{program}", *flags]
    setting = {"KERAS_BACKEND": backend} if program == PROGRAMS["keras"] else {}
    before = "".join(f"{name}={value} " for name, value in setting.items())
    print(f"$ {before}phalanx run -n {ranks} python {shlex.join(words)}", flush=True)
    command = [sys.executable, "-m", "phalanx", "run", "-n", str(ranks), sys.executable, *words]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        command, env=os.environ | quiet | setting, stdout=subprocess.PIPE, text=True, check=True
    )
    last = _LAST.search(done.stdout)
    if last is None:
        raise RuntimeError(f"{program} does not say what it came to: {done.stdout[-500:]}")
    return last[1], last[2]


if __name__ == "__main__":
    main()
