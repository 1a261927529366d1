"""`local`: ranks train alone and average their weights every few steps.

Start reading at strategy.py.
"""
