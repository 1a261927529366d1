"""The ways to train in parallel: one table (registry.py), one file each."""
