"""Versions: Python, Phalanx, and the packages that it cannot do without."""

import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import phalanx
from phalanx.observe.doctor.asking import ask, python, torch_facts
from phalanx.observe.doctor.finding import Finding, Group, broken, fine
from phalanx.observe.doctor.scope import Scope

#: Imports a package and tells its version. What fails there, and how, is part of the answer.
_IMPORT = (
    "import sys, importlib, importlib.metadata as data; importlib.import_module(sys.argv[1]); "
    "print(data.version(sys.argv[1]))"
)
_NEEDED = re.compile(r"([\w-]+)>=([\d.]+)$")


def python_itself(_scope: Scope) -> Iterator[Finding]:
    """The interpreter that ranks run under, too."""
    said = f"{platform.python_version()}, {sys.executable}"
    yield fine("Python", said, version=platform.python_version(), executable=sys.executable)


def phalanx_itself(_scope: Scope) -> Iterator[Finding]:
    """Which Phalanx this is: several may be installed."""
    folder, version = str(Path(phalanx.__file__).parent), phalanx.__version__
    yield fine("Phalanx", f"{version}, {folder}", version=version, folder=folder)


def torch(scope: Scope) -> Iterator[Finding]:
    """What computes."""
    facts = torch_facts(scope.seconds)
    if isinstance(facts, str):
        yield broken("torch", f"`import torch` fails: {facts}", _install("torch"))
        return
    build = f"CUDA {facts['cuda']}" if facts["cuda"] else f"ROCm {facts['hip']}"
    build = build if facts["cuda"] or facts["hip"] else "for CPUs alone"
    yield _judged("torch", facts["version"], f", {build}")


def packages(scope: Scope) -> Iterator[Finding]:
    """What else is imported by every training."""
    for name in ("numpy", "safetensors", "mpi4py"):
        answer = ask(python("-c", _IMPORT, name), seconds=scope.seconds)
        if answer.code == 0:
            yield _judged(name, answer.output.strip())
        else:
            yield broken(name, f"`import {name}` fails: {answer.why}", _install(name))


def _judged(name: str, version: str, more: str = "") -> Finding:
    needed = _needed().get(name, "0")
    if _numbers(version) < _numbers(needed):
        said = f"{version}{more}: Phalanx needs {needed} or newer"
        return broken(name, said, _install(name), version=version)
    return fine(name, f"{version}{more}", version=version)


def _needed() -> dict[str, str]:
    """The oldest versions that Phalanx takes, by package."""
    try:
        lines = requires("phalanx") or []
    except PackageNotFoundError:
        lines = []
    matches = [found for line in lines if (found := _NEEDED.match(line))]
    return {found[1]: found[2] for found in matches}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version.partition("+")[0])[:3]]


def _install(name: str) -> str:
    needed = _needed().get(name)
    return f"`pip install '{name}{f'>={needed}' if needed else ''}'` in this environment"


GROUP = Group("Software", (python_itself, phalanx_itself, torch, packages))
