"""`async`: a server that applies gradients as they come.

Start reading at strategy.py.
"""
