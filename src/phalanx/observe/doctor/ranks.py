"""Ranks: that they start and find each other, their cores, every verb, the memory they share."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from phalanx.comm.launch.job import Job
from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope
from phalanx.wording import byte_size, counted

_START = "see what is broken above; `phalanx run -n 2 python -c 'print(1)'` starts two ranks alone"


def started(scope: Scope) -> Iterator[Finding]:
    """Whether all ranks are there, and know of each other."""
    if isinstance(scope.job, str):
        return  # found broken elsewhere: these tasks are no ranks of one job
    size = scope.report.told.get("size")
    if size is None:
        why = f"{counted(scope.count, 'rank')} did not start: {scope.report.answer.why}"
        yield broken("ranks", why, _START)
        return
    how = "of this job" if isinstance(scope.job, Job) else "started for this"
    yield fine("ranks", f"{counted(size, 'rank')} {how}", ranks=size)


def binding(scope: Scope) -> Iterator[Finding]:
    """Whether each rank has cores of its own, and no more threads than those."""
    for host, places in _by_host(scope).items():
        name, count = f"binding on {host}", len(places)
        cpus = [set(place["cpus"]) for place in places]
        cores = len(set().union(*cpus))
        facts = {"cpus": [place["cpus"] for place in places]}
        threads = sum(place["threads"] for place in places)
        if count > cores:
            why = f"{count} ranks share {counted(cores, 'core')}"
            yield odd(name, why, "take as many ranks as cores to train", **facts)
        elif threads > cores:
            why = f"{count} ranks have {threads} threads in all, on {counted(cores, 'core')}"
            yield odd(name, why, "unset OMP_NUM_THREADS, or say --threads", **facts)
        elif count > 1 and sum(map(len, cpus)) > cores:
            why = f"ranks may run on each other's cores ({counted(cores, 'core')})"
            advice = "trainings are a little slower; srun binds with --cpu-bind=cores"
            yield odd(name, why, advice, **facts)
        else:
            each = counted(min(place["threads"] for place in places), "thread")
            yield fine(name, f"each rank has cores of its own, and {each}", **facts)


def verbs(scope: Scope) -> Iterator[Finding]:
    """Whether all that ranks do together comes out right."""
    told = scope.report.told
    if "right" in told:
        said = f"{', '.join(told['right'])}: right, on {counted(told['size'], 'rank')}"
        yield fine("collectives", said, right=told["right"])
    for key, ranks in told.items():
        if key.startswith("wrong "):
            verb, where = key.removeprefix("wrong "), ", ".join(map(str, ranks))
            why = f"numbers came out wrong on rank {where}"
            yield broken(verb, why, "report it to whoever installed this MPI; try the wheel's")
    if "size" in told and not scope.report.is_whole:
        why = f"ranks did not come through `{told.get('trying')}`: {scope.report.answer.why}"
        yield broken(
            "collectives", why, "look whether a firewall is between the hosts, or memory full"
        )


def shared_memory(scope: Scope) -> Iterator[Finding]:
    """Whether ranks of a host see what the others write."""
    reports = scope.report.told.get("shared")
    if reports is None:
        return
    problems = sorted({one for one in reports if one})
    if problems:
        yield odd("memory between ranks", problems[0], "`--strategy allreduce` needs none")
    else:
        yield fine("memory between ranks", "ranks of a host see what the others write")


def between_ranks(scope: Scope) -> Iterator[Finding]:
    """How fast messages go on one host."""
    places = scope.report.told.get("places", [])
    if len({place["host"] for place in places}) != 1:
        return  # see hosts
    for link in scope.report.told.get("links", []):
        said = f"{link['latency'] * 1e6:.1f} µs, {byte_size(link['bandwidth'])}/s through memory"
        yield fine("messages", said, **link)


def _by_host(scope: Scope) -> dict[str, list[dict[str, Any]]]:
    hosts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for place in scope.report.told.get("places", []):
        hosts[place["host"]].append(place)
    return hosts


GROUP = Group("Ranks", (started, binding, verbs, shared_memory, between_ranks))
