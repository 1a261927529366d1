"""What operations raise, under the names that Horovod gives it."""

from phalanx.errors import PhalanxError, UsageError

#: What an operation is told that comes too late.
SHUT_DOWN = "Horovod has been shut down; use hvd.init() to start again"


class HorovodInternalError(PhalanxError, RuntimeError):
    """An operation failed on all ranks that take part in it; elastic training starts again."""

    exit_code = 1


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818
    """Hosts have come or gone; elastic training goes on with what there is now."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("hosts have come or gone")
        self.skip_sync = skip_sync


class CallOrderError(UsageError, AssertionError):
    """Calls of an optimizer in an order that cannot work; Horovod asserts that they are not."""
