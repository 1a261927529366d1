"""The options that strategies take, and those of a training under any of them. Without torch."""

from collections.abc import Sequence

from phalanx.comm.algorithm_names import ALGORITHMS, AUTO
from phalanx.errors import UsageError
from phalanx.options import Option


def check_order(cut: Sequence[int], spelled: str = "cut") -> None:
    """Refuse a cut that cannot be one, whatever the model."""
    if list(cut) != sorted(set(cut)) or any(start < 1 for start in cut):
        raise UsageError(
            f"{spelled} {','.join(map(str, cut))}: give the layers that the second and later "
            "stages begin with, each above the one before, the first above 0"
        )


ALGORITHM = Option(
    "algorithm",
    str,
    "how MPI adds up gradients; Open MPI alone has a switch for it",
    default=AUTO,
    choices=ALGORITHMS,
)
OVERLAP = Option(
    "overlap", bool, "exchange gradients while the backward pass goes on.", default=False
)
COMPRESS = Option(
    "compress",
    str,
    "exchange gradients in 16 bits",
    default_words="as they are",
    choices=("fp16", "bf16"),
)
EXCHANGE = Option(
    "exchange",
    str,
    "what workers send, gradients or the weight changes that their own optimizers make",
    default="gradients",
    choices=("gradients", "changes"),
)
MAX_STALENESS = Option(
    "max_staleness",
    int,
    "how many batches a worker may run ahead of the slowest; 0 is in step",
    default=4,
    at_least=0,
)
STALENESS_AWARE = Option(
    "staleness_aware",
    bool,
    "the staler a gradient, the smaller its learning rate.",
    default=False,
)
EVERY = Option("every", int, "average the weights every N steps", default=8, at_least=1)
OUTER_MOMENTUM = Option(
    "outer_momentum",
    float,
    "momentum of the averaged weights' changes",
    default=0.0,
    default_words="0",
    at_least=0,
    below=1,
)
CUT = Option(
    "cut",
    tuple[int, ...],
    "the layers that stages begin with, such as 3,7",
    default_words="by measured times",
    rule=check_order,
)
MICRO_BATCHES = Option(
    "micro_batches",
    int,
    "parts of a batch in flight",
    default_words="--shards, or twice the stages",
    at_least=1,
)
REPLICAS = Option(
    "replicas", int, "copies of the model, trained in data parallelism", default=1, at_least=1
)

SHARDS = Option(
    "shards",
    int,
    "Cut each batch into N parts, whatever the ranks: bit for bit the same weights on 1 to N ranks "
    "(and one thread a rank unless told otherwise)",
    default_words="a part a rank",
    at_least=1,
)
CLIP_NORM = Option(
    "clip_norm",
    float,
    "Clip gradients to this global norm",
    default_words="no clipping",
    above=0,
)
ACCUMULATE = Option(
    "accumulate",
    int,
    "Compute each rank's share of a batch in N passes, to save memory.",
    default=1,
    at_least=1,
)
#: What a training says about its batches, whatever its strategy.
OF_TASKS = (SHARDS, CLIP_NORM, ACCUMULATE)
