"""What there is to learn: the task that targets are of, found from them, and their scale."""
