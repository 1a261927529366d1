"""What the rank that speaks for a training has: the run's folder, and whom it tells how it goes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from phalanx.runs.written import WrittenRun
from phalanx.strategies.base import TextTable
from phalanx.train.metrics import Metrics
from phalanx.train.progress import Progress, Silent
from phalanx.train.session import Session

#: Shows a table to a person.
Show = Callable[[TextTable], None]


@final
@dataclass(frozen=True)
class Voice:
    """What one rank has to say something with; by default, nothing."""

    run: WrittenRun | None = None
    progress: Progress = field(default_factory=Silent)
    show: Show = lambda table: None
    #: Told once all is ready: what is trained is written down, and shown.
    introduce: Callable[[Session], None] = lambda session: None
    #: Told what the model is worth before it is trained, if it is tested then.
    tested: Callable[[Metrics], None] = lambda metrics: None


class Speaker(ABC):
    """Makes a voice on the rank that is first.

    Every rank has a speaker: when the first rank is lost, another one is first from then on, and
    goes on in the same folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is that of a training to go on with; a new one has none yet."""
        self.folder = folder

    def voice(self, session: Session) -> Voice:
        """Collective. This rank's voice; afterwards all ranks know the folder."""
        voice = self.speak(session) if session.is_first else Voice()
        path = None if voice.run is None else voice.run.path
        self.folder = session.comm.broadcast_object(path)
        return voice

    @abstractmethod
    def speak(self, session: Session) -> Voice:
        """The voice of the first rank: the same one every time that it is asked for."""


@final
class Mute(Speaker):
    """Writes nothing, says nothing."""

    def speak(self, session: Session) -> Voice:
        return Voice()
