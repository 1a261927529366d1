"""`horovod.torch.elastic`."""

from phalanx.horovod.api.elastic import ObjectState, State, run
from phalanx.horovod.torch.elastic.sampler import ElasticSampler
from phalanx.horovod.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
