"""Where tables are printed."""

from rich.console import Console


def wide_console() -> Console:
    """The terminal, or a wide page: piped into a file there is no width to fit into."""
    console = Console()
    return console if console.is_terminal else Console(width=160)
