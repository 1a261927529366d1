"""Hosts: whether ranks start on each of them, run the same software there, and how far it is."""

import statistics
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phalanx.comm.launch.job import Job
from phalanx.observe.doctor.asking import Answer, ask, python
from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope
from phalanx.wording import counted

#: Hosts that are looked at at the same time.
_AT_ONCE = 8
#: What is slow for a cluster, in seconds and bits a second.
_SLOW_LATENCY, _SLOW_BANDWIDTH = 1e-3, 0.5e9
_REACH = (
    "`ssh HOST true` must work without a password, and this Python be at the same path there; in a "
    "Slurm job leave --hosts out"
)


def reachable(scope: Scope) -> Iterator[Finding]:
    """Whether a rank starts on each of the hosts that were named."""
    if not scope.hosts or isinstance(scope.job, Job):
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(lambda host: _start_on(host, scope), scope.hosts)
        for host, answer in zip(scope.hosts, answers, strict=True):
            if answer.code == 0 and "here" in answer.output:
                yield fine(host, "a rank starts there")
            else:
                yield broken(host, f"no rank starts there: {answer.why}", _REACH)


def versions(scope: Scope) -> Iterator[Finding]:
    """Whether the same software is on all hosts."""
    places = _places(scope)
    if len({place["host"] for place in places}) < 2:
        return
    same = []
    for package in places[0]["versions"]:
        found = Counter(place["versions"][package] for place in places)
        if len(found) == 1:
            same.append(package)
            continue
        usual, _ = found.most_common(1)[0]
        others = {p["host"]: p["versions"][package] for p in places}
        differ = [f"{host} has {one}" for host, one in others.items() if one != usual]
        why = f"{usual} on most hosts, but {', '.join(differ)}"
        yield broken(package, why, "install the same everywhere, or share one environment")
    if same:
        yield fine("same versions", f"{', '.join(same)} on {_count(places)}")


def links(scope: Scope) -> Iterator[Finding]:
    """How far hosts are from the first one."""
    places, measured = _places(scope), scope.report.told.get("links", [])
    if len({place["host"] for place in places}) < 2 or not measured:
        return
    usual = statistics.median(link["bandwidth"] for link in measured)
    for link in measured:
        bits, latency = 8 * link["bandwidth"], link["latency"]
        name = f"{places[0]['host']} to {places[link['rank']]['host']}"
        said = f"{latency * 1e6:,.0f} µs, {bits / 1e9:,.2f} Gbit/s"
        if link["bandwidth"] < usual / 2:
            advice = "look at its cable, its switch and what else runs there"
            yield odd(name, f"{said}: less than half of what others have", advice, **link)
        elif bits < _SLOW_BANDWIDTH or latency > _SLOW_LATENCY:
            advice = (
                "a slow network for training: `--strategy local`, larger batches or `--compress` "
                "send less; OMPI_MCA_btl_tcp_if_include names a faster interface, if there is one"
            )
            yield odd(name, said, advice, **link)
        else:
            yield fine(name, said, **link)


def _start_on(host: str, scope: Scope) -> Answer:
    program = python("-c", "print('here')")
    return ask(scope.on_ranks(1, program, "-H", f"{host}:1"), seconds=scope.seconds)


def _places(scope: Scope) -> list[dict[str, Any]]:
    return list(scope.report.told.get("places", []))


def _count(places: list[dict[str, Any]]) -> str:
    return counted(len({place["host"] for place in places}), "host")


GROUP = Group("Hosts", (reachable, versions, links))
