"""Which faults there are, and when they strike: all of it follows from a seed."""

from dataclasses import dataclass
from random import Random

#: Steps of the training.
STEPS = 63
#: Phases of a step, and what may follow one. Each is entered again after every step.
_PHASES = (
    *("step", "load", "forward", "backward", "exchange", "update", "metrics"),
    *("checkpoint", "evaluate"),
)
#: So that the first few are of many kinds, and of all of them most are kills of ranks.
_ORDER = (
    *("kill", "kill", "mpiexec", "restart", "stop", "full disk", "signal", "kill"),
    *("launcher", "kill", "kill", "all", "kill", "kill", "stop and go on", "kill", "kill"),
    *("cut off", "kill", "kill"),
)
KINDS = {
    "kill": "kill -9 of a rank",
    "mpiexec": "kill -9 of mpiexec",
    "launcher": "kill -9 of the launcher",
    "all": "kill -9 of all at once",
    "restart": "kill -9, --on-failure restart",
    "stop": "SIGSTOP, --on-failure stop",
    "stop and go on": "SIGSTOP, --on-failure shrink",
    "full disk": "a full disk",
    "cut off": "a host that falls silent",
    "signal": "SIGTERM, once or twice",
}
_OTHERS = ("gather", "server", "pipeline", "tensor", "local", "allreduce", "central")


@dataclass(frozen=True)
class Strike:
    """What happens on a rank, and when."""

    rank: int
    action: str
    #: At the first entry of this phase, after so many more, once so many steps have begun.
    step: int
    phase: str
    skip: int
    #: Seconds.
    delay: float

    def __str__(self) -> str:
        if self.action == "cut off":
            return f"rank {self.rank}: its host is cut off after epoch {self.skip}"
        when = f"{self.phase} of step {self.step}+{self.skip}, {1000 * self.delay:.1f} ms later"
        return f"rank {self.rank}: {self.action} in {when}"


@dataclass(frozen=True)
class Fault:
    """One job that is disturbed."""

    seed: int
    number: int
    kind: str
    strategy: str
    ranks: int
    strikes: tuple[Strike, ...]
    #: Of the training that goes on with what is left.
    then_strategy: str
    then_ranks: int

    @property
    def name(self) -> str:
        """That of its row in the table."""
        if self.kind == "kill":
            number = "two ranks" if len(self.strikes) > 1 else "a rank"
            return f"kill -9 of {number}, {self.strategy}"
        return KINDS[self.kind]

    def __str__(self) -> str:
        struck = "; ".join(map(str, self.strikes))
        how = f"{self.strategy} on {self.ranks} ranks"
        return f"{self.number} (seed {self.seed}) {KINDS[self.kind]}, {how}: {struck}"


def draw(seed: int, number: int, kind: str | None = None) -> Fault:
    """The fault of a number, of a kind or of any."""
    kind = kind or _ORDER[number % len(_ORDER)]
    random = Random(f"{seed} {number} {kind}")
    strategy, ranks = ("allreduce", "central")[number % 2], random.choice((3, 4))
    if kind == "restart":
        strategy = _OTHERS[random.randrange(len(_OTHERS))]
    return Fault(
        seed,
        number,
        kind,
        strategy,
        ranks,
        tuple(_strikes(random, kind, strategy, ranks=ranks)),
        then_strategy=random.choice(("single", "allreduce", "central")),
        then_ranks=random.choice((2, 3)),
    )


def _strikes(random: Random, kind: str, strategy: str, *, ranks: int) -> list[Strike]:
    actions = {
        "kill": "kill",
        "restart": "kill",
        "mpiexec": "kill mpiexec",
        "launcher": "kill launcher",
        "all": "kill all",
        "stop": "stop",
        "stop and go on": "stop",
        "signal": random.choice(("ask", "ask twice")),
    }
    if kind == "cut off":  # in the second epoch or later, on a host that has the last rank alone
        return [Strike(ranks - 1, "cut off", 0, "", skip=random.randint(1, 8), delay=0.0)]
    if kind not in actions:
        return []
    # Where the job ends, two checkpoints have been begun, one of which is on the disk.
    first = {"all": 3, "mpiexec": 21, "launcher": 21, "signal": 21, "stop": 2}.get(kind, 0)
    count = 2 if kind == "kill" and random.random() < 0.2 else 1
    return [
        _strike(random, rank, actions[kind], strategy, first=first)
        for rank in random.sample(range(ranks), count)
    ]


def _strike(random: Random, rank: int, action: str, strategy: str, *, first: int) -> Strike:
    step, phase = random.randint(max(first, 1), STEPS), random.choice(_phases(action, strategy))
    skip = random.choice((0, 0, 0, 1, 2))
    if random.random() < 0.15:  # where much else happens
        step = random.choice((first, STEPS))
    if step == STEPS:
        phase, skip = random.choice(("checkpoint", "evaluate")), random.choice((0, 1))
    if step == 0:
        phase, skip = random.choice(("load", "prepare")), 0
    delay = random.choice((0.0, 0.01 * random.random()))
    return Strike(rank, action, step, phase, skip, delay)


def _phases(action: str, strategy: str) -> tuple[str, ...]:
    """What every rank enters again and again."""
    if strategy not in ("allreduce", "central"):
        return ("step", "metrics", "checkpoint", "evaluate")
    copies = ("copy",) if action == "kill" else ()  # where ranks may be lost
    return (*_PHASES, *copies, *(("wait",) if strategy == "central" else ()))
