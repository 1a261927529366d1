"""Every path that public code imports Horovod by: under phalanx.horovod, and as horovod itself."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import phalanx.horovod.torch as hvd
from phalanx.horovod import names
from tests.commands import environment

#: Those under phalanx.horovod; without the first part they are horovod's.
PATHS = {
    "phalanx.horovod": ["run", "__version__"],
    "phalanx.horovod.runner": ["run"],
    "phalanx.horovod.torch.mpi_ops": [
        *("allreduce", "allreduce_async_", "allgather_async", "broadcast_async_", "synchronize"),
        *("poll", "size", "rank", "local_rank", "init", "Average", "Sum", "Adasum", "Min", "Max"),
        *("Product", "ProcessSet", "global_process_set", "HorovodInternalError", "rocm_built"),
        *("grouped_allreduce_async_", "reducescatter_async", "alltoall", "join", "barrier"),
    ],
    "phalanx.horovod.torch.optimizer": [
        *("DistributedOptimizer", "_DistributedOptimizer", "_DistributedAdasumOptimizer")
    ],
    "phalanx.horovod.torch.compression": [
        *("Compression", "Compressor", "FP16Compressor", "NoneCompressor")
    ],
    "phalanx.horovod.torch.functions": [
        *("allgather_object", "broadcast_object", "broadcast_optimizer_state"),
        "broadcast_parameters",
    ],
    "phalanx.horovod.torch.sync_batch_norm": ["SyncBatchNorm"],
    "phalanx.horovod.torch.elastic": ["run", "TorchState", "ObjectState", "ElasticSampler"],
    "phalanx.horovod.torch.elastic.sampler": ["ElasticSampler"],
    "phalanx.horovod.torch.elastic.state": ["TorchState"],
    "phalanx.horovod.common.exceptions": [
        *("HorovodInternalError", "HostsUpdatedInterrupt", "HorovodVersionMismatchError")
    ],
    "phalanx.horovod.common.util": [
        *("env", "split_list", "nccl_built", "mpi_built", "gloo_built", "gpu_available"),
        *("check_extension", "extension_available", "num_rank_is_power_2", "is_iterable"),
    ],
    "phalanx.horovod.common.process_sets": ["ProcessSet", "global_process_set"],
    "phalanx.horovod.common.elastic": ["State", "ObjectState"],
    "phalanx.horovod.keras": ["DistributedOptimizer", "callbacks", "init"],
    "phalanx.horovod.keras.callbacks": ["BroadcastGlobalVariablesCallback"],
    "phalanx.horovod.tensorflow": ["init", "size", "allreduce"],
    "phalanx.horovod.tensorflow.keras": ["DistributedOptimizer", "callbacks"],
    "phalanx.horovod.tensorflow.keras.callbacks": ["MetricAverageCallback"],
}
#: As a user would, with a module of their own beside it that Python starts by itself.
AS_HOROVOD = """
import importlib.util, sys
assert sys.modules["sitecustomize"].MINE
for path, names in {paths!r}.items():
    name = path.removeprefix("phalanx.")
    module = __import__(name, fromlist=["x"])
    assert module is sys.modules[path] is sys.modules[name], name
    assert module.__spec__.name.startswith("phalanx."), name
    assert all(hasattr(module, one) for one in names), name
import horovod
import horovod.torch as hvd
from horovod import torch as the_same
assert horovod.torch is hvd is the_same
assert hvd.mpi_ops.Sum == 1 and hvd.elastic.run and hvd.compression.Compression
assert callable(horovod.run) and horovod.__version__ == "0.28.1"
assert importlib.util.find_spec("horovod.torch")
import horovod.tensorflow.keras, phalanx.keras
assert horovod.keras is horovod.tensorflow.keras is phalanx.keras
assert sys.modules["horovod.tensorflow.keras.callbacks"] is phalanx.keras.callbacks
try:
    horovod.tensorflow.nothing
except AttributeError as error:
    assert "it has what phalanx.keras has" in str(error)
for name in {lacking!r}:
    try:
        __import__(name)
    except ImportError as error:
        print(error)
try:
    from horovod import spark
except ImportError as error:
    print(error)
"""
LACKING = ("horovod.mxnet", "horovod.spark.torch", "horovod.ray", "horovod.run.runner",
           "horovod.nothing", "horovod.torch.mpi_lib_v2")  # fmt: skip


def test_names_are_those_of_hvd() -> None:
    for path in ("mpi_ops", "optimizer", "compression", "functions", "sync_batch_norm"):
        module = import_module(f"phalanx.horovod.torch.{path}")
        assert getattr(hvd, path) is module
        for name in [one for one in module.__all__ if hasattr(hvd, one)]:
            assert getattr(module, name) is getattr(hvd, name)


def test_as_horovod(tmp_path: Path) -> None:
    """In a process of its own, as a rank; all names at once, for the time that torch takes."""
    (tmp_path / "sitecustomize.py").write_text("MINE = True\n")
    folder = Path(names.__file__).parent / "python_path"
    assert [one.name for one in folder.glob("*.py")] == ["horovod.py"]  # it hides nothing
    path = ":".join([str(folder), str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", AS_HOROVOD.format(paths=PATHS, lacking=LACKING)],
        env=environment() | {"PYTHONPATH": path, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    told = ("horovod.mxnet", "horovod.spark", *LACKING[2:3], "horovod.run", *LACKING[4:])
    for name, line in zip((*told, "horovod.spark"), said, strict=True):
        assert line.startswith(f"Phalanx has no module '{name}'"), line
    assert "start ranks with `phalanx run` instead of Spark" in said[1]


def test_without_phalanx(tmp_path: Path) -> None:
    """A Python that does not have it says so."""
    folder = Path(names.__file__).parent / "python_path"
    code = f"import sys; sys.path[:0] = [{str(folder)!r}]; import horovod.torch"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert f"{sys.executable} has no phalanx: install it there" in done.stderr


def test_nothing_of_that_name_outside_of_ranks() -> None:
    assert "horovod" not in sys.modules
    with pytest.raises(ModuleNotFoundError, match="No module named 'horovod'"):
        import_module("horovod")
