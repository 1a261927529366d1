"""What can be found out about MPI without training: which one it is, and what it can do."""
