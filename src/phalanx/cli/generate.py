"""`phalanx predict RUN --prompt TEXT`: what a model of text goes on with."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.options import parameter, with_parameters
from phalanx.cli.start import rank_count
from phalanx.comm.launch.process import check_threads
from phalanx.data.options import TOKENS
from phalanx.errors import UsageError
from phalanx.options import Option, check_values
from phalanx.runs.folder import check_writable, read_run_settings
from phalanx.runs.record import read_record
from phalanx.runs.trust import trusted
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.settings.tokens import answers_tokens, has_tokens
from phalanx.whole_files import whole_file
from phalanx.wording import flag

_LENGTH = Option("length", int, "", default=200, at_least=1)
_TEMPERATURE = Option("temperature", float, "", default=0.0, at_least=0)
_SEED = Option("seed", int, "", default=0, at_least=0, below=2**63)
_OPTIONS = (_LENGTH, _TEMPERATURE, _SEED)

#: The flags by name.
_FLAGS: dict[str, Any] = {
    "prompt": Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="For models of text: how a text begins that goes on."),
    ],
    "length": Annotated[
        int | None,
        typer.Option(metavar="N", help="How many characters, or bytes, follow [default: 200]."),
    ],
    "temperature": Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Draw what follows, the more freely the higher, as with 0.8 [default: 0, the "
            "likeliest].",
        ),
    ],
    "seed": Annotated[
        int | None,
        typer.Option(metavar="N", help="Decides what is drawn with --temperature [default: 0]."),
    ],
}
#: What of `predict` a model of text takes, too.
_SHARED = ("run", "output", "threads", "model", "trust_code")
#: Flags that are not called as their parameters are.
_CALLED = {"data": "input", "identity": "id"}
_HELP = """

    A model of text goes on with a text, token by token:

    * `phalanx predict runs/text-transformer-1 --prompt "There was a" --length 200`
    """


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a text begins, and how it is to go on; None where nothing was said."""

    prompt: str | None = None
    length: int | None = None
    temperature: float | None = None
    seed: int | None = None


def with_prompt(command: Callable[..., None]) -> Callable[..., None]:
    """The command that writes answers, which for models of text writes texts."""
    own = inspect.signature(command).parameters

    def run(**given: Any) -> None:
        asked = Asked(**{name: given.pop(name) for name in _FLAGS})
        said = [
            _CALLED.get(name, name)
            for name, one in own.items()
            if name not in _SHARED and given.get(name, one.default) != one.default
        ]
        folder: Path = given["run"]
        if _is_generated(folder, asked, others=said):
            _generate(asked, **{name: given[name] for name in _SHARED})
        else:
            command(**given)

    ours = [parameter(name, kind) for name, kind in _FLAGS.items()]
    shown = with_parameters(run, [*own.values(), *ours], like=command)
    shown.__doc__ = f"{(command.__doc__ or '').rstrip()}{_HELP}"
    return shown


def _is_generated(run: Path, asked: Asked, *, others: Sequence[str]) -> bool:
    """Whether a run's answers are texts; raises for what does not go with its kind.

    `others` are flags for models of samples.
    """
    settings = read_run_settings(run)
    said = [name for name, value in vars(asked).items() if value is not None]
    if not has_tokens(settings):
        if said:
            raise UsageError(
                f"{flag(said[0])} is for models of text, and {run} was trained on "
                f"{settings.dataset}: leave it out"
            )
        if answers_tokens(settings):
            raise UsageError(
                f"{run}: its model answers for each token of a sample, and predict for each "
                "sample: use phalanx.Trainer.predict"
            )
        return False
    if others:
        raise UsageError(
            f"{run}: is a model of text, which goes on with a --prompt: leave out {flag(others[0])}"
        )
    if not asked.prompt:
        raise UsageError(f'{run}: is a model of text: give it one to go on with, --prompt "…"')
    if rank_count(None) > 1:
        raise UsageError("a text is written by one process: start it without mpirun or srun")
    check_values(_OPTIONS, vars(asked), spell=flag)
    if asked.seed is not None and not asked.temperature:
        raise UsageError("--seed decides what is drawn: give a --temperature above 0, too")
    return True


def _generate(
    asked: Asked,
    *,
    run: Path,
    output: Path | None,
    threads: int,
    model: str | None,
    trust_code: bool,
) -> None:
    """Write the prompt, and what the run's model goes on with."""
    check_writable(output)
    settings = trusted(read_run_settings(run), run, named={"model": model}, trust=trust_code)
    text = f"{asked.prompt}{_continued(run, settings, asked, threads=threads)}"
    if output is None:
        print(text)
        return
    with writing(output), whole_file(output) as beside:
        beside.write_text(text, encoding="utf-8")
    print(f"{len(text):,} characters: {output}")


def _continued(run: Path, settings: Settings, asked: Asked, *, threads: int) -> str:
    import torch

    from phalanx.data.text.vocabulary import Vocabulary
    from phalanx.inference.generation import go_on
    from phalanx.inference.model import trained_model

    check_threads(threads)
    torch.set_num_threads(threads)
    recorded = read_record(run)
    network, (context, *_) = trained_model(recorded, settings)
    return go_on(
        network,
        Vocabulary(recorded.classes or (), settings.tokens or TOKENS.default),
        asked.prompt or "",
        length=asked.length or _LENGTH.default,
        context=context,
        temperature=asked.temperature or 0.0,
        seed=asked.seed or 0,
    )
