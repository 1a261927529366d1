"""Horovod's interface over Phalanx: `import phalanx.horovod.torch as hvd`, or, in the ranks of
`phalanx run --horovod`, `import horovod.torch as hvd` as it stands.

Where to look first: `torch/` has the public names, where Horovod has them; `engine/engine.py` says
how operations of the same name find each other, `optimizer/gradient_exchange.py` how a
DistributedOptimizer averages without asking; `names.py` has modules go by the name of horovod.
"""

from phalanx.horovod.runner import run

#: The Horovod whose interface this is; clients compare it.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]
