"""`pipeline`: consecutive layers on different ranks, micro-batches in flight between them.

Start reading at strategy.py.
"""
