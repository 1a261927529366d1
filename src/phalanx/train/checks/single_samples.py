"""BatchNorm cannot train on one sample, and a batch that is cut may leave parts of one."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from phalanx.data.batches import batch_count
from phalanx.data.own.paired import Paired
from phalanx.data.split import Split
from phalanx.errors import UsageError
from phalanx.models.in_parts import device_of
from phalanx.models.modes import have_train, kept_modes
from phalanx.strategies.building_blocks.preserve import preserved
from phalanx.train.samples import Source


def check_parts(
    model: nn.Module,
    split: Source,
    *,
    seen: int,
    batch_size: int,
    parts: int,
    dtype: torch.dtype,
) -> None:
    """Refuse batches that leave a part of one sample for a model that cannot train on one.

    An epoch has `seen` samples of the split.

    Found out before the first step: it may be the last batch of an epoch that is too small.
    """
    if parts == 1 or not any(isinstance(one, _BatchNorm) for one in model.modules()):
        return
    small = [size for size in _sizes(seen, batch_size) if size // parts <= 1]
    if small and not _trains_on_one(model, split, dtype):
        raise UsageError(
            f"a batch of {small[-1]} samples (of {seen:,}, {batch_size} at a time) is cut in "
            f"{parts} parts, of which some have one sample, and BatchNorm cannot train on one: "
            "take another batch size, fewer ranks, shards or passes, or leave the last batch out "
            f"(steps_per_epoch={seen // batch_size})"
        )


def _sizes(count: int, batch_size: int) -> Iterable[int]:
    """Of the batches of an epoch, the usual one and the last."""
    last = count - (batch_count(count, batch_size) - 1) * batch_size
    return sorted({min(batch_size, count), last}, reverse=True)


def _trains_on_one(model: nn.Module, split: Source, dtype: torch.dtype) -> bool:
    """A pass over one sample, which leaves no trace."""
    if isinstance(split, Paired):
        split = split.split
    if not isinstance(split, Split):  # who calls the model, and with what, is not known here
        return True
    sample = split.take(torch.tensor([0]), dtype=dtype).to(device_of(model))
    try:
        with kept_modes(model), preserved([model]), torch.no_grad():
            have_train(model)
            model(sample.inputs)
    except ValueError as error:
        return "more than 1 value per channel" not in str(error)
    except Exception:  # whatever else is the matter with it, training will tell
        return True
    return True
