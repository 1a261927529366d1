"""The scripts of docs/migration.md and of docs/api/keras.md run, in a job of two ranks."""

from pathlib import Path

import pytest

from tests.docs.pages import python_of, run_blocks
from tests.keras.test_keras import LATER, run_script


@pytest.mark.parametrize("backend", LATER)
def test_the_scripts_run(backend: str, tmp_path: Path) -> None:
    """Those of the migration on torch, every name of ours on all backends."""
    migration = [one.text for one in run_blocks("migration.md") if one.language == "python"]
    assert len(migration) == 5
    scripts = [*(migration if backend == "torch" else []), python_of("api/keras.md")]
    # Each in a namespace of its own, as if it were a file.
    lines = [
        f"exec(compile({script!r}, 'script {i}', 'exec'), {{}})\n"
        for i, script in enumerate(scripts)
    ]
    (tmp_path / "all.py").write_text("".join(lines))
    run_script(backend, tmp_path, "all.py")
    assert (tmp_path / "example.keras").exists()
    if backend == "torch":
        assert (tmp_path / "model.pt").exists()
        assert (tmp_path / "model.keras").exists()
