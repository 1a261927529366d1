"""How gradients meet: flat storage, buckets, and sums over ranks through MPI, shared memory or in
16 bits. Below both the strategies and the Horovod interface.
"""
