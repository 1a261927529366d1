"""A call as mpi4py's operations. Start reading at translation.py."""
