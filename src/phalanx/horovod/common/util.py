"""`horovod.common.util`: what scripts use of it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from phalanx.horovod.api import basics

Item = TypeVar("Item")
_EXTENSIONS = ("torch", "tensorflow", "keras")


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether a framework can be used: it is installed, and one of those that are known here."""
    return ext_base_name in _EXTENSIONS and find_spec(ext_base_name) is not None


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Refuse a framework that cannot be used. Nothing is built here, so nothing else can miss."""
    if ext_name.removeprefix("horovod.") not in _EXTENSIONS:
        raise ImportError(f"Phalanx has no {ext_name}: there are {', '.join(_EXTENSIONS)}")


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether torch sees a GPU. Horovod asks the framework of this name; here torch computes."""
    import torch

    return torch.cuda.is_available()


def mpi_built(verbose: bool = False) -> bool:
    """Whether there is MPI."""
    return basics.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Whether there is Gloo."""
    return basics.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """Whether operations go over NCCL."""
    return basics.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """Whether there is DDL."""
    return basics.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """Whether there is oneCCL."""
    return basics.ccl_built()


@contextmanager
def env(**kwargs: str | None) -> Iterator[None]:
    """Set environment variables inside, and put them back afterwards; None sets nothing."""
    given = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def split_list(l: Sequence[Item], n: int) -> list[Sequence[Item]]:  # noqa: E741
    """A list in n parts, as equal as they can be; the first ones get one more."""
    share, rest = divmod(len(l), n)
    ends = [(i + 1) * share + min(i + 1, rest) for i in range(n)]
    return [l[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def num_rank_is_power_2(num_rank: int) -> bool:
    """Whether a number of ranks is a power of two, which Horovod's Adasum needs, and ours not."""
    return num_rank > 0 and num_rank.bit_count() == 1


def is_iterable(x: Any) -> bool:
    """Whether something can be iterated over."""
    try:
        iter(x)
    except TypeError:
        return False
    return True
