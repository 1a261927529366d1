"""How many processes compute a training, and in how many threads each."""

from phalanx.comm.launch.process import TOO_MANY_THREADS
from phalanx.options import Option

RANKS = Option(
    "ranks",
    int,
    "Ranks to start",
    default_words="1, or those mpirun or srun started",
    at_least=1,
)
THREADS = Option(
    "threads",
    int,
    "Threads a rank",
    default_words="OMP_NUM_THREADS, or cores ÷ ranks, and one for small steps",
    at_least=1,
    below=TOO_MANY_THREADS,
)
