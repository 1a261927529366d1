"""Where tables and progress are printed."""

import os
import sys

from rich.console import Console

from phalanx.comm.launch.way_back import launchers_terminal


def wide_console() -> Console:
    """The terminal, or a wide page: piped into a file there is no width to fit into."""
    console = make_console()
    return console if console.is_terminal else _console(width=160, force_terminal=False)


def make_console(*, quiet: bool = False) -> Console:
    """Where rank 0 writes, or a console that shows nothing.

    Under mpiexec every rank's standard output claims to be a terminal (it is a pseudo-terminal of
    mpiexec's, which holds back what has no end of line): there, only the launcher's counts.
    """
    if quiet:
        return _console(quiet=True, force_terminal=False)
    terminal = launchers_terminal()
    if terminal is not None:
        return _console(file=terminal, force_terminal=True)
    of_mpiexec = "OMPI_COMM_WORLD_RANK" in os.environ
    return _console(force_terminal=sys.stdout.isatty() and not of_mpiexec)


def _console(**how: object) -> Console:
    # Names of classes and folders may have brackets, and mean nothing by them.
    return Console(markup=False, emoji=False, **how)  # type: ignore[arg-type]
