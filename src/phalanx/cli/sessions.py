"""What a rank of `phalanx train` works with: made and checked once, on whatever ranks are left."""

import logging
from contextlib import AbstractContextManager, ExitStack
from typing import final

from phalanx.comm import world
from phalanx.comm.watch import Watch, end_job, kill_rank
from phalanx.data.batches import batch_count
from phalanx.data.tables.class_count import check_learnable, class_warnings, label_warnings
from phalanx.data.targets.tasks import MULTI_LABEL
from phalanx.errors import UsageError
from phalanx.runs.resuming import Resumed
from phalanx.settings.intervals import parse_duration
from phalanx.settings.table import Settings
from phalanx.train.checks.agreement import facts_of_samples
from phalanx.train.session import Session, on_ranks, open_session


@final
class Sessions(AbstractContextManager["Sessions"]):
    """This rank's session, made when it is first asked for; its ranks are watched."""

    def __init__(self, settings: Settings, resumed: Resumed | None) -> None:
        self._settings, self._resumed = settings, resumed
        self._session: Session | None = None
        self._watching = ExitStack()

    def here(self) -> Session:
        """Collective. The session of the ranks that there are."""
        self._watching.close()
        watch = self._watching.enter_context(_watch(self._settings))
        if self._session is not None:
            watch.start(world())
            return on_ranks(self._session, world())
        session = open_session(self._settings, threads=self._settings.threads, watch=watch)
        _check_data(session)
        if self._resumed is not None:
            _check_same_data(session, self._resumed)
        self._session = session
        return session

    def forget(self) -> None:
        """Make it anew the next time, together with ranks that have none yet."""
        self._session = None

    def __exit__(self, *_error: object) -> None:
        self._watching.close()


def _watch(settings: Settings) -> Watch:
    hint = (
        "(What takes longer than that to compute or to load needs a larger --stall-after, such as "
        f"1h; here it is {settings.stall_after}. With never nobody is watched.)"
    )
    return Watch(
        parse_duration(settings.stall_after, "--stall-after"),
        on_stall=kill_rank if settings.on_failure == "shrink" else end_job,
        hint=hint,
    )


def _check_same_data(session: Session, resumed: Resumed) -> None:
    """Refuse to go on with other samples than the training was begun with."""
    if resumed.data is None:
        return
    for name, now in facts_of_samples(session.dataset.train, "training").items():
        before = resumed.data.get(name)
        if before is not None and before != now:
            raise UsageError(
                f"{resumed.run}: was trained with {name} {before}, and the data has {now} now: go "
                "on with the data that it was begun with (--data-dir), or start a new training"
            )


def _check_data(session: Session) -> None:
    """Refuse data with nothing to learn, and say what is odd about it, once for all ranks."""
    asked = session.settings.steps_per_epoch
    steps = batch_count(session.training_count, session.batch_size)
    if asked is not None and asked > steps:
        raise UsageError(
            f"--steps-per-epoch {asked}: an epoch has {steps} batches of {session.batch_size} "
            "samples: take so many or fewer, or a smaller --batch-size"
        )
    dataset = session.dataset
    train, test = dataset.train.targets, dataset.test.targets
    notes = list(dataset.notes)
    # Of what is made up there may be too little on purpose.
    if dataset.task == MULTI_LABEL and dataset.name != "synthetic":
        notes += label_warnings(dataset.name, dataset.classes, there=train.sum(0).tolist())
    labelled = train.dim() == 1 and not train.is_floating_point()
    if labelled and dataset.name != "synthetic":
        numbers = train.tolist()
        check_learnable(dataset.name, dataset.classes, train=numbers)
        notes += class_warnings(dataset.name, dataset.classes, train=numbers, test=test.tolist())
    for one in notes if session.is_first else ():
        logging.getLogger("phalanx.data").warning("%s", one)
