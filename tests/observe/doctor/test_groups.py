"""What the checks say of machines that are not as they should be."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.comm.launch.job import Job
from phalanx.observe.doctor import gpus, hosts, memory, mpi, processor, ranks, slurm, software
from phalanx.observe.doctor.asking import Answer
from phalanx.observe.doctor.finding import Check, Finding
from phalanx.observe.doctor.scope import Report, Scope, allocated_hosts


class Examined(Scope):
    """With ranks that have reported something."""

    def __init__(self, *told: dict[str, Any], why: str = "", **how: Any) -> None:
        super().__init__(ranks=2, **how)
        answer = Answer(0 if not why else None, "\n".join(map(json.dumps, told)), why)
        object.__setattr__(self, "report", Report(answer))


def only(check: Check, scope: Scope | None = None) -> Finding:
    (found,) = check(scope or Scope(ranks=2))
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Has a name stand for a shell script; nothing else is found any more."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def make(name: str, script: str) -> None:
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o700)

    return make


def test_threads_that_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert only(processor.threads).verdict == "fine"
    for value in ("100000", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        found = only(processor.threads)
        assert (found.verdict, f"={value}" in found.said) == ("odd", True)


def test_a_containers_share_of_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(processor, "_QUOTA", quota)
    for text, verdict in (("max 100000", "fine"), ("50000 100000", "odd"), ("?", "fine")):
        quota.write_text(f"{text}\n")
        assert only(processor.cores).verdict == verdict
    quota.write_text("50000 100000\n")
    assert "0.5 of them" in only(processor.cores).said


@pytest.mark.parametrize(
    ("end", "verdict", "advice"),
    [
        (0, "fine", ""),
        (-signal.SIGILL, "odd", "ONEDNN_MAX_CPU_ISA"),
        (1, "odd", "compute in float32"),
    ],
)
def test_a_processor_without_what_it_announces(
    monkeypatch: pytest.MonkeyPatch, end: int, verdict: str, advice: str
) -> None:
    monkeypatch.setattr(processor, "ask", lambda *_, seconds: Answer(end, "", "why"))
    found = only(processor.bfloat16)
    assert (found.verdict, advice in found.advice) == (verdict, True)


def test_no_shared_memory_or_little_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_SHARED", tmp_path)
    assert only(memory.shared).facts["bytes"] > 0
    monkeypatch.setattr(memory, "_SEGMENT_OF_A_RANK", 1 << 60)
    assert only(memory.shared).verdict == "odd"
    monkeypatch.setattr(memory, "_SHARED", tmp_path / "nowhere")
    found = only(memory.shared)
    assert (found.verdict, "No such file" in found.said) == ("odd", True)


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 500 << 20)
    assert only(memory.free).said.startswith("500 MiB free: 2 ranks take 600 MiB")


def test_gpus(monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], None]) -> None:
    facts: dict[str, Any] = {"version": "2", "cuda": None, "hip": None, "nccl": False, "gpus": []}
    monkeypatch.setattr(gpus, "torch_facts", lambda _seconds: facts)
    assert only(gpus.gpus).said == "none; trainings run on the processor"
    program("nvidia-smi", "echo 'GPU 0: A100'; echo 'GPU 1: A100'")
    assert "the driver knows 2" in only(gpus.gpus).said
    facts |= {"gpus": ["A100", "A100"], "cuda": "13.0", "nccl": True}
    assert only(gpus.gpus).said == "2 × A100, NCCL"
    facts["nccl"] = False
    assert only(gpus.gpus).verdict == "odd"


def test_packages_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"version": "2.2.0+cu121", "cuda": "12.1", "hip": None}
    monkeypatch.setattr(software, "torch_facts", lambda _seconds: facts)
    found = only(software.torch)
    assert (found.verdict, "CUDA 12.1: Phalanx needs 2." in found.said) == ("broken", True)
    monkeypatch.setattr(software, "torch_facts", lambda _seconds: "ended by SIGSEGV")
    assert only(software.torch).said == "`import torch` fails: ended by SIGSEGV"


@pytest.mark.parametrize(
    ("says", "verdict"),
    [
        ("mpiexec (Open MPI) 5.0.8", "fine"),
        ("mpiexec (Open MPI) 5.0.2", "odd"),
        ("HYDRA build", "broken"),
    ],
)
def test_an_mpiexec_of_another_mpi(
    says: str, verdict: str, monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], None]
) -> None:
    program("mpiexec", f"echo '{says}'")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    (found,) = mpi._mpiexec(Scope(), "Open MPI v5.0.8, package: Open MPI")
    assert found.verdict == verdict
    assert "on PATH" in found.said


def test_no_slurm_and_one_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], None]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert only(slurm.slurm).said == "none here"
    program("srun", "echo 'MPI plugin types are...' >&2; echo '	none' >&2; echo '	pmi2' >&2")
    program("scontrol", "echo 'cannot reach it' >&2; exit 1")
    assert "cannot reach it" in only(slurm.slurm).said
    program("scontrol", "echo 'Slurmctld(primary) at here is UP'")
    up, outside, srun = slurm.slurm(Scope())
    assert [up.verdict, outside.verdict, srun.verdict] == ["fine", "fine", "odd"]
    assert "offers none, pmi2: no pmix" in srun.said


def test_hosts_of_an_allocation(
    monkeypatch: pytest.MonkeyPatch, program: Callable[[str, str], None]
) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    assert allocated_hosts(10) == {}
    program("scontrol", '[ "$*" = "show hostnames n[1-2]" ] && echo n1 && echo n2')
    assert allocated_hosts(10) == {"n1": 1, "n2": 1}
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")
    assert allocated_hosts(10) == {}


def place(host: str, cpus: list[int], **versions: str) -> dict[str, Any]:
    return {"host": host, "cpus": cpus, "cores": 2, "threads": 1, "versions": versions}


@pytest.mark.parametrize(
    ("cpus", "verdict"),
    [([[0], [1]], "fine"), ([[0, 1], [0, 1]], "odd"), ([[0], [0]], "odd")],
)
def test_binding(cpus: list[list[int]], verdict: str) -> None:
    scope = Examined({"size": 2}, {"places": [place("h", one) for one in cpus]})
    assert only(ranks.binding, scope).verdict == verdict


def test_ranks_that_get_stuck_or_compute_wrong() -> None:
    told = ({"size": 2}, {"right": ["barrier"], "wrong reduce": [1]}, {"trying": "gather"})
    right, wrong, stuck = ranks.verbs(Examined(*told, why="no route to host"))
    assert (right.verdict, right.facts) == ("fine", {"right": ["barrier"]})
    assert (wrong.name, wrong.verdict) == ("reduce", "broken")
    assert stuck.said.startswith("ranks did not come through `gather`: no route to host")
    assert only(ranks.started, Examined(why="mpiexec: no")).verdict == "broken"


def test_hosts_with_other_software_or_a_slow_link() -> None:
    places = [place("a", [0], torch="1"), place("b", [0], torch="1"), place("c", [0], torch="2")]
    fast, slow = {"latency": 5e-5, "bandwidth": 1e9}, {"latency": 5e-5, "bandwidth": 1e8}
    links = [{"rank": 1} | fast, {"rank": 2} | slow]
    scope = Examined({"size": 3, "places": places, "links": links, "done": True})
    found = only(hosts.versions, scope)
    assert (found.verdict, found.said) == ("broken", "1 on most hosts, but c has 2")
    assert [one.verdict for one in hosts.links(scope)] == ["fine", "odd"]
    assert only(ranks.started, scope).said == "3 ranks started for this"


def test_tasks_that_are_no_ranks_are_not_examined_as_such() -> None:
    scope = Scope(job="srun started 2 tasks without MPI; start them with …")
    assert only(slurm.launched_alone, scope).verdict == "broken"
    assert [*ranks.started(scope), *ranks.binding(scope), *hosts.links(scope)] == []
    assert Scope(job=Job(size=7, rank=0)).count == 7
