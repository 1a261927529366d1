"""Where tables are printed."""

from rich.console import Console

from phalanx.comm.job import on_terminal


def wide_console() -> Console:
    """The terminal, or a wide page: piped into a file there is no width to fit into."""
    if on_terminal():
        return Console(markup=False, emoji=False)
    return Console(width=160, force_terminal=False, markup=False, emoji=False)
