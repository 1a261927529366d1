"""The scripts of docs/migration.md run, one after the other, in a job of two ranks."""

import re
from pathlib import Path

from tests.keras.test_keras import ROOT, run_script

PAGE = ROOT / "docs" / "migration.md"


def test_the_scripts_run(tmp_path: Path) -> None:
    scripts = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(scripts) == 5
    # Each in a namespace of its own, as if it were a file.
    lines = [
        f"exec(compile({script!r}, 'script {i}', 'exec'), {{}})\n"
        for i, script in enumerate(scripts)
    ]
    (tmp_path / "all.py").write_text("".join(lines))
    run_script("torch", tmp_path, "all.py")
    assert (tmp_path / "model.pt").exists()
    assert (tmp_path / "model.keras").exists()
