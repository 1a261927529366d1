"""Modules that go by two names: those of phalanx.horovod by that of horovod, in the ranks of
`phalanx run --horovod`, and phalanx.keras where Horovod has its Keras interface.

A module of two names is one module: what is set in it is seen under both, and an exception caught
by one name is the exception raised under the other.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import final

_OURS = "phalanx."
#: Parts of Horovod that are not here, and what to do without them.
_LACKING = {
    "horovod.mxnet": "MXNet is not supported",
    "horovod.spark": "start ranks with `phalanx run` instead of Spark",
    "horovod.ray": "start ranks with `phalanx run` instead of Ray",
    "horovod.data": "use torch's own data loaders",
    "horovod.run": "horovod.run is a function, as it is in Horovod since 0.20",
}


def stand_for_horovod() -> None:
    """From now on `import horovod` and all below it find phalanx.horovod, in this process."""
    sys.meta_path.insert(0, _Finder())
    sys.modules["horovod"] = import_module("phalanx.horovod")


def stand_for(name: str, target: str) -> None:
    """Have a module, and what it has imported below itself, go by another name as well."""
    import_module(target)
    for found in [one for one in sys.modules if one == target or one.startswith(f"{target}.")]:
        sys.modules[name + found.removeprefix(target)] = sys.modules[found]


@final
class _Finder(MetaPathFinder):
    """Finds horovod.torch.mpi_ops as phalanx.horovod.torch.mpi_ops, and so on."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.removeprefix(_OURS) in _LACKING:  # `from horovod import spark` asks by ours
            raise ModuleNotFoundError(_lacking(fullname.removeprefix(_OURS)))
        if not fullname.startswith("horovod."):
            return None
        try:
            known = find_spec(_OURS + fullname)
        except ModuleNotFoundError as error:
            if not str(error.name).startswith(f"{_OURS}horovod"):
                raise  # something that it needs is not installed
            known = None
        if known is None:  # without `name=`, by which `from horovod import …` would swallow it
            raise ModuleNotFoundError(_lacking(fullname))
        is_package = known.submodule_search_locations is not None
        return spec_from_loader(fullname, _Loader(), is_package=is_package)


@final
class _Loader(Loader):
    """Loads a module by the name that it has here."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_OURS + spec.name)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # importlib has put the other name's there


def _lacking(name: str) -> str:
    part = ".".join(name.split(".")[:2])
    why = f": {_LACKING[part]}" if part in _LACKING else ""
    return (
        f"Phalanx has no module '{name}'{why} (`phalanx run --horovod` has phalanx.horovod stand "
        "for horovod; docs/horovod.md lists its modules)"
    )
