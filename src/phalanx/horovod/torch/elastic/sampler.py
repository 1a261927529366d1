"""`horovod.torch.elastic.sampler`."""

from phalanx.horovod.api.sampler import ElasticSampler

__all__ = ["ElasticSampler"]
