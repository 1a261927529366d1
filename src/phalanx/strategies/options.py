"""The options that strategies take, and those of a training under any of them. Without torch."""

from collections.abc import Sequence

from phalanx.comm.algorithm_names import ALGORITHMS, AUTO
from phalanx.errors import UsageError
from phalanx.options import Option
from phalanx.strategies.local.rules import HOST, RANK


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
    "overlap",
    bool | None,
    "exchange gradients while the backward pass goes on.",
    default_words="between hosts, if the first steps are faster so",
)
COMPRESS = Option(
    "compress",
    str,
    "exchange fewer bytes than gradients have, which rounds them: in 16 bits, 8 or 4, or as "
    "matrices of low rank (PowerSGD)",
    default_words="as they are",
    choices=("bf16", "fp16", "int8", "int4", "low-rank"),
)
COMPRESS_RANK = Option(
    "compress_rank",
    int,
    "the rank of the matrices under --compress low-rank",
    default_words="2",
    at_least=1,
)
#: Of `server`, where it is what travels; elsewhere it is who says how.
EXCHANGE = Option(
    "exchange",
    str,
    "what workers send, gradients or the weight changes that their own optimizers make",
    default="gradients",
    choices=("gradients", "changes"),
)
AUTO_EXCHANGE = Option(
    "exchange",
    str,
    "auto, the default between hosts, measures the first steps and the link, chooses how gradients "
    "travel, and tells why; what it chooses is exact unless --lossy allows more",
    choices=(AUTO,),
)
LOSSY = Option(
    "lossy",
    bool,
    "let --exchange auto round gradients (as --compress does) where the link is the limit: of "
    "what is fast, it takes what loses least.",
    default=False,
)
#: Those of strategies that add up gradients, about how these travel.
GRADIENTS = (AUTO_EXCHANGE, LOSSY, OVERLAP, COMPRESS, COMPRESS_RANK)
BY_LAYER = Option(
    "by_layer",
    bool,
    "gather the gradient of each layer by itself, in a phase of its own, and not all at once.",
    default=False,
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
OUTER_RATE = Option(
    "outer_rate",
    float,
    "how far to go towards the averaged weights, as a learning rate of their change; DiLoCo: 0.7",
    default=1.0,
    default_words="1",
    above=0,
)
OUTER_MOMENTUM = Option(
    "outer_momentum",
    float,
    "momentum of the averaged weights' changes; DiLoCo: 0.9",
    default=0.0,
    default_words="0",
    at_least=0,
    below=1,
)
OUTER_NESTEROV = Option(
    "outer_nesterov",
    bool,
    "Nesterov's form of that momentum, as DiLoCo has it.",
    default=False,
)
PIECES = Option(
    "pieces",
    int,
    "exchange the weights in N pieces, one after the other, each while training goes on",
    default=1,
    default_words="all at once, waiting",
    at_least=1,
)
ALONE = Option(
    "alone",
    str,
    "who trains alone between two averages: a rank, or all ranks of a host together",
    default=RANK,
    choices=(RANK, HOST),
)
#: Those of `local`.
LOCAL = (
    EVERY,
    OUTER_RATE,
    OUTER_MOMENTUM,
    OUTER_NESTEROV,
    COMPRESS,
    COMPRESS_RANK,
    PIECES,
    ALONE,
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
