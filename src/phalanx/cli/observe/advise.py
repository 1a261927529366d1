"""`phalanx advise`: how many ranks to use, from a few steps that are measured here."""

from phalanx.cli.flags.advise import Asked, with_advice
from phalanx.cli.start import launched, rank_count
from phalanx.comm.launch.job import current_job
from phalanx.comm.launch.process import available_cores
from phalanx.errors import UsageError
from phalanx.runs.folder import check_writable
from phalanx.settings.rules import check_settings
from phalanx.settings.table import Settings
from phalanx.strategies.registry import default_strategy, resolve

#: Whose steps the model describes: every rank has a part of every batch, and all keep in step.
_MODELLED = ("central", "allreduce")


@with_advice
def advise(asked: Asked) -> None:
    """Say how many ranks to use: measure a few steps, and work out the rest.

    * `phalanx advise --dataset digits --model simplecnn` starts a rank for each core, and takes
      less than a minute.
    * `phalanx advise --model resnet20 --network 10gbit,50us` says what a cluster would bring.
    * `mpirun -n 4 phalanx advise …` measures those ranks, and the network between their hosts.

    It tells an epoch's time and efficiency for 1 to 10,000 ranks, what limits them, the batch and
    the network from which they pay off, and what would help. Nothing is kept of what it trains.
    """
    settings = asked.settings
    ranks = max(2, available_cores()) if settings.ranks is None else settings.ranks
    ranks = rank_count(settings.ranks if current_job() else ranks)
    _check(asked, ranks)
    launched(ranks, bind=settings.bind)
    _advise_here(asked)


def _check(asked: Asked, ranks: int) -> None:
    settings = asked.settings
    check_settings(settings, ranks)
    if ranks == 1:
        raise UsageError("--ranks 1: what ranks cost each other takes two to measure, or more")
    named = settings.strategy or default_strategy(ranks, settings.strategy_options)
    if resolve(named) not in _MODELLED:
        raise UsageError(
            f"--strategy {named}: advice is for {' and '.join(_MODELLED)}, whose ranks share every "
            "batch and keep in step: leave --strategy out; `phalanx compare` trains with any"
        )
    if asked.ranks_per_host is not None and asked.ranks_per_host > ranks:
        raise UsageError(
            f"--ranks-per-host {asked.ranks_per_host}: what so many ranks of a host cost each "
            f"other must be measured, and here are {ranks}: take --ranks {asked.ranks_per_host}"
        )
    for path in (asked.json, asked.plot):
        check_writable(path)
    if asked.plot is not None:
        _check_plots()


def _check_plots() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install 'phalanx[plots]'")


def _measured(settings: Settings) -> Settings:
    """Settings under which a model stays as it is, however long it is trained to measure it."""
    return settings.changed(learning_rate=0.0, schedule="constant", warm_up=0.0)


def _advise_here(asked: Asked) -> None:
    from phalanx.cli.output import advice as shown
    from phalanx.observe.advise.advice import advise as work_out
    from phalanx.observe.advise.link import USUAL, parse_link
    from phalanx.observe.advise.measuring import measure
    from phalanx.train.session import open_session

    settings = asked.settings
    session = open_session(_measured(settings), threads=settings.threads)
    found = measure(session, shown.teller(session.is_first), seconds=asked.seconds)
    if not session.is_first:
        return
    link = asked.network or found.link
    answer = work_out(
        found,
        link or parse_link(USUAL),
        assumed=link is None,
        ranks_a_host=asked.ranks_per_host,
    )
    shown.show(found, answer, epochs=settings.epochs)
    if asked.json is not None:
        shown.write_json(asked.json, found, answer)
    if asked.plot is not None:
        shown.write_plot(asked.plot, found, answer)
