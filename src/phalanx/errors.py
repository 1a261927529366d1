"""Everything Phalanx raises on purpose.

    PhalanxError
    ├── UsageError      a setting, an option or a call that cannot work (also a ValueError)
    ├── DataError       a data file that is missing, damaged or not what it should be
    ├── LaunchError     MPI cannot be started, or was started in a way that cannot work
    ├── MismatchError   ranks called a collective operation with different arguments
    ├── RunError        a run folder that is missing, damaged or from another model
    └── DivergedError   a training whose loss is no longer a number

Each message names what came and what is accepted, and where it helps, the fix.
"""


class PhalanxError(Exception):
    """The root of all errors that Phalanx raises; its message is meant for a person."""

    #: What a command exits with: 2 stands for "asked for something that cannot be done".
    exit_code = 2


class UsageError(PhalanxError, ValueError):
    """A setting, an option or a call that cannot work."""


class DataError(PhalanxError):
    """A data file that is missing, damaged or not what it should be."""


class LaunchError(PhalanxError):
    """MPI cannot be started, or was started in a way that cannot work."""

    exit_code = 3


class MismatchError(PhalanxError):
    """Ranks called a collective operation with different arguments."""

    exit_code = 1


class RunError(PhalanxError):
    """A run folder that is missing, damaged or from another model."""


class DivergedError(PhalanxError):
    """A training whose loss is no longer a number."""

    exit_code = 1
