"""`phalanx export RUN`: a trained model as a file for other programs."""

import json
from pathlib import Path
from typing import Annotated

import typer

from phalanx.cli.flags.runs import Run
from phalanx.cli.start import rank_count
from phalanx.errors import UsageError
from phalanx.inference.export_formats import FORMATS, check_suffix, find_format
from phalanx.runs.folder import check_writable, read_result, read_run_settings


def export(
    run: Run,
    format: Annotated[  # noqa: A002
        str, typer.Option(metavar="|".join(FORMATS), help="onnx, or torch for torch.export's .pt2.")
    ] = "onnx",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write [default: model.onnx or .pt2 in RUN]."),
    ] = None,
) -> None:
    """Write a trained model to a file for other programs, for batches of any size.

    The file is read back and compared with the model before it counts as written. The model's own
    outputs are what it computes: before a softmax, if the loss has one. Class names and what is
    done to stored values before the model sees them go with it, as `classes` and `inputs` (JSON):
    sizes, factors, and for a table its columns with their categories.

    `phalanx export runs/digits-mlp-1 --format onnx --output model.onnx`
    """
    form = find_format(format)
    if rank_count(None) > 1:
        raise UsageError("export is for one process: start it without mpirun or srun")
    settings, result = read_run_settings(run), read_result(run)
    path = run / f"model{form.suffix}" if output is None else output
    check_suffix(path, form)
    check_writable(path)

    from phalanx.inference.export import export as write
    from phalanx.inference.model import trained_model
    from phalanx.runs.inputs import in_words

    model, input_shape = trained_model(run, settings, result)
    about: dict[str, str] = {
        name: json.dumps(result[name]) for name in ("classes", "inputs") if name in result
    }
    worst = write(model, path, form=form, input_shape=input_shape, about=about)
    print(f"{path}: largest difference from the model {worst:.1e} of the largest output")
    if "inputs" in result:
        print(f"its inputs are {in_words(result['inputs'])}")
