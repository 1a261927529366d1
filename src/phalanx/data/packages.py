"""Packages that only some data sets need."""

from importlib.util import find_spec

from phalanx.errors import DataError


def need(package: str, *, for_what: str, called: str) -> None:
    """Raise a DataError unless a package of the extra `data` is installed."""
    if find_spec(package) is None:
        raise DataError(
            f"{for_what} are read with {called}, which is not installed: "
            "pip install 'phalanx[data]'"
        )
