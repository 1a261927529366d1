"""Image files as a source of samples: decoded when they are needed, by several threads at once."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, final

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from phalanx.comm.base import Communicator
from phalanx.comm.shared import SharedMemory, SharedMemoryError, room_for
from phalanx.data.arrays import Array
from phalanx.data.containers.png import check_png
from phalanx.data.source import WAY_OUT, Source
from phalanx.errors import DataError
from phalanx.files import open_file

#: Larger images are refused: a small file can hold a picture that no memory holds.
MOST_PIXELS = 64_000_000
#: What is read, whatever a file is called: Pillow knows others, of which some run programs.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_MOST_THREADS = 8


@final
class ImageFiles(Source):
    """Images as bytes [3, height, width], whatever their size and colours in the files.

    Those that a rank decoded are kept, up to `keep` of them, so that they are decoded once; by the
    ranks of a host together, if they `share`.
    """

    is_sent = True

    def __init__(
        self,
        paths: Sequence[str],
        *,
        size: tuple[int, int],
        keep: int = 0,
        skips_unreadable: bool = False,
    ) -> None:
        self.shape = (3, *size)
        self.skips_unreadable = skips_unreadable
        self._paths = paths
        self._size = size
        self._keep = min(keep, len(paths))
        # Memory that is not written to yet costs nothing.
        self._kept = torch.empty((self._keep, *self.shape), dtype=torch.uint8)
        self._is_kept = np.zeros(self._keep, dtype=np.bool_)
        self._is_shared = False

    def __reduce__(self) -> tuple[Any, ...]:
        again = partial(ImageFiles, size=self._size, keep=self._keep)
        return partial(again, skips_unreadable=self.skips_unreadable), (self._paths,)

    def share(self, host: Communicator) -> None:
        if self._is_shared or self._keep == 0 or host.size == 1:
            return
        self._is_shared = True
        shapes = [((self._keep, *self.shape), torch.uint8), ((self._keep,), torch.bool)]
        try:
            memory = SharedMemory(host, sum(room_for(*one) for one in shapes))
        except SharedMemoryError:  # each rank keeps its own, as far as there is room
            return
        self._kept, is_kept = (memory.tensor(*one) for one in shapes)
        self._is_kept = is_kept.numpy()

    def __len__(self) -> int:
        return len(self._paths)

    def take(self, indices: Tensor) -> Tensor:
        taken = torch.empty((len(indices), *self.shape), dtype=torch.uint8)
        try:
            list(_threads().map(self._put, indices.tolist(), taken))  # in a list, errors are raised
        except DataError as error:
            raise DataError(f"{error}: {WAY_OUT}") from error
        return taken

    def unreadable(self, indices: Tensor) -> dict[int, str]:
        wanted = indices.tolist()
        causes = _threads().map(self._cause, wanted)
        return {index: cause for index, cause in zip(wanted, causes, strict=True) if cause}

    def misfits(self, indices: Tensor) -> dict[int, str]:
        wanted = indices.tolist()
        causes = _threads().map(_misfit, [self._paths[index] for index in wanted])
        return {index: cause for index, cause in zip(wanted, causes, strict=True) if cause}

    def files(self, indices: Tensor) -> list[str] | None:
        return [self._paths[index] for index in indices.tolist()]

    def _put(self, index: int, place: Tensor) -> None:
        if index >= len(self._is_kept):
            place.copy_(torch.from_numpy(decode(self._paths[index], self._size)))
            return
        if not self._is_kept[index]:
            self._kept[index] = torch.from_numpy(decode(self._paths[index], self._size))
            self._is_kept[index] = True
        place.copy_(self._kept[index])

    def _cause(self, index: int) -> str | None:
        try:
            self._put(index, torch.empty(self.shape, dtype=torch.uint8))
        except DataError as error:
            return str(error)
        return None


def decode(path: str, size: tuple[int, int]) -> Array:
    """An image as bytes [3, height, width]; a DataError that names the file if it is damaged."""
    height, width = size
    with _opened(path) as image:
        image.draft("RGB", (width, height))  # a large JPEG is made smaller while it is decoded
        return as_bytes(image, size)


def as_bytes(image: Image.Image, size: tuple[int, int]) -> Array:
    """An image that is open as bytes [3, height, width]."""
    height, width = size
    resized = _in_colour(image).resize((width, height), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(resized).transpose(2, 0, 1))


def _misfit(path: str) -> str | None:
    """What is wrong with a file that does not begin as an image does; no more of it is read."""
    try:
        with _opened(path):
            return None
    except DataError as error:
        return str(error)


@contextmanager
def _opened(path: str) -> Iterator[Image.Image]:
    """An image; a DataError that names the file, whatever fails inside."""
    try:
        with _parsed(path) as image:
            pixels = image.width * image.height
            if pixels > MOST_PIXELS:
                raise DataError(f"{image.width}×{image.height} pixels; {_LIMIT}")
            yield image
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{path}: {_LIMIT}: {error}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{path}: not an image that can be read: {_KINDS}") from error
    except Exception as error:  # a damaged file can fail in any way
        cause = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: not an image that can be read: {cause}") from error


@contextmanager
def _parsed(path: str) -> Iterator[Image.Image]:
    with open_file(path) as file:
        check_png(file)
        with Image.open(file, formats=FORMATS) as image:
            yield image


def _in_colour(image: Image.Image) -> Image.Image:
    if image.mode[0] in "IF":
        image = Image.fromarray(_grey_bytes(image))
    if "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("RGB")


def _grey_bytes(image: Image.Image) -> Array:
    """Large or fractional numbers as bytes; Pillow would cut them off at 255."""
    values = np.asarray(image)
    if image.mode == "F":
        _check_range(values, most=1, kind="fractions")
        return (values * 255 + 0.5).astype(np.uint8)
    if image.mode == "I" and image.format not in _SIXTEEN_BITS:
        raise DataError("whole numbers of 32 bits, whose white is not known: save it in 8 or 16")
    _check_range(values, most=65535, kind="16 bits")
    return (values >> 8).astype(np.uint8)


def _check_range(values: Array, *, most: int, kind: str) -> None:
    least, largest = values.min(), values.max()
    if not (least >= 0 and largest <= most):  # which is so of a NaN, too
        raise DataError(
            f"values from {least} to {largest}, where {kind} are from 0 to {most}: scale them, or "
            "save it in 8 bits"
        )


# The files that have no more where Pillow gives 32 bits.
_SIXTEEN_BITS = ("PPM", "PNG")
_KINDS = f"it is none of {', '.join(FORMATS)}"
_LIMIT = f"at most {MOST_PIXELS:,} are decoded"


@cache
def _threads() -> ThreadPoolExecutor:
    """As many as this rank has cores, and two at least: one decodes while another reads."""
    cores = len(os.sched_getaffinity(0))
    return ThreadPoolExecutor(min(max(cores, 2), _MOST_THREADS), thread_name_prefix="decode")
