"""The Keras interface, on each backend that is installed: what a job of two ranks came to."""

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import phalanx
from tests.commands import environment

ROOT = Path(__file__).parent.parent.parent
KNOWN = ("torch", "jax", "tensorflow")
#: KERAS_BACKENDS has those that must be there.
BACKENDS = os.environ.get("KERAS_BACKENDS", " ".join(filter(find_spec, KNOWN))).split()
EXACT = 1e-5
#: What a job of two ranks found, by scenario and rank.
Found = dict[str, list[Any]]


def run_script(backend: str, folder: Path, *script: object) -> str:
    """What a script on two ranks prints."""
    python = [sys.executable, *map(str, script)]
    done = subprocess.run(
        [sys.executable, "-m", "phalanx", "run", "-n", "2", *python],
        cwd=folder,
        env=environment() | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", params=BACKENDS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp(request.param)
    run_script(request.param, ROOT, "-m", "tests.keras.job", folder)
    ranks = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]
    return {name: [one[name] for one in ranks] for name in ranks[0]}


def test_two_ranks_equal_one(found: Found) -> None:
    for distances in found["equals_one_rank"]:
        assert distances.pop("fp16") < 1e-2
        assert max(distances.values()) < EXACT, distances


def test_several_passes_before_an_exchange(found: Found) -> None:
    for distances in found["several_passes"]:
        assert max(distances.values()) < EXACT, distances


def test_steps_that_are_not_compiled(found: Found) -> None:
    assert max(found["not_compiled"]) < EXACT


def test_gradients_of_rows(found: Found) -> None:
    assert max(found["embedding"]) < EXACT


def test_metrics_are_those_of_all_ranks(found: Found) -> None:
    for one in found["metrics"]:
        for name, values in one["one"].items():
            assert one["two"][name] == pytest.approx(values, abs=EXACT)


def test_the_learning_rate_follows_its_schedule(found: Found) -> None:
    for rates in found["schedules"]:
        # From half of it, for two ranks, to the whole in the last of eight batches.
        rising = [0.4 + 0.4 * batch / 8 for batch in range(1, 9)]
        assert rates["warmup"] == pytest.approx(rising + [0.8] * 4)
        assert rates["steps"] == pytest.approx([0.1] * 4 + [0.4] * 4 + [0.08] * 4)
        assert rates["no warmup"] == pytest.approx([0.1] * 8)
        assert rates["decay"] == pytest.approx([0.1] * 4 + [0.8] * 4 + [0.4] * 4 + [0.2] * 4)
        halving = [0.8 * 0.5 ** (batch / 4) for batch in range(8)]
        assert rates["smooth decay"] == pytest.approx([0.1] * 4 + halving)
        assert rates["smooth"] == pytest.approx([0.8 / (1 + batch / 4) for batch in range(8)])


def test_momentum_follows_the_learning_rate(found: Found) -> None:
    assert max(found["momentum_correction"]) < EXACT


def test_an_overflow_on_one_rank_is_one_on_all(found: Found) -> None:
    first, second = found["overflow"]
    assert first == second
    for scale, iterations, finite, _ in first.values():
        # Once in each of two epochs of four batches.
        assert (scale, iterations, finite) == (2.0**15 / 4, 8 - 2, True)


def test_models_are_saved_and_loaded(found: Found) -> None:
    for one in found["saved_and_loaded"]:
        assert one["loaded"] == 0
        assert one["afterwards"] < EXACT
        assert one["plain"] < EXACT
        assert one["class"]
    assert [one["best"] for one in found["saved_and_loaded"]] == [True, False]


def test_the_best_model_is_saved_where_it_is_said(found: Found) -> None:
    first, second = found["best_models"]
    assert first["monitors"] == ["loss", "loss", "val_loss", "val_loss"]
    assert (first["saved"], second["saved"]) == ([True, True], [False, False])
    assert "BestModelCheckpoint(monitor='val_loss') has no file" in first["message"]
    assert second["message"] is None  # rank 0 alone has something to save


def test_operations_on_values(found: Found) -> None:
    for rank, one in enumerate(found["values"]):
        assert one["reduced"] == one["sent"] == [[1, 1], [1, 1]]
        assert one["gathered"] == [0, 1, 1]
        assert one["array"] == [0.5, 2]
        assert one["number"] == 0.5
        assert one["object"] == {"rank": 1}
        assert one["variables"] == [1, [1, 1, 1]]
        assert one["ranks"] == [2, rank, 2, 0]


def test_an_operation_in_a_compiled_step(found: Found) -> None:
    # Sums of 0 and 2, averaged.
    assert found["in_a_compiled_step"] == [[[1, 1]], [[2, 2]]]


def test_adasum(found: Found) -> None:
    first, second = found["adasum"]
    assert first["sums"] == second["sums"]
    for one in (first, second):
        assert one["expected"] < EXACT  # the formula written out, which is not the average
        assert one["averaged"] > 0.01


def test_refusals(found: Found) -> None:
    for messages in found["refusals"]:
        assert "wrap it once" in messages["twice"]
        assert "not 'sgd'" in messages["no optimizer"]
        assert "Average, Sum and Adasum" in messages["op"]
        assert "gradient_accumulation_steps=2" in messages["built"]
        assert "not [3]" in messages["variables"]
        if "xla" in messages:  # the job asks on TensorFlow alone, where XLA takes no callbacks
            assert "jit_compile=False" in messages["xla"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_example_learns(backend: str, tmp_path: Path) -> None:
    printed = run_script(backend, tmp_path, ROOT / "examples" / "horovod_keras.py")
    assert float(printed.split()[-1].rstrip("%")) > 90
    assert (tmp_path / "horovod_digits.keras").exists()


def load_presence() -> Any:
    """The module that looks for Keras, anew."""
    path = Path(phalanx.__file__).parent / "keras" / "presence.py"
    spec = spec_from_file_location("presence", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))


def test_a_missing_keras_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr("importlib.metadata.version", missing)
    with pytest.raises(ImportError, match=r"pip install 'phalanx\[keras\]'"):
        load_presence()


def test_an_old_keras_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2.15.0")
    with pytest.raises(ImportError, match=r"needs Keras 3, and 2.15.0 is installed"):
        load_presence()


def test_a_backend_without_training_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(backend=SimpleNamespace(backend=lambda: "numpy"))
    monkeypatch.setitem(sys.modules, "keras", fake)
    with pytest.raises(ImportError, match="torch, jax, tensorflow, not numpy"):
        load_presence()


def test_a_backend_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", None)
    with pytest.raises(ImportError, match="environment variable KERAS_BACKEND"):
        load_presence()
