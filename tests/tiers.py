"""Which tests run when: those of `make test` guard a landing, other commands add to them."""

import os

import pytest

LONG = os.environ.get("PHALANX_TEST_LONG") == "1"
SYSTEM = os.environ.get("PHALANX_TEST_SYSTEM") == "1"


def many(here: int, *, long: int) -> int:
    """How often to try something; more often in `make test-long`, if the test has the mark."""
    return long if LONG else here


#: For tests of which a part runs in `make test`, and more in `make test-long`.
more_when_long = pytest.mark.long(also=True)


def reason_to_skip(item: pytest.Item) -> str | None:
    """Why a test does not run in this tier."""
    long, system = item.get_closest_marker("long"), item.get_closest_marker("system")
    if system is not None and not SYSTEM:
        return f"needs Debian's {', '.join(system.args)}: `make test-system` runs it"
    if long is not None and not long.kwargs and not LONG:
        return "takes minutes: `make test-long` runs it"
    return None
