"""How much memory can still be had, by what the kernel says about the host and its groups."""

from pathlib import Path

import pytest

from phalanx.comm.free_memory import free_memory

MIB = 1 << 20


def host(folder: Path, groups: str, *, available: int = 1000) -> Path:
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    text = f"MemTotal: {4 * available << 10} kB\nMemAvailable:   {available << 10} kB\n"
    (proc / "meminfo").write_text(text)
    (proc / "self/cgroup").write_text(groups)
    return proc


def group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / f"memory.{name}").write_text(f"{value}\n")


def test_files_that_were_read_are_no_use_of_memory(tmp_path: Path) -> None:
    """A container at its limit, nearly all of it pages of the data set."""
    proc = host(tmp_path, "0::/\n")
    statistics = f"anon {80 * MIB}\nfile {420 * MIB}\nshmem 0\ninactive_file {300 * MIB}\n"
    statistics += f"active_file {100 * MIB}\nslab_reclaimable {10 * MIB}\n"
    top = tmp_path / "cgroup"
    group(top, max=512 * MIB, current=510 * MIB, stat=statistics)
    assert free_memory(proc=proc, groups=top) == 412 * MIB


@pytest.mark.parametrize("tight", ["job", "job/step", "job/step/task"])
def test_the_tightest_of_the_groups_around(tmp_path: Path, tight: str) -> None:
    """As Slurm makes them: a limit at any level counts."""
    proc = host(tmp_path, "0::/job/step/task\n")
    top = tmp_path / "cgroup"
    for name in ("job", "job/step", "job/step/task"):
        limit = 100 * MIB if name == tight else "max"
        group(top / name, max=limit, current=40 * MIB, stat="")
    assert free_memory(proc=proc, groups=top) == 60 * MIB


def test_control_groups_of_the_first_version(tmp_path: Path) -> None:
    proc = host(tmp_path, "5:cpu,cpuacct:/x\n4:memory:/jobs/7\n0::/\n")
    top = tmp_path / "cgroup"
    statistics = f"total_inactive_file {30 * MIB}\ninactive_file {5 * MIB}\n"
    group(
        top / "memory/jobs/7",
        limit_in_bytes=100 * MIB,
        usage_in_bytes=90 * MIB,
        stat=statistics,
    )
    assert free_memory(proc=proc, groups=top) == 40 * MIB


def test_without_limits_the_hosts_own_memory_counts(tmp_path: Path) -> None:
    proc = host(tmp_path, "0::/user.slice\n", available=77)
    assert free_memory(proc=proc, groups=tmp_path / "absent") == 77 * MIB
    assert free_memory(proc=tmp_path / "absent", groups=tmp_path / "absent") > 1 << 50


def test_here() -> None:
    assert free_memory() > 0
