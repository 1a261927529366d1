"""`phalanx export RUN`: a trained model as a file for other programs."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from phalanx.cli.flags.runs import Run
from phalanx.cli.flags.trust import Model, TrustCode
from phalanx.cli.start import rank_count
from phalanx.errors import UsageError
from phalanx.inference.export_formats import FORMATS, check_suffix, find_format
from phalanx.runs.folder import check_writable, read_result, read_run_settings
from phalanx.runs.record import read_record
from phalanx.runs.trust import trusted
from phalanx.runs.writing import writing
from phalanx.settings.table import Settings
from phalanx.settings.tokens import answers_tokens

_Format = Annotated[
    str,
    typer.Option(
        metavar="|".join(FORMATS),
        help="onnx; torch for torch.export's .pt2; pydtnn for its weights.",
    ),
]
#: What of a result goes with the file.
_ABOUT = ("classes", "inputs", "task", "targets")
_Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where to write [default: model.onnx, .pt2 or .npz in RUN]."),
]


def export(
    run: Run,
    format: _Format = "onnx",  # noqa: A002
    output: _Output = None,
    model: Model = None,
    trust_code: TrustCode = False,
) -> None:
    """Write a trained model to a file for other programs, for batches of any size.

    The file is read back and compared with the model before it counts as written. The model's own
    outputs are what it computes: before a softmax, if the loss has one. Class names and what is
    done to stored values before the model sees them go with it, as `classes` and `inputs` (JSON):
    sizes, factors, and for a table its columns with their categories. So does the `task`, and the
    mean and deviation of a regression's `targets`.

    `phalanx export runs/digits-mlp-1 --format onnx --output model.onnx`
    """
    form = find_format(format)
    if rank_count(None) > 1:
        raise UsageError("export is for one process: start it without mpirun or srun")
    settings = trusted(read_run_settings(run), run, named={"model": model}, trust=trust_code)
    _check_kind(run, settings)
    result = read_result(run)
    path = run / f"model{form.suffix}" if output is None else output
    check_writable(path)
    check_suffix(path, form)

    from phalanx.inference.export import export as write
    from phalanx.inference.model import trained_model

    trained, input_shape = trained_model(read_record(run), settings)
    about = {name: json.dumps(result[name]) for name in _ABOUT if result.get(name) is not None}
    with writing(path):
        worst = write(trained, path, form=form, input_shape=input_shape, about=about)
    print(f"{path}: largest difference from the model {worst:.1e} of the largest output")
    _tell_meaning(result)


def _tell_meaning(result: dict[str, Any]) -> None:
    """Say what the model's inputs are, and its outputs if these are not as a user has them."""
    from phalanx.runs.inputs import in_words

    if "inputs" in result:
        print(f"its inputs are {in_words(result['inputs'])}")
    if (scale := result.get("targets")) is not None:
        told = (f"{name} {', '.join(f'{one:.6g}' for one in scale[name])}" for name in scale)
        print(f"its outputs are standardised targets: {', '.join(told)}")


def _check_kind(run: Path, settings: Settings) -> None:
    if answers_tokens(settings):
        raise UsageError(
            f"{run}: is a model of text, and export is for models of numbers: use "
            "`phalanx predict RUN --prompt TEXT`, or its model.safetensors"
        )
