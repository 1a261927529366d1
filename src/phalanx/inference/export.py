"""A trained model as a file for other programs, checked before it counts as written.

Files take batches of any size. Each is read back, and what it makes of random samples is compared
with what the model makes of them; a file that differs is removed.
"""

import contextlib
import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from phalanx.errors import PhalanxError, UsageError
from phalanx.inference.export_formats import Format
from phalanx.models.in_parts import dtype_of
from phalanx.models.modes import kept_modes
from phalanx.runs.pydtnn_weights import load_pydtnn_weights, save_pydtnn_weights
from phalanx.whole_files import whole_file

#: How far outputs may be off, relative to the largest of them.
TOLERANCE = 1e-4
#: The batch that a file is written with, which exporters need to see.
_EXPORTED = 2
#: Batches that a file is tried with: one sample, which exporters like to treat apart, and more.
_TRIED = (1, 5)
#: Protocol buffers, which ONNX files are, end here.
_LARGEST_ONNX = 2 << 30

Function = Callable[[Tensor], Tensor]


class ExportError(PhalanxError):
    """A model that cannot be exported, or a file that does not compute what the model does."""

    exit_code = 1


def export(
    model: nn.Module,
    path: Path,
    *,
    form: Format,
    input_shape: tuple[int, ...],
    about: Mapping[str, str] | None = None,
) -> float:
    """Write a model for inference to a file, which appears checked or not at all.

    What it is `about` goes with it: as metadata in ONNX, as extra files in torch's format. PyDTNN's
    files are of weights alone.

    Returns the largest difference found, relative to the largest output. In ONNX files bfloat16
    becomes float32, because hardly anything computes with it there.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder to write {path.name} to")
    model, dtype = _computable(model, form)
    samples = torch.Generator().manual_seed(0)
    with kept_modes(model):
        model.eval()
        batches = [
            torch.randn(count, *input_shape, dtype=dtype, generator=samples)
            for count in (_EXPORTED, *_TRIED)
        ]
        with whole_file(path, suffix=form.suffix) as beside:
            worst = _write_and_try(model, beside, form=form, batches=batches, about=about or {})
            if not worst <= TOLERANCE:  # nor a number that is none
                raise ExportError(
                    f"{path}: not written: its outputs differ from the model's by {worst:.1e} of "
                    f"the largest, more than {TOLERANCE:.0e}"
                )
    return worst


def _computable(model: nn.Module, form: Format) -> tuple[nn.Module, torch.dtype]:
    """The model in a type that files of this format compute in, and that type."""
    dtype = dtype_of(model)
    if form.name == "onnx":
        _check_size(model)
        if dtype == torch.bfloat16:
            return copy.deepcopy(model).float(), torch.float32
    return model, dtype


def _write_and_try(
    model: nn.Module,
    path: Path,
    *,
    form: Format,
    batches: Sequence[Tensor],
    about: Mapping[str, str],
) -> float:
    """Write a file for the first batch's shape, read it back and try it with the others.

    Returns the largest difference from the model.
    """
    example, *tried = batches
    ways: dict[str, tuple[Callable[..., None], Callable[[Path], Function]]] = {
        "onnx": (_write_onnx, _read_onnx),
        "torch": (_write_torch, _read_torch),
        "pydtnn": (_write_pydtnn, partial(_read_pydtnn, model)),
    }
    write, read = ways[form.name]
    with _quiet():
        _attempt(partial(write, about=about), model, example, path)
        function = read(path)
    return max(_difference(model, function, inputs) for inputs in tried)


def _attempt(
    write: Callable[[nn.Module, Tensor, Path], None], model: nn.Module, example: Tensor, path: Path
) -> None:
    try:
        write(model, example, path)
    except OSError:
        raise
    except PhalanxError:
        raise
    except Exception as error:  # torch's exporters have no error of their own for all that fails
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ExportError(f"torch cannot export this model: {cause}") from error


def _program(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    batch = {0: torch.export.Dim("batch")}
    return torch.export.export(model, (example,), dynamic_shapes=(batch,))


def _write_onnx(model: nn.Module, example: Tensor, path: Path, *, about: Mapping[str, str]) -> None:
    import onnx

    torch.onnx.export(
        _program(model, example),
        (example,),
        path,
        dynamo=True,
        external_data=False,
        input_names=["inputs"],
        output_names=["outputs"],
        verbose=False,
    )
    written = onnx.load(path)
    onnx.helper.set_model_props(written, dict(about))
    onnx.save(written, path)


def _read_onnx(path: Path) -> Function:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.from_numpy(session.run(None, {"inputs": inputs.numpy()})[0])
        return outputs

    return run


def _write_torch(
    model: nn.Module, example: Tensor, path: Path, *, about: Mapping[str, str]
) -> None:
    torch.export.save(_program(model, example), path, extra_files=dict(about))


def _read_torch(path: Path) -> Function:
    function: Function = torch.export.load(path).module()
    return function


def _write_pydtnn(
    model: nn.Module, example: Tensor, path: Path, *, about: Mapping[str, str]
) -> None:
    """The weights alone, for a network that PyDTNN makes by itself."""
    save_pydtnn_weights(model, path, input_shape=tuple(example.shape[1:]))


def _read_pydtnn(model: nn.Module, path: Path) -> Function:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for one in other.parameters():
            one.zero_()
    load_pydtnn_weights(other, path)
    return other


@torch.no_grad()
def _difference(model: nn.Module, function: Function, inputs: Tensor) -> float:
    expected, outputs = model(inputs).double(), function(inputs).double()
    if expected.shape != outputs.shape:
        raise ExportError(
            f"the file gives outputs of shape {tuple(outputs.shape)}, the model of shape "
            f"{tuple(expected.shape)}"
        )
    scale = expected.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    return float((outputs - expected).abs().max() / scale)


def _check_size(model: nn.Module) -> None:
    size = sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
    if size >= _LARGEST_ONNX:
        raise UsageError(
            f"the weights have {size / 2**30:.1f} GiB, and an ONNX file holds less than 2: "
            "use --format torch"
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves what exporters say about code of their own, and packages they miss."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
