"""What `model.compile` of Keras 2 took, and Horovod's own example gives."""

from functools import cache, wraps
from typing import Any

from phalanx.keras.distribution import distribution_of
from phalanx.keras.presence import keras

#: False had TensorFlow 2.0 leave the gradients to the optimizer, which Keras 3 always does.
_OLD_OPTION = "experimental_run_tf_function"


@cache
def take_compile_option() -> None:
    """Have `compile` take the old option along with a distributed optimizer, which needs it no
    more; with any other one Keras refuses it as before."""
    cls: Any = next(one for one in keras.Model.__mro__ if "compile" in vars(one))
    plain = cls.compile

    @wraps(plain)
    def compile_model(self: Any, *arguments: Any, **options: Any) -> Any:
        optimizer = arguments[0] if arguments else options.get("optimizer")
        inner = getattr(optimizer, "inner_optimizer", None)
        if distribution_of(optimizer) or distribution_of(inner):
            options.pop(_OLD_OPTION, None)
        return plain(self, *arguments, **options)

    cls.compile = compile_model
