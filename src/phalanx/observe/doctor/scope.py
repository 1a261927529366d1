"""What is examined: how many ranks, on which hosts, for how long; and what ranks reported."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from phalanx.comm.launch.job import Job, current_job
from phalanx.comm.launch.mpiexec import available_slots
from phalanx.errors import LaunchError, PhalanxError
from phalanx.observe.doctor.asking import Answer, ask, python, torch_facts

_FEWEST, _A_FEW = 2, 4


def job_here() -> Job | str | None:
    """The job that this process is a rank of; why it is none, if it was meant to be."""
    try:
        return current_job()
    except LaunchError as error:
        return str(error)


def allocated_hosts(seconds: float) -> dict[str, int]:
    """The hosts of the Slurm job that this is the batch script of, a rank each, if there are
    several; none where Slurm does not say."""
    nodes = os.environ.get("SLURM_JOB_NODELIST")
    if nodes is None or os.environ.get("SLURM_JOB_NUM_NODES", "1") == "1":
        return {}
    try:
        answer = ask(["scontrol", "show", "hostnames", nodes], seconds=seconds)
    except OSError:  # there is no such command: what is wrong with Slurm is found elsewhere
        return {}
    return dict.fromkeys(answer.output.split(), 1) if answer.code == 0 else {}


@dataclass(frozen=True, eq=False)
class Scope:
    """What to examine."""

    #: How many ranks to start, if somebody says so.
    ranks: int | None = None
    #: The hosts to start them on, and how many on each; empty for this one, or for Slurm's choice.
    hosts: Mapping[str, int] = field(default_factory=dict)
    #: What a check may take.
    seconds: float = 60.0
    #: See `job_here`.
    job: Job | str | None = None

    @property
    def count(self) -> int:
        """The ranks of the self-test."""
        if isinstance(self.job, Job):
            return self.job.size
        if self.hosts:
            return sum(self.hosts.values())
        if self.ranks is not None:
            return self.ranks
        try:
            return min(_A_FEW, max(_FEWEST, available_slots()))
        except PhalanxError:  # of an environment that makes no sense: starting ranks will tell
            return _FEWEST

    @cached_property
    def report(self) -> "Report":
        """What the ranks found, on all of them together; they are started for it if need be."""
        return self._asked("phalanx.observe.doctor.self_test", self.count)

    def _asked(self, module: str, count: int) -> "Report":
        if isinstance(self.job, str):  # they would be started in a place that is none for them
            return Report(Answer(None, "", self.job))
        program = python("-m", module)
        if self.job is None:
            places = ",".join(f"{name}:{slots}" for name, slots in self.hosts.items())
            program = self.on_ranks(count, program, *(("-H", places) if places else ()))
        return Report(ask(program, seconds=self.seconds))

    @cached_property
    def device_count(self) -> int:
        """The ranks that try out devices: one a GPU, if there are any and nobody says otherwise."""
        if isinstance(self.job, Job) or self.hosts or self.ranks is not None:
            return self.count
        facts = torch_facts(self.seconds)
        return _FEWEST if isinstance(facts, str) else len(facts["gpus"]) or _FEWEST

    @cached_property
    def device_report(self) -> "Report":
        """What ranks found that tried out their devices."""
        return self._asked("phalanx.observe.doctor.device_trials", self.device_count)

    def on_ranks(self, count: int, program: list[str], *flags: str) -> list[str]:
        """What runs a program on so many ranks, as any job of a user's is run."""
        return [*python("-m", "phalanx", "run"), *flags, "-n", str(count), *program]


class Report:
    """What the first of the ranks has told of all, as far as they came."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.told: dict[str, Any] = {}
        for line in answer.output.splitlines():
            if line.startswith("{"):
                self.told |= json.loads(line)

    @property
    def is_whole(self) -> bool:
        """Whether they came to the end."""
        return bool(self.told.get("done"))
