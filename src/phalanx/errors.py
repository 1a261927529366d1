"""Everything Phalanx raises on purpose.

    PhalanxError
    ├── UsageError      a setting, an option or a call that cannot work (also a ValueError)
    ├── DataError       a data file that is missing, damaged or not what it should be
    ├── LaunchError     MPI cannot be started, or was started in a way that cannot work
    ├── MismatchError   ranks called a collective operation with different arguments
    ├── RunError        a run folder that is missing, damaged or from another model
    ├── CheckpointError a checkpoint that is missing, damaged or of another version
    ├── RankFailedError what `launch` had ranks do has failed on one of them
    ├── RankLostError   ranks of the job are gone, and what they took part in with them
    ├── LoadingError    a worker that reads samples is gone
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


class CheckpointError(PhalanxError):
    """A checkpoint that is missing, damaged or of another version."""


class RankLostError(PhalanxError):
    """Ranks of the job are gone, and what they took part in with them."""

    exit_code = 1


class RankFailedError(PhalanxError):
    """What `launch` had ranks do has failed: on `rank`, or as a whole if that is None.

    `traceback` is the text of that rank's; what it raised is the cause, if it could be sent.
    """

    exit_code = 1

    def __init__(self, message: str, *, rank: int | None = None, traceback: str = "") -> None:
        super().__init__(message)
        self.rank, self.traceback = rank, traceback


class LoadingError(PhalanxError):
    """A worker that reads samples is gone."""

    exit_code = 1


class DivergedError(PhalanxError):
    """A training whose loss is no longer a number."""

    exit_code = 1
