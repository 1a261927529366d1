"""One GPU for each rank of a host."""

from phalanx.comm.device.gpus import own_number
from phalanx.horovod.api.basics import local_rank
from phalanx.keras.presence import backend


def pin_device() -> str | None:
    """Give this rank the GPU of its local rank; its name, or None on a machine without any.

    Call it after `init` and before anything is computed. TensorFlow then takes memory as it needs
    it, instead of all there is.
    """
    pin = {"torch": _pin_torch, "jax": _pin_jax, "tensorflow": _pin_tensorflow}[backend()]
    return pin()


def _pin_torch() -> str | None:
    import torch

    if not torch.cuda.is_available():
        return None
    number = _own(torch.cuda.device_count())
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def _pin_tensorflow() -> str | None:
    import tensorflow as tf

    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return None
    own = devices[_own(len(devices))]
    tf.config.set_visible_devices(own, "GPU")
    tf.config.experimental.set_memory_growth(own, True)
    return str(own.name)


def _pin_jax() -> str | None:
    import jax

    # JAX must not be asked for its devices: the answer would take hold of all of them.
    import torch

    if not torch.cuda.is_available():
        return None
    number = _own(torch.cuda.device_count())
    jax.config.update("jax_cuda_visible_devices", str(number))
    return f"cuda:{number}"


def _own(count: int) -> int:
    return own_number(local_rank(), count, share=False)
