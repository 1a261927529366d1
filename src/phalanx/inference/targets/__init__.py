"""What the targets of every task say: as a model's answers, and of the samples themselves."""
