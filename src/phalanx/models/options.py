"""The options that built-in models take, declared and checked without torch."""

from phalanx.models import initial
from phalanx.options import Option

ACTIVATIONS = ("relu", "tanh", "sigmoid")
OUTPUT_ACTIVATIONS = ("none", "sigmoid", "tanh")

HIDDEN = Option(
    "hidden",
    tuple[int, ...],
    "sizes of the hidden layers, such as 128,64",
    default=(128,),
    at_least=1,
)
ACTIVATION = Option(
    "activation", str, "what follows each hidden layer", default="relu", choices=ACTIVATIONS
)
OUTPUT_ACTIVATION = Option(
    "output_activation",
    str,
    "what follows the last layer",
    default="none",
    choices=OUTPUT_ACTIVATIONS,
)
STANDARDISE = Option(
    "standardise",
    bool,
    "every linear layer but the first reads activations of mean 0 and standard deviation 1 over "
    "each sample's features.",
    default=False,
)
BLOCKS = Option("blocks", int, "blocks of attention, one behind the other", default=2, at_least=1)
ATTENTION_HEADS = Option(
    "attention_heads", int, "heads of attention in each block", default=4, at_least=1
)
EMBEDDING_SIZE = Option(
    "embedding_size",
    int,
    "numbers that stand for a token, as many for each head",
    default=64,
    at_least=1,
)
DROPOUT_RATE = Option(
    "dropout_rate",
    float,
    "share of the activations that are dropped at random in training",
    default=0.0,
    at_least=0,
    below=1,
)
#: The option that every model takes, a user's own as well.
INIT = Option(
    "init",
    str,
    f"Initial weights of linear and convolution layers: {initial.FORMS}. Biases are zero, but "
    "under uniform drawn as well",
    default=initial.OWN,
    rule=initial.check,
)
#: Everything that some model takes.
OPTIONS = (
    *(HIDDEN, ACTIVATION, OUTPUT_ACTIVATION, STANDARDISE),
    *(BLOCKS, ATTENTION_HEADS, EMBEDDING_SIZE, DROPOUT_RATE, INIT),
)
