"""Where the time of a training goes: by phase and rank, and by layer."""
