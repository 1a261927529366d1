"""What is said where Keras, or a backend that can train, is missing."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import phalanx


def test_what_horovod_has_and_we_lack_says_so_by_name() -> None:
    """In a process of its own: Keras is imported with the backend that the environment names."""
    look = "import phalanx.keras as hvd; print(hasattr(hvd, 'never_heard_of')); hvd.join"
    done = subprocess.run(
        [sys.executable, "-c", look],
        env=os.environ | {"KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "False\n", done.stderr
    assert "has no 'join': give all ranks as many batches" in done.stderr


def load_presence() -> Any:
    """The module that looks for Keras, anew."""
    path = Path(phalanx.__file__).parent / "keras" / "presence.py"
    spec = spec_from_file_location("presence", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))


def test_a_missing_keras_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(ImportError, match=r"pip install 'phalanx\[keras\]'"):
        load_presence()


def test_an_old_keras_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2.15.0")
    with pytest.raises(ImportError, match=r"needs Keras 3, and 2.15.0 is installed"):
        load_presence()


def test_a_backend_without_training_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "numpy"))
    monkeypatch.setitem(sys.modules, "keras", fake)
    with pytest.raises(ImportError, match="torch, jax, tensorflow, not numpy"):
        load_presence()


def test_a_backend_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(ImportError, match="environment variable KERAS_BACKEND"):
        load_presence()
