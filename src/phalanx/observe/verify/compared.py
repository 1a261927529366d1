"""Where two traces of one training part: what, in which step, and what that tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from phalanx.observe.verify.traces import ABOUT, NUMBERS, SAMPLES, STATE, WEIGHTS, Trace

_CAUSES = {
    SAMPLES: "the data set does not give the same samples again. It draws them by chance, or by "
    "the rank, the process or the time; seed and index alone may decide",
    NUMBERS: "the model draws random numbers more or less often, or Python's or NumPy's: take "
    "torch's, which are seeded for every part of a batch",
    WEIGHTS: "samples and random numbers are the same, and what is computed from them is not. "
    "Something depends on the rank, the process or the time, keeps what is in no state_dict(), "
    "or mixes samples of a batch",
    STATE: "weights are the same, and what the optimizer keeps about them is not: some of it is "
    "outside of its state",
}


@dataclass(frozen=True)
class Difference:
    """The first that is not the same."""

    about: str
    step: int
    #: The tensor, or nothing if it is about all of a step.
    name: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.name or self.about}"

    @property
    def cause(self) -> str:
        """What it can come from."""
        return _CAUSES.get(self.about, "")


def differences(wanted: Mapping[int, Trace], found: Mapping[int, Trace]) -> dict[str, Difference]:
    """By what it is about, the first step in which the one is not the other. There is none for what
    is the same in all steps that `found` has; it has to have some."""
    if not found:
        raise ValueError("a training without steps proves nothing")
    first: dict[str, Difference] = {}
    for step in sorted(found):
        before, now = wanted.get(step, {}), found[step]
        for name in sorted(before.keys() | now.keys()):
            about, _, rest = name.partition("/")
            if before.get(name) != now.get(name):
                first.setdefault(about, Difference(about, step, rest))
    return first


def root(found: Mapping[str, Difference]) -> Difference | None:
    """Of several differences the one that leads to the others: the earliest."""
    order: Sequence[str] = ABOUT
    return min(found.values(), key=lambda one: (one.step, order.index(one.about)), default=None)
