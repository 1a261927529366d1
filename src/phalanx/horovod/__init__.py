"""Horovod's interface over Phalanx: change `import horovod.torch as hvd` to
`import phalanx.horovod.torch as hvd`, and go on.

Where to look first: `torch/` has the public names, `engine.py` says how operations of the same
name find each other, `exchange.py` how a DistributedOptimizer averages without asking.
"""
