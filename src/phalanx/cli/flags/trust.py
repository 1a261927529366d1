"""Code that a run's folder names: run only if the user names it, too, or trusts the folder."""

from typing import Annotated

import typer

TrustCode = Annotated[
    bool,
    typer.Option(
        "--trust-code",
        help="Run the code that the run's folder names as its model, objective and so on.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="The run's model, if it is code of your own: that is run if you name it here.",
        show_default=False,
    ),
]
Dataset = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="The run's data set, if it is code of your own: that is run if you name it here.",
        show_default=False,
    ),
]
