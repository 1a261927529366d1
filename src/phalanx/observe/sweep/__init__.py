"""Many trainings that differ in a few settings: all combinations, one after the other. No torch."""
