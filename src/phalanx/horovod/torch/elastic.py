"""`import phalanx.horovod.torch.elastic`, where Horovod has it."""

from phalanx.horovod.api.elastic import ElasticSampler, ObjectState, State, TorchState, run

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]
