"""The formats that a trained model is exported to, known without torch."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from phalanx.errors import UsageError
from phalanx.wording import unknown


@dataclass(frozen=True)
class Format:
    """A format by its name, how its files end, and the packages that write and read it."""

    name: str
    suffix: str
    packages: tuple[str, ...] = ()


FORMATS = {
    one.name: one
    for one in (
        Format("onnx", ".onnx", packages=("onnx", "onnxscript", "onnxruntime")),
        Format("torch", ".pt2"),
        Format("pydtnn", ".npz"),
    )
}


def find_format(name: str) -> Format:
    """The format of this name; a UsageError if there is none, or a package for it is missing."""
    if name not in FORMATS:
        raise unknown("format", name, known=FORMATS)
    missing = [package for package in FORMATS[name].packages if find_spec(package) is None]
    if missing:
        raise UsageError(
            f"--format {name} needs {', '.join(missing)}, not installed here: "
            f"pip install 'phalanx[{name}]'"
        )
    return FORMATS[name]


def check_suffix(path: Path, form: Format) -> None:
    """Refuse a file of one format whose name says that it is of another."""
    if path.suffix.lower() == form.suffix:
        return
    for other in FORMATS.values():
        if other is not form and path.suffix.lower() == other.suffix:
            raise UsageError(
                f"--output {path}: {other.suffix} is for --format {other.name}, and --format "
                f"{form.name} is written: name it *{form.suffix}, or give --format {other.name}"
            )
    raise UsageError(f"--output {path}: --format {form.name} is written: name it *{form.suffix}")
