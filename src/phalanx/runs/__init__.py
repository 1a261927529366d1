"""A run's folder: its settings, history, weights and result."""
