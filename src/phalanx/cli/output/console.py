"""Where tables are printed."""

from rich.console import Console

from phalanx.comm.launch.job import on_terminal


def wide_console() -> Console:
    """The terminal, or a wide page: piped into a file there is no width to fit into."""
    if on_terminal():
        return Console(markup=False, emoji=False)
    return Console(width=160, force_terminal=False, markup=False, emoji=False)


def make_console() -> Console:
    """Where rank 0 writes."""
    # Names of classes and folders may have brackets, and mean nothing by them.
    return Console(force_terminal=on_terminal(), markup=False, emoji=False)
