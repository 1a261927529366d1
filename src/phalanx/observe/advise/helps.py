"""What would make an epoch on so many ranks shorter, and by how much. Without torch."""

from dataclasses import dataclass, replace

from phalanx.observe.advise.costs import Costs

#: What is worth a word: an epoch that gets shorter by so much.
_WORTH = 0.03
_BATCHES = (2, 4, 8)
#: Steps between two averages of `local`, unless a user says otherwise.
_EVERY = 8


@dataclass(frozen=True)
class Help:
    """A change, the flags for it, and an epoch with it."""

    what: str
    flags: str
    seconds: float
    #: As a share of what the epoch took before.
    saves: float
    #: What else it changes.
    but: str = ""


def helps(costs: Costs, ranks: int) -> list[Help]:
    """What would help, most first."""
    before = costs.epoch(ranks)
    batch = costs.batch_of(ranks)
    found = []
    for factor in _BATCHES:
        if factor * batch > costs.samples:
            continue
        larger = costs.with_batch(costs.batch * factor)
        other = "the learning rate may have to grow with it, and fewer steps learn less"
        flags = f"--batch-size {factor * batch}"
        found.append(_help(f"a batch {factor} times as large", flags, larger, ranks, other))
        passes = replace(larger, passes=costs.passes * factor)
        flags += f" --accumulate {factor}"
        what = f"the same in {factor} passes, in the memory of now"
        found.append(_help(what, flags, passes, ranks, other))
    if ranks > 1:
        local = replace(costs, every=_EVERY)
        other = "ranks drift apart between averages: other weights than one rank's"
        flags = f"--strategy local --every {_EVERY}"
        found.append(_help("weights averaged now and then", flags, local, ranks, other))
    if ranks > costs.ranks_a_host:
        half = replace(costs, compressed=costs.compressed / 2)
        flags = "--strategy allreduce --compress bf16"
        found.append(_help("gradients in 16 bits", flags, half, ranks, "they are rounded"))
    shares = [replace(one, saves=1 - one.seconds / before) for one in found]
    return sorted(
        (one for one in shares if one.saves >= _WORTH), key=lambda one: one.saves, reverse=True
    )


def _help(what: str, flags: str, costs: Costs, ranks: int, but: str) -> Help:
    return Help(what, flags, costs.epoch(ranks), 0.0, but)
