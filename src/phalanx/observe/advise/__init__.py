"""How many ranks pay off: a few steps are measured, a model of their cost is fitted to them, and
what it says about other numbers of ranks is put in sentences. docs/advise.md explains the model."""
