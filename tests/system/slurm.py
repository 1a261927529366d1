"""A real Slurm of one node, for as long as a block lasts: Debian's daemons, on this machine alone.

Needs root and the packages of `PACKAGES`; neither systemd nor control groups. Its files are in a
temporary folder, and its ports are free ones, so it leaves a Slurm of the machine's own in peace.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.commands import environment

#: slurm-wlm opens PMIx by a name that libpmix2 does not have, only libpmix-dev, which brings both.
PACKAGES = ("slurm-wlm", "munge", "libpmix-dev")
_PROGRAMS = (
    "munged",
    "slurmctld",
    "slurmd",
    "srun",
    "sbatch",
    "scancel",
    "scontrol",
    "squeue",
    "sinfo",
)
_DAEMONS = Path(__file__).with_name("slurm_daemons.py")
#: Seconds without anything new after which nothing will come any more.
_PATIENCE = 120
#: Jobs of the partition `high` push those of `low` back into the queue, from where they start again
#: as soon as their credentials have expired. The node may say more cores than there are. PMIx keeps
#: folders by the numbers of jobs, and another Slurm's of the same number would be in its way.
_CONFIGURATION = """\
ClusterName=phalanx
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
TmpFS={folder}/tmp
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
SlurmctldTimeout=10
SlurmdTimeout=60
KillWait=20
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 PreemptMode=REQUEUE State=UP
PartitionName=high Nodes={host} PriorityTier=2 PreemptMode=OFF State=UP
"""


class NoSlurmError(Exception):
    """Slurm could not be started, or stands still; says why, with what its daemons logged."""


@contextmanager
def running_slurm(*settings: str) -> Iterator["Slurm"]:
    """A Slurm that takes jobs, with more lines for its slurm.conf."""
    _check_machine()
    with tempfile.TemporaryDirectory(prefix="phalanx-slurm-", ignore_cleanup_errors=True) as name:
        slurm = Slurm(Path(name))
        _write_files(slurm.folder, settings)
        daemons = _start_daemons(slurm.folder)
        try:
            slurm.wait(slurm.is_ready, seen=lambda: None)
            yield slurm
        finally:
            daemons.communicate(timeout=_PATIENCE)


def _start_daemons(folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "daemons.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, str(_DAEMONS), str(folder)],
            env=_variables(folder),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C is for the tests, which then end it in order
        )


def _check_machine() -> None:
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_path()) is None]
    if missing:
        raise NoSlurmError(
            f"no {', '.join(missing)} here; as root: apt-get install {' '.join(PACKAGES)}"
        )
    if os.geteuid() != 0:
        raise NoSlurmError("Slurm's daemons need root: sudo make test-system")


def _write_files(folder: Path, settings: Sequence[str]) -> None:
    for name in ("munge", "state", "spool", "jobs", "tmp"):
        (folder / name).mkdir(mode=0o700)
    key = folder / "munge" / "key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))
    controller_port, node_port = _free_ports()
    text = _CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        controller_port=controller_port,
        node_port=node_port,
        folder=folder,
    )
    (folder / "slurm.conf").write_text(text + "".join(f"{line}\n" for line in settings))


def _free_ports() -> tuple[int, int]:
    """Two below those that Linux gives away by itself: nobody gets them before the daemons."""
    found: list[int] = []
    while len(found) < 2:
        port = 20000 + secrets.randbelow(12000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
    return found[0], found[1]


def _path() -> str:
    """With `phalanx` in it, and with what only root has in its own."""
    here = str(Path(sys.executable).parent)
    return os.pathsep.join((here, os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def _variables(folder: Path) -> dict[str, str]:
    ours = {name: one for name, one in environment().items() if not name.startswith("SLURM_")}
    return ours | {
        "PATH": _path(),
        "SLURM_CONF": str(folder / "slurm.conf"),
        "TMPDIR": str(folder / "jobs"),
    }


@dataclass(frozen=True)
class Slurm:
    """Slurm's commands; none waits longer than two minutes for something that does not get on."""

    folder: Path

    def run(self, *command: str) -> str:
        """What one of Slurm's own commands answers, at once."""
        done = subprocess.run(
            command,
            env=_variables(self.folder),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode:
            raise self._stands_still(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def is_ready(self) -> bool:
        """Whether slurmctld answers and has heard of its node."""
        problem = (self.folder / "daemons.log").read_text()
        if problem:
            raise self._stands_still(problem.strip())
        command = ["sinfo", "--noheader", "--format=%T"]
        asked = subprocess.run(
            command, env=_variables(self.folder), capture_output=True, text=True, check=False
        )
        return set(asked.stdout.split()) == {"idle"}

    def srun(self, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run `srun ARGUMENTS` in a folder, to its end."""
        return self.to_its_end("srun", *arguments, folder=folder)

    def to_its_end(self, *command: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a command in a folder as a user of this Slurm does, as long as it has news."""
        files = [folder / f"{command[0]}.{kind}" for kind in ("out", "err")]
        with files[0].open("w") as output, files[1].open("w") as errors:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=_variables(self.folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
        try:
            self.wait(lambda: process.poll() is not None, seen=lambda: list(map(_size, files)))
        finally:
            process.kill()
            code = process.wait()
        return subprocess.CompletedProcess(command, code, *(file.read_text() for file in files))

    def sbatch(self, script: str, *options: str, folder: Path) -> "Job":
        """Put a script into the queue, to be run in a folder."""
        file = folder / "script.sh"
        file.write_text(script)
        place = [f"--chdir={folder}", f"--output={folder}/%j.out"]
        number = self.run("sbatch", "--parsable", *place, *options, str(file))
        return Job(self, number, folder / f"{number}.out")

    def squeue(self, *options: str) -> list[str]:
        """The numbers of the jobs in the queue."""
        return self.run("squeue", "--noheader", "--format=%i", *options).split()

    def wait(self, done: Callable[[], bool], *, seen: Callable[[], object]) -> None:
        """Wait until something is done, as long as what is seen of it changes now and then."""
        last, deadline = seen(), time.monotonic() + _PATIENCE
        while not done():
            now = seen()
            if now != last:
                last, deadline = now, time.monotonic() + _PATIENCE
            if time.monotonic() > deadline:
                raise self._stands_still(f"nothing new for {_PATIENCE} s, last {last}")
            time.sleep(0.1)

    def _stands_still(self, problem: str) -> NoSlurmError:
        logs = [self.folder / "munge" / "log", *sorted(self.folder.glob("slurm*.log"))]
        texts = [f"{log.name}:\n{log.read_text()}" for log in logs if log.exists()]
        return NoSlurmError("\n".join((problem, *texts)))


@dataclass(frozen=True)
class Job:
    """A script in Slurm's hands."""

    slurm: Slurm
    number: str
    output: Path

    def ask(self, name: str) -> str:
        """One of the things that Slurm says about it: JobState, ExitCode, Restarts …"""
        answer = self.slurm.run("scontrol", "--oneliner", "show", "job", self.number)
        return dict(word.partition("=")[::2] for word in answer.split())[name]

    def said(self) -> str:
        """All that it has written so far, to both streams."""
        return self.output.read_text() if self.output.exists() else ""

    def until(self, text: str) -> None:
        """Wait until it has said something; it must not end before."""
        self.slurm.wait(lambda: text in self.said() or self._has_ended(), seen=self._seen)
        assert text in self.said(), f"the job ended without {text}:\n{self.said()}"

    def end(self) -> str:
        """Wait until it has ended, and return all that it said."""
        self.slurm.wait(self._has_ended, seen=self._seen)
        return self.said()

    def limit(self, minutes: int) -> None:
        """Give it another time, counted from its start."""
        self.slurm.run("scontrol", "update", f"JobId={self.number}", f"TimeLimit={minutes}")

    def cancel(self) -> None:
        """Have it ended, as its user does."""
        self.slurm.run("scancel", self.number)

    def _has_ended(self) -> bool:
        return self.number not in self.slurm.squeue()

    def _seen(self) -> object:
        return self.ask("JobState"), _size(self.output)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
