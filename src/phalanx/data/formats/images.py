"""Images of a user's own, a folder a class, decoded and resized when they are needed."""

from pathlib import Path

import torch

from phalanx.data.formats.image_folder import Listing, find
from phalanx.data.options import TEST_SPLIT, parse_shape
from phalanx.data.packages import need
from phalanx.data.split import Dataset, Split, part_test
from phalanx.errors import UsageError

#: What is made of images of any size, unless --resize says otherwise.
SIZE = "64x64"
#: MiB of decoded images that the ranks of a host keep.
CACHE = 512


def load(
    folder: Path,
    *,
    resize: str = SIZE,
    skip_bad: bool = False,
    cache: int = CACHE,
    test_split: float | None = None,
    seed: int = 0,
) -> Dataset:
    """The images under `folder`, as bytes [3, height, width].

    The ranks of a host keep up to `cache` MiB of images that they decoded. With `skip_bad`, those
    that cannot be read are to be left out; without, the first one ends a training.
    """
    need("PIL", for_what="Images", called="Pillow")
    from phalanx.data.formats.image_files import ImageFiles

    found = find(folder)
    height, width = parse_shape(resize, option="resize", dimensions=2)
    keep = (cache << 20) // (3 * height * width)

    def split(listing: Listing, keep: int) -> Split:
        files = ImageFiles(
            listing.paths, size=(height, width), keep=keep, skips_unreadable=skip_bad
        )
        return Split(files, torch.tensor(listing.labels), scale=1 / 255)

    train = split(found.train, keep)
    if found.test is None:
        share = TEST_SPLIT.default if test_split is None else test_split
        return Dataset("images", *part_test(train, share, seed=seed), found.classes)
    if test_split is not None:
        raise UsageError(f"{folder} has test images of its own: leave out --test-split")
    test = split(found.test, max(keep - len(train), 0))
    return Dataset("images", train, test, found.classes)
