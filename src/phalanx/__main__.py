"""`phalanx` and `python -m phalanx`: the command line, and the end of every failure."""

import os
import sys

import typer

from phalanx.cli.output.streams import finish_streams, prepare_streams
from phalanx.comm.launch.job import is_first_rank
from phalanx.comm.launch.process import collect_garbage_seldom
from phalanx.errors import PhalanxError

#: The root of the errors that parsing a command line raises; typer exports only its descendants.
_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command line; exits 0 done, 1 failed, 2 asked for what cannot be done, 3 no MPI."""
    collect_garbage_seldom()
    try:
        prepare_streams()
        from phalanx.cli.app import app

        code = app(standalone_mode=False)
    except typer.Abort as error:  # of a Ctrl-C
        _fail(error.__cause__ or KeyboardInterrupt())
    except _CommandLineError as error:
        if is_first_rank():  # all ranks parse the same line
            error.show()  # type: ignore[attr-defined]
        sys.exit(2)
    except SystemExit as error:
        if error.code or "_PHALANX_COMPLETE" in os.environ:  # a shell asks typer for completions
            raise
        _fail(error)  # a user's code has ended what is not done
    except (PhalanxError, KeyboardInterrupt, Exception) as error:
        _fail(error)
    lost = finish_streams()
    sys.exit(code if isinstance(code, int) and code else lost)


def _fail(error: BaseException) -> None:
    """Say what went wrong, once for the whole job, and end it."""
    from phalanx.comm.launch.failure import end_run

    sys.exit(end_run(error))


if __name__ == "__main__":
    main()
