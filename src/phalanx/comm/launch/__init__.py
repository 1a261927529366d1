"""How a job starts and ends: mpiexec, its ranks' place in a job, child processes, failures."""
