"""Code that a run's folder names: run only if the user names it, too, or trusts the folder."""

from collections.abc import Mapping
from pathlib import Path

from phalanx.errors import UsageError
from phalanx.settings.table import Settings
from phalanx.wording import Spelling, flag


def trusted(
    settings: Settings,
    run: Path,
    *,
    named: Mapping[str, str | None],
    trust: bool,
    spell: Spelling = flag,
) -> Settings:
    """A run's settings, with code that the user has named as model and data set.

    Of the parts of a training that are `named`, or may be: what is code, and neither named nor
    trusted, is refused. A folder that somebody else has made would otherwise run what it likes.
    """
    for part, name in named.items():
        of_run: str = getattr(settings, part) or ""
        if name is not None and ":" not in of_run:
            raise UsageError(f"a run has settings of its own: leave out {spell(part)}, or the run")
        if name is not None:
            settings = settings.changed(**{part: name})
        elif ":" in of_run and not trust:
            raise UsageError(untrusted(run, part, of_run, spell=spell))
    return settings


def untrusted(run: Path, part: str, name: str, *, spell: Spelling = flag) -> str:
    """Why code that a run's folder names is not run, and how to have it run."""
    ways = f"{part}='{name}', or say trust_code=True"
    if spell is flag:
        ways = f"{flag(part)} {name}, or say --trust-code"
    return (
        f"{run / 'config.json'} names code as its {part}, which can do whatever you can: "
        f"if you know that code, name it yourself with {ways}"
    )
