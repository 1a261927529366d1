"""`horovod.torch.sync_batch_norm`."""

from phalanx.horovod.api.sync_batch_norm import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
