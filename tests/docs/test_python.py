"""The Python of docs/ runs as it stands there: the blocks of a page are one script."""

from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.base import Communicator
from tests.commands import Phalanx, environment
from tests.docs.pages import ELSEWHERE, PAGES, python_of
from tests.zygote import Zygote

PAGES_WITH_PYTHON = [one for one in PAGES if one not in ELSEWHERE and python_of(one)]
#: Those that start ranks themselves, and are no part of a job.
ALONE = ("api/phalanx.md",)


def test_pages_are_found() -> None:
    assert {"trainer.md", "data.md", "api/horovod.md", *ALONE} <= set(PAGES_WITH_PYTHON)


@pytest.mark.parametrize("page", [one for one in PAGES_WITH_PYTHON if one not in ALONE])
@pytest.mark.ranks(2)
def test_a_page_on_two_ranks(
    page: str, comm: Communicator, shared_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shared_path)
    known: dict[str, Any] = {"__name__": "page"}
    exec(compile(python_of(page), page, "exec"), known)
    comm.barrier()


@pytest.mark.parametrize("page", ALONE)
def test_a_page_alone(page: str, phalanx: Phalanx, zygote: Zygote, tmp_path: Path) -> None:
    done = phalanx("train", "--epochs", 1, "--output", "runs/digits")
    assert done.returncode == 0, done.stderr
    (tmp_path / "page.py").write_text(python_of(page))
    done = zygote.run("page", [], cwd=tmp_path, env=environment())
    assert done.returncode == 0, done.stderr
