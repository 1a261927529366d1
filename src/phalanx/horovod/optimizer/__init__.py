"""DistributedOptimizer: how gradients of backward passes are averaged.

Start reading at optimizer.py.
"""
