"""What does not go together about how gradients are added up. Without torch, as all rules."""

from typing import TYPE_CHECKING

from phalanx.comm import algorithm_names
from phalanx.errors import UsageError
from phalanx.wording import Spelling, argument

if TYPE_CHECKING:
    from phalanx.strategies.rules import Choices

#: How gradients are added up, which fixed shards do in one way alone.
_EXCHANGE_OPTIONS = ("algorithm", "overlap", "compress", "lossy")


def check_exchange(chosen: "Choices") -> None:
    """Raise UsageError for what does not go together, whatever the strategy."""
    options, spell = chosen.options, chosen.spell
    _check_choice(chosen)
    algorithm = options.get("algorithm") or algorithm_names.AUTO
    algorithm_names.check(algorithm, started=bool(options.get("overlap")))
    lossy = [name for name in ("compress", "lossy") if options.get(name)]
    if lossy and algorithm != algorithm_names.AUTO:
        raise UsageError(
            f"{spell('algorithm')} {algorithm} is for MPI's own sums, and gradients under "
            f"{spell(lossy[0])} are not added up by MPI: give one of the two"
        )
    ranked = options.get("compress") == "low-rank" or options.get("lossy")
    if options.get("compress_rank") is not None and not ranked:
        raise UsageError(
            f"{spell('compress_rank')} is of matrices of low rank, and nothing is sent as such: "
            f"leave it out, or give {spell('compress')} low-rank"
        )
    if options.get("overlap") and chosen.compile:
        raise UsageError(
            "a compiled backward pass brings all gradients at once, which leaves nothing to "
            f"overlap: leave out {spell('compile')}, or {spell('overlap')}"
        )
    _check_shards(chosen)


def _check_choice(chosen: "Choices") -> None:
    """Refuse to have something chosen that has been named."""
    options, spell = chosen.options, chosen.spell
    named, lossy = options.get("compress"), options.get("lossy")
    if named is not None and lossy:
        raise UsageError(
            f"{spell('lossy')} lets a training choose what gradients travel as, and "
            f"{spell('compress')} {named} has chosen: give one of the two"
        )
    if options.get("exchange") != algorithm_names.AUTO:
        return
    fixed = ["compress"] if named is not None else []
    if options.get("overlap") is not None and not lossy:
        fixed.append("overlap")
    if fixed:
        raise UsageError(
            f"{' and '.join(map(spell, fixed))} leave{'s' * (len(fixed) == 1)} nothing for "
            f"{spell('exchange')} {algorithm_names.AUTO} to choose: leave it out"
        )


def _check_shards(chosen: "Choices") -> None:
    if chosen.shards is None:
        return
    spell = chosen.spell
    if chosen.options.get("lossy"):
        raise UsageError(
            f"{spell('lossy')} allows gradients to be rounded, and fixed shards promise the bits "
            f"of one rank, so that nothing lossy is used: leave out {spell('lossy')}, or "
            f"{shards_in_words(spell)}"
        )
    if used := exchange_options(chosen):
        raise UsageError(
            f"fixed shards are added up in an order of their own, which leaves nothing to "
            f"{', '.join(map(spell, used))}: leave out those, or {shards_in_words(spell)}"
        )


def exchange_options(chosen: "Choices") -> list[str]:
    """Those that ask for another way to add up gradients than the usual one."""
    given = chosen.options
    usual = {"algorithm": (None, algorithm_names.AUTO)}
    return [
        name for name in _EXCHANGE_OPTIONS if given.get(name) not in usual.get(name, (None, False))
    ]


def shards_in_words(spell: Spelling) -> str:
    """Shards are a thing as well as an argument."""
    return "the shards" if spell is argument else spell("shards")
