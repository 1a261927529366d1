"""The batch script of a job: what Slurm is asked for, the environment, one command.

The command takes the shell's place (`exec`): bash would end at once when the job is cancelled or
its time is over, and Slurm then kills what it had started.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from phalanx.errors import UsageError

#: What a value of an option may be: Slurm reads neither quotes nor comments in it then.
_PLAIN = re.compile(r"[^\s\"'#\\\x00-\x1f\x7f]+")
#: A name of a job is the beginning of its output's name as well.
_NAME = re.compile(r"[A-Za-z0-9._+-]{1,100}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@final
@dataclass(frozen=True)
class Environment:
    """What is there when the command starts, besides what was there when it was submitted."""

    modules: Sequence[str] = ()
    #: The folder of a virtual environment, to be activated.
    venv: Path | None = None
    #: More lines of shell.
    setup: Sequence[str] = ()
    threads: int | None = None

    def lines(self) -> list[str]:
        """Lines of bash."""
        lines = [f"module load {shlex.quote(name)}" for name in self.modules]
        if self.venv is not None:
            lines.append(f". {shlex.quote(str(self.venv / 'bin' / 'activate'))}")
        lines += self.setup
        if self.threads is not None:
            lines.append(f"export OMP_NUM_THREADS={self.threads}")
        return lines


def option(name: str, value: object) -> str:
    """An option for Slurm; a value that could be read as more than one is refused."""
    text = str(value)
    if not _PLAIN.fullmatch(text):
        raise UsageError(f"--{name} {text!r}: has spaces or quotes, which Slurm does not take here")
    return f"--{name}={text}"


def check_name(name: str) -> str:
    """A job's name, if a file can have it, too."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"--job-name {name!r}: takes letters, digits and ._+-, 100 at most")
    return name


def check_own(text: str) -> str:
    """An option that a user writes as Slurm takes it, on one line."""
    if _CONTROL.search(text) or not text.startswith("-"):
        raise UsageError(
            f"--sbatch {text!r}: takes one option of sbatch, such as --sbatch=--constraint=avx512"
        )
    return text


def quoted(words: Sequence[str]) -> list[str]:
    """Words that bash reads as they are, whatever is in them."""
    return [shlex.quote(word) for word in words]


def batch_script(
    options: Sequence[str], environment: Environment, command: Sequence[str], *, why: str
) -> str:
    """The whole script; `command` is in words as bash reads them, `why` about who starts ranks."""
    return "\n".join(
        (
            "#!/bin/bash",
            *(f"#SBATCH {one}" for one in options),
            *environment.lines(),
            f"# {why}",
            f"exec {' '.join(command)}",
            "",
        )
    )
