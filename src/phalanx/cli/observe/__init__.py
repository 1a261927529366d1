"""Commands to see and decide by: reports, plots, sweeps, advice."""
