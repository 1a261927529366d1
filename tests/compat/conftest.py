"""The command line, as the tests of `cli` run it."""

from tests.cli.conftest import phalanx

__all__ = ["phalanx"]
