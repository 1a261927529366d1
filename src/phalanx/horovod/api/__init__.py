"""Horovod's operations and functions, as its users call them."""
