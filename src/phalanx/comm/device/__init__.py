"""Tensors on GPUs: through NCCL, or staged through host memory."""
