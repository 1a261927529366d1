"""`horovod.torch.elastic.state`."""

from phalanx.horovod.api.elastic import ObjectState, TorchState

__all__ = ["ObjectState", "TorchState"]
