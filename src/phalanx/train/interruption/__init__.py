"""A training that is asked to stop, by whom and when: all its ranks, after the same step."""
