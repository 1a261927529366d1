"""`horovod.common.elastic`."""

from phalanx.horovod.api.elastic import ObjectState, State

__all__ = ["ObjectState", "State"]
