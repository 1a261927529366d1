"""The algorithms of MPI_Allreduce by name, and the numbers that Open MPI gives them.

Nothing here imports torch or MPI: names are checked before any rank starts.
"""

from phalanx.errors import UsageError
from phalanx.wording import unknown

#: What leaves the choice to MPI.
AUTO = "auto"
#: Those of the blocking operation, by their numbers in the component `tuned`.
TUNED = {
    "linear": 1,
    "nonoverlapping": 2,
    "recursive-doubling": 3,
    "ring": 4,
    "segmented-ring": 5,
    "rabenseifner": 6,
}
#: Those of the non-blocking one, by their numbers in `libnbc`.
LIBNBC = {"ring": 1, "rabenseifner": 3, "recursive-doubling": 4}
ALGORITHMS = (AUTO, *TUNED)


def check(name: str, *, started: bool = False) -> None:
    """Raise UsageError unless there is such an algorithm; `started`: for the non-blocking verb."""
    if name not in ALGORITHMS:
        raise unknown("algorithm", name, known=ALGORITHMS)
    if started and name not in (AUTO, *LIBNBC):
        raise UsageError(
            f"algorithm '{name}' does not work with overlap: Open MPI's non-blocking allreduce "
            f"has {', '.join(LIBNBC)}"
        )
