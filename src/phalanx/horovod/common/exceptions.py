"""`horovod.common.exceptions`."""

from phalanx.horovod.engine.exceptions import HorovodInternalError, HostsUpdatedInterrupt


class HorovodVersionMismatchError(ImportError):
    """A framework other than the one that Horovod was built for. Nothing is built here, so that
    this is never raised; clients name it in `except`."""


__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt"]
