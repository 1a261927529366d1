"""Forward and backward over one rank's samples: the part that every strategy shares."""

from phalanx.data.split import Samples
from phalanx.strategies.base import Outcome, Task


def accumulate_gradients(task: Task, samples: Samples, *, batch_size: int) -> Outcome:
    """Add to every `.grad` what these samples contribute to the loss of the global batch.

    No sample, no contribution: the model is then not called at all.
    """
    count = len(samples.targets)
    if count == 0:
        return Outcome(loss=0.0, samples=samples, outputs=None)
    outputs = task.model(samples.inputs)
    loss = task.loss.function(outputs, samples.targets)
    share = task.loss.share(count, batch_size)
    (loss if share == 1.0 else loss * share).backward()  # type: ignore[no-untyped-call]
    return Outcome(
        loss=task.loss.total(loss.item(), count), samples=samples, outputs=outputs.detach()
    )
