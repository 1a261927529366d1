"""Training: the trainer, its settings, metrics, progress and run folders."""
