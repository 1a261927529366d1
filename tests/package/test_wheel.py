"""The package as it is given to others: the archives are whole, and the wheel alone trains."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from phalanx.comm.launch.mpiexec import find_mpiexec
from tests.commands import environment

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: What a clone has besides what tests and tools leave in it.
PARTS = ("src", "docs", "examples", "tests", "benchmarks", "tools")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a wheel that was made of the source archive, and of that; built from a copy."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    shutil.copytree(ROOT, clone, ignore=_not_of_the_project)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")]
    done = subprocess.run(
        [*build, str(clone)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


def _not_of_the_project(folder: str, names: list[str]) -> list[str]:
    if Path(folder) != ROOT:
        return [name for name in names if name == "__pycache__" or name.endswith(".egg-info")]
    return [one for one in names if one not in PARTS and (ROOT / one).is_dir()]


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_has_every_file_of_the_package(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("phalanx/")}
    files = [path for path in (ROOT / "src" / "phalanx").rglob("*") if path.is_file()]
    ours = {str(path.relative_to(ROOT / "src")) for path in files if path.suffix != ".pyc"}
    assert packed == ours
    assert {"phalanx/py.typed", "phalanx/horovod/python_path/horovod.py"} <= packed


def test_the_source_archive_has_what_its_readme_leads_to(archives: Path) -> None:
    (source,) = archives.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    readme = (ROOT / "README.md").read_text()
    links = set(re.findall(r"\]\((?!https?:)([^)#\s]+)", readme))
    assert {link.rstrip("/") for link in links} <= packed
    assert {"LICENSE", "CHANGELOG.md", "constraints.txt", "Makefile"} <= packed
    assert "tests/package/test_wheel.py" in packed


def test_what_the_package_says_of_itself(archives: Path) -> None:
    (wheel,) = archives.glob("*.whl")
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == ("phalanx", PROJECT["version"])
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload() == (ROOT / "README.md").read_text()
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_changelog_begins_with_this_version() -> None:
    headings = re.findall(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


@pytest.mark.long
def test_the_wheel_alone_trains_away_from_the_clone(archives: Path, tmp_path: Path) -> None:
    """In an environment of its own, that sees packages of others and none of the clone's."""
    (wheel,) = archives.glob("*.whl")
    python = _environment_with(wheel, tmp_path / "env")
    phalanx, here = str(python.with_name("phalanx")), sysconfig.get_paths()["purelib"]
    variables = environment() | {
        "PHALANX_MPIEXEC": str(find_mpiexec()),
        "LD_LIBRARY_PATH": str(Path(sys.prefix) / "lib"),
    }
    where = "import phalanx; print(phalanx.__file__)"
    train = ["train", "--ranks", "2", "--epochs", "1", "--output", "run"]
    script = ["run", "-n", "2", str(python), "-c", "import phalanx; print(phalanx.world().size)"]
    said = [
        subprocess.run(
            command,
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        for command in (
            [str(python), "-c", where],
            [phalanx, *train],
            [phalanx, *script],
            [phalanx, "doctor", "--ranks", "2", "--time-limit", "240"],
        )
    ]
    assert [one.returncode for one in said] == [0, 0, 0, 0], [one.stderr for one in said]
    assert said[0].stdout.startswith(str(tmp_path))
    assert here not in said[0].stdout
    assert "weights sha256" in said[1].stdout
    assert said[2].stdout.split() == ["2", "2"]
    assert str(tmp_path / "env") in said[3].stdout


def _environment_with(wheel: Path, folder: Path) -> Path:
    """A new environment with the wheel, and what else is installed here by a line in a file."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install],
        check=True,
        env=environment() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    others = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    (packages / "others.pth").write_text("".join(f"{one}{os.linesep}" for one in others))
    return python
