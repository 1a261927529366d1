"""A run's model for a Python program: `phalanx.load(RUN)`. One process is enough, without MPI."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from phalanx.comm.launch.process import check_threads
from phalanx.comm.single import SingleCommunicator
from phalanx.data.targets.scale import scale_from
from phalanx.data.targets.tasks import CLASSIFICATION, MULTI_LABEL, REGRESSION
from phalanx.inference.data import pattern, screened
from phalanx.inference.finite import check_outputs
from phalanx.inference.model import trained_model
from phalanx.inference.python_samples import as_samples
from phalanx.inference.targets.answers import answer_kind
from phalanx.runs.folder import read_run_settings, unfinished_note, weights_of
from phalanx.runs.record import Record, read_record
from phalanx.runs.trust import trusted
from phalanx.settings.table import Settings
from phalanx.train.evaluation import predict
from phalanx.wording import argument

_log = logging.getLogger(__name__)
_OUTPUTS = {CLASSIFICATION: "classes", REGRESSION: "targets", MULTI_LABEL: "labels"}


@final
class TrainedModel:
    """A run's model, ready to be called on samples as a user has them.

    Samples are arrays or tensors [samples, …] as the training's files hold them; images of Pillow's
    or paths of image files; rows of a table as dicts, columns as a dict or a data frame; or the
    path of a file or folder that `phalanx predict --input` takes. One sample is taken as well.
    What is done to samples before the model sees them is what was done in the training.
    """

    def __init__(
        self, model: nn.Module, recorded: Record, *, settings: Settings, threads: int | None = 1
    ) -> None:
        #: The network itself, for inference; its own inputs are samples that are prepared already.
        self.model = model.eval()
        #: The names of the classes, in the order of the outputs; or of targets, or of labels.
        self.classes: tuple[str, ...] = recorded.classes or ()
        self._recorded, self._settings, self._threads = recorded, settings, threads
        self._like = pattern(recorded)
        scale = None if recorded.targets is None else scale_from(recorded.targets)
        self._kind = answer_kind(settings, self.classes, task=recorded.task, scale=scale)

    def __call__(self, samples: Any) -> Tensor:
        """The model's outputs, a row a sample."""
        dtype: torch.dtype = getattr(torch, self._settings.dtype)
        comm, recorded = SingleCommunicator(), self._recorded
        own = as_samples(samples, like=self._like, settings=self._settings, recorded=recorded)
        split = screened(own, recorded, comm, dtype).test
        with _computing_in(self._threads):
            outputs = predict(comm, self.model.eval(), split, dtype=dtype)
        assert outputs is not None  # as it is on all but the first rank
        check_outputs(self.model, outputs, weights=weights_of(recorded.run))
        return outputs

    def predict(self, samples: Any) -> list[Any]:
        """The answer for each sample: the name of its likeliest class.

        Of a regression it is a number in the unit of the targets, or a list of several; of labels a
        list of those that are likelier there than not.
        """
        return self._kind.answers(self(samples))

    def probabilities(self, samples: Any) -> Tensor:
        """The probability of each class or label, in the order of `classes`, a row a sample, in
        float64."""
        return self._kind.probabilities(self(samples))

    def __repr__(self) -> str:
        what = f"{len(self.classes)} {_OUTPUTS[self._recorded.task]}"
        return f"<{self._settings.model} of {self._recorded.run}: {what}>"


def load(
    run: str | Path,
    *,
    model: str | nn.Module | None = None,
    trust_code: bool = False,
    threads: int | None = 1,
    device: str | torch.device | None = None,
) -> TrainedModel:
    """The trained model of a run, with all that is done to samples before it sees them.

    Of a training that has not come to its end, the newest checkpoint is used. A model that is code
    of your own (`FILE.py:FUNCTION`) is run only if you name it as `model`, or if you trust the
    run's folder, which names it (`trust_code`); a module that you have made already gets the
    weights. With one thread, outputs are those of `phalanx predict --input` to the last bit; None
    takes as many as torch has. The device is a GPU if there is one, unless you name another.
    """
    run, made = Path(run), model if isinstance(model, nn.Module) else None
    settings = read_run_settings(run).changed(skip_bad=False)  # each sample has its row
    if made is None:
        name = {"model": cast(str | None, model)}
        settings = trusted(settings, run, named=name, trust=trust_code, spell=argument)
    recorded = read_record(run)
    network, _ = trained_model(recorded, settings, model=made)
    if (note := unfinished_note(run)) is not None:
        _log.warning("%s", note)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return TrainedModel(network.to(device), recorded, settings=settings, threads=threads)


@contextmanager
def _computing_in(threads: int | None) -> Iterator[None]:
    """While inside, torch computes in so many threads."""
    before = torch.get_num_threads()
    if threads is not None:
        check_threads(threads)
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
