"""What exchanges of the same gradients are called, on every rank alike.

By what they are, not by their number: a rank may have optimizers that others have not. The engine
numbers those of one name when they are first used.
"""

from collections.abc import Iterable
from hashlib import blake2s


def family_of(names: Iterable[str]) -> str:
    """The name for exchanges of what these names stand for, in whatever order a rank has them."""
    digest = blake2s("\n".join(sorted(names)).encode(), digest_size=4).hexdigest()
    return f"DistributedOptimizer.{digest}"
