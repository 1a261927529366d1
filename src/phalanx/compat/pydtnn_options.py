"""PyDTNN's command line: its options by name, and the values that a user gave them.

Names may have hyphens for underscores. A value follows as `--name=value` or as the next word; a
switch may stand alone. Nothing here imports torch.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from phalanx.errors import UsageError
from phalanx.wording import unknown

Value: TypeAlias = str | int | float | bool

#: Options that have a meaning here, and how their values are read.
OPTIONS: Mapping[str, type[str] | type[int] | type[float] | type[bool]] = {
    "model": str,
    "dataset": str,
    "dataset_train_path": str,
    "dataset_test_path": str,
    "test_as_validation": bool,
    "batch_size": int,
    "global_batch_size": int,
    "validation_split": float,
    "steps_per_epoch": int,
    "num_epochs": int,
    "evaluate": bool,
    "evaluate_only": bool,
    "weights_and_bias_filename": str,
    "random_seed": int,
    "use_synthetic_data": bool,
    "history_file": str,
    "crop_images": bool,
    "normalize": bool,
    "augment_flip": bool,
    "learning_rate_scaling": bool,
    "warm_up_batches": int,
    "optimizer": str,
    "learning_rate": float,
    "decay": float,
    "decay_rate": float,
    "rho": float,
    "beta1": float,
    "beta2": float,
    "epsilon": float,
    "momentum": float,
    "nesterov": bool,
    "loss_func": str,
    "metrics": str,
    "flip_images": bool,
    "flip_images_prob": float,
    "crop_images_size": int,
    "crop_images_prob": float,
    "lr_schedulers": str,
    "warm_up_epochs": int,
    "early_stopping_metric": str,
    "early_stopping_patience": int,
    "model_checkpoint_metric": str,
    "model_checkpoint_save_freq": int,
    "stop_at_loss_metric": str,
    "stop_at_loss_threshold": float,
    "reduce_lr_on_plateau_metric": str,
    "reduce_lr_on_plateau_min_lr": float,
    "reduce_lr_on_plateau_factor": float,
    "reduce_lr_on_plateau_patience": int,
    "reduce_lr_every_nepochs_min_lr": float,
    "reduce_lr_every_nepochs_factor": float,
    "reduce_lr_every_nepochs_nepochs": int,
    "parallel": str,
    "blocking_mpi": bool,
    "non_blocking_mpi": bool,
    "tracing": bool,
    "profile": bool,
    "enable_gpu": bool,
    "dtype": str,
}

#: What the newest version calls some of them.
_SPELLINGS: Mapping[str, str] = {
    **{
        f"optimizer_{name}": name
        for name in ("momentum", "decay", "nesterov", "beta1", "beta2", "epsilon", "rho")
    },
    "schedulers": "lr_schedulers",
    "dataset_path": "dataset_train_path",
    "use_blocking_mpi": "blocking_mpi",
}

#: Options that change nothing here: how PyDTNN computes.
_UNUSED = (
    *("enable_best_of", "enable_memory_cache", "enable_conv_i2c", "enable_conv_gemm"),
    *("enable_conv_winograd", "enable_conv_direct", "enable_fused_bn_relu"),
    *("enable_fused_conv_relu", "enable_fused_conv_bn", "enable_fused_conv_bn_relu"),
    *("enable_gpudirect", "enable_nccl", "enable_cudnn_auto_conv_alg", "enable_cudnn"),
    *("shared_storage", "mpi_processes", "threads_per_process", "gpus_per_node"),
    *("cpu_speed", "memory_bw", "network_bw", "network_lat", "network_alg", "tensor_format"),
    *("conv_direct_method", "conv_direct_methods_for_best_of", "tracer_output"),
    *("tracer_pmlib_server", "tracer_pmlib_port", "tracer_pmlib_device"),
)

#: Options that ask for something else than they can get here, and the way out.
REFUSED: Mapping[str, str] = {
    "augment_crop": "use `phalanx train --crop N`, which moves images by up to N pixels",
}

#: What says no as a switch, and none as a number.
_SWITCH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_DESCRIBED = {str: "a word", int: "a whole number", float: "a number", bool: "True or False"}


def parse(words: Sequence[str]) -> tuple[dict[str, Value], list[str]]:
    """The values that were given, and the options that change nothing here."""
    given: dict[str, Value] = {}
    ignored: list[str] = []
    at = 0
    while at < len(words):
        name, value = _name(words[at])
        at += 1
        follows = words[at] if at < len(words) and not words[at].startswith("--") else None
        is_switch = OPTIONS.get(name) is bool or name in REFUSED
        if value is None and follows is not None and (not is_switch or follows.lower() in _SWITCH):
            value = follows
            at += 1
        if name in _UNUSED:
            ignored.append(name)
        elif name in REFUSED:
            _refuse(name, value)
            given[name] = False
        else:
            given[name] = _value(name, value)
    return given, ignored


def _name(word: str) -> tuple[str, str | None]:
    """An option without its hyphens, and the value behind its equals sign."""
    if not word.startswith("--"):
        raise UsageError(f"'{word}' is no option of PyDTNN: those begin with --")
    flag, equals, value = word[2:].partition("=")
    name = flag.replace("-", "_")
    name = _SPELLINGS.get(name, name)
    if name not in (*OPTIONS, *REFUSED, *_UNUSED):
        raise unknown("option of PyDTNN", name, known=(*OPTIONS, *REFUSED))
    return name, value if equals else None


def _refuse(name: str, value: str | None) -> None:
    if value is None or _SWITCH.get(value.lower().removesuffix(".0"), True):
        raise UsageError(f"--{name} has no equivalent here: {REFUSED[name]}")


def _value(name: str, text: str | None) -> Value:
    kind = OPTIONS[name]
    if kind is bool and text is None:
        return True
    if text is None:
        raise UsageError(f"--{name} needs {_DESCRIBED[kind]} behind it")
    try:
        found: Value = _SWITCH[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        found = math.nan
    if isinstance(found, float) and not math.isfinite(found):
        raise UsageError(f"--{name} takes {_DESCRIBED[kind]}, not '{text}'")
    return found
