"""Everybody runs once a round on every link, in turn, so that a slow minute meets them all."""

import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measurement import Measurement, parse
from benchmarks.network.contenders import Contender
from benchmarks.network.links import Link, shaped
from tests.hosts.network import Network

#: Seconds for a contender to start, train all models and end, on the slowest link.
_LONGEST = 300.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class Found:
    """One training on one link."""

    link: str
    contender: str
    measurement: Measurement

    def line(self) -> str:
        return json.dumps(asdict(self))


def read(file: Path) -> list[Found]:
    """What earlier runs have kept."""
    if not file.exists():
        return []
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Found(**one | {"measurement": Measurement(**one["measurement"])}) for one in lines]


class Bench:
    """Some hosts, and trainings on them."""

    def __init__(self, network: Network, *, ranks: Sequence[int], words: Sequence[str], say: Say):
        """`ranks`: on each host; `words`: what every contender is told."""
        self._network, self._ranks, self._words, self._say = network, ranks, words, say
        self.failed: dict[str, str] = {}

    def run(
        self, links: Iterable[Link], contenders: Sequence[Contender], *, rounds: int
    ) -> Iterable[Found]:
        """All measurements, as they come."""
        for link in links:
            with shaped(self._network, link):
                for number in range(rounds):
                    # Every other round goes backwards: nobody always runs behind the same.
                    for contender in contenders if number % 2 == 0 else reversed(contenders):
                        self._say(f"{link.title}, round {number + 1}: {contender.name}")
                        yield from self._found(link, contender)

    def _found(self, link: Link, contender: Contender) -> Iterable[Found]:
        if contender.name in self.failed:
            return
        for measurement in self._measure(contender):
            rate = measurement.samples_per_second
            self._say(f"  {measurement.workload}: {rate:,.1f} samples/s")
            yield Found(link.name, contender.name, measurement)

    def _measure(self, contender: Contender) -> list[Measurement]:
        module, *arguments = contender.arguments
        steps = [] if contender.steps is None else ["--steps", str(contender.steps)]
        variables = {"OMP_NUM_THREADS": "1", **contender.environment}
        try:
            done = self._network.run(
                self._ranks,
                "-m",
                module,
                *arguments,
                *self._words,
                *steps,
                seconds=_LONGEST,
                **variables,
            )
        except subprocess.TimeoutExpired:
            self.failed[contender.name] = f"took longer than {_LONGEST:.0f} s"
            self._network.clear()
            return []
        if done.returncode:
            self.failed[contender.name] = f"ended with code {done.returncode}"
            self._say(f"  {self.failed[contender.name]}\n{done.stderr[-3000:]}")
        return parse(done.stdout.splitlines())
