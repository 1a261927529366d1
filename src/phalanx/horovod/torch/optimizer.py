"""`horovod.torch.optimizer`.

Clients import the private names to annotate, or to ask what an optimizer is; one class here does
for both. To derive from it is not supported: what it does inside is another thing than Horovod's.
"""

from phalanx.horovod.optimizer.optimizer import DistributedMethods, DistributedOptimizer

_DistributedOptimizer = DistributedMethods
_DistributedAdasumOptimizer = DistributedMethods

__all__ = ["DistributedOptimizer", "_DistributedAdasumOptimizer", "_DistributedOptimizer"]
