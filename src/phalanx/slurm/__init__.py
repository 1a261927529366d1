"""Slurm jobs: their scripts, what Slurm says of them, and what they print. No torch."""
