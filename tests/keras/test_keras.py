"""The Keras interface, on each backend that is installed: what a job of two ranks came to."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.commands import environment

ROOT = Path(__file__).parent.parent.parent
KNOWN = ("torch", "jax", "tensorflow")
#: KERAS_BACKENDS has those that must be there.
BACKENDS = os.environ.get("KERAS_BACKENDS", " ".join(filter(find_spec, KNOWN))).split()
#: The same, where `make test` leaves Keras on torch to `make test-long`.
LATER = [pytest.param(one, marks=[pytest.mark.long] * (one == "torch")) for one in BACKENDS]
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


def assert_said(messages: list[str], words: list[str]) -> None:
    """Each message has its word."""
    assert [m for m, word in zip(messages, words, strict=True) if word not in m] == []


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
        assert one["compressed"] == 4 * 4  # variables and batches


def test_refusals(found: Found) -> None:
    for messages in found["refusals"]:
        assert "wrap it once" in messages["twice"]
        assert "not 'sgd'" in messages["no optimizer"]
        assert "Average, Sum and Adasum" in messages["op"]
        assert "gradient_accumulation_steps=2" in messages["built"]
        assert "not 3" in messages["variables"]
        assert "not None" in messages["compression"]
        assert "not [0, 1]" in messages["process set"]
        assert "not 'adam'" in messages["custom"]
        assert "not 'kernel'" in messages["local"]
        if "xla" in messages:  # the job asks on TensorFlow alone, where XLA takes no callbacks
            assert "jit_compile=False" in messages["xla"]


def test_gradients_of_local_layers_stay(found: Found) -> None:
    ranks = found["partial"]
    average = [sum(both) / 2 for both in zip(*(one["own"] for one in ranks), strict=True)]
    for one in ranks:
        halves = [moved / 2 for moved in one["own"][2:]]
        assert one["partial"] == pytest.approx(average[:2] + halves, abs=EXACT)
        assert one["registered"] == one["partial"]
        assert one["unscaled"] == pytest.approx(average[:2] + one["own"][2:], abs=EXACT)
        assert one["several"] == pytest.approx([2 * moved for moved in one["partial"]], abs=EXACT)
        assert one["callback"] == [False, False, True, False]  # the biases are all zero
        words = ["not 'dense'", "global_clipnorm", "mixed_float16"]
        assert_said(one["refused"], words)


def test_a_tape_has_the_gradients_of_all_ranks(found: Found) -> None:
    ranks = found["tape"]
    if isinstance(ranks[0], str):
        assert all("wraps TensorFlow's tape, and Keras computes with" in one for one in ranks)
        return
    average = [sum(both) / 2 for both in zip(*(one["own"] for one in ranks), strict=True)]
    for one in ranks:
        assert one["eager"] == pytest.approx(average, abs=EXACT)
        assert one["compiled"] == pytest.approx(average, abs=EXACT)
        assert one["sum"] == pytest.approx([2 * moved for moved in average], abs=EXACT)
        halves = [moved / 2 for moved in one["own"][2:]]
        assert one["partial"] == pytest.approx(average[:2] + halves, abs=EXACT)
        assert one["single"] == one["named"] == [1.5, 1.5]
        assert one["missing"]
        assert "takes a tf.GradientTape, not 3" in one["refused"][0]
        assert "wrap it once" in one["refused"][1]


def test_batches_are_normalised_together(found: Found) -> None:
    for one in found["normalised"]:
        assert one["distance"] < EXACT
        assert one["each for itself"] > 0.01
        assert one["loaded"] == 0
        assert max(one["uneven"], one["masked"]) < EXACT
        assert "fused=True" in one["fused"]
        assert "tf.distribute" in one["synchronized"]


def test_gradients_flow_through_operations(found: Found) -> None:
    first, second = found["gradients_through_operations"]
    assert max(first["centred"], second["centred"]) < EXACT  # a bias, and the mean taken away
    assert first["sent"] > 0.001
    assert second["sent"] == 0  # nobody gets what this rank has


def test_operations_with_shapes_of_their_own(found: Found) -> None:
    ranks = found["shapes_of_their_own"]
    assert [one["rows"] for one in ranks] == [[[0, 3], [6, 9]], [[12, 15]]]
    assert [one["array"] for one in ranks] == [[0, 1], [2, 3]]
    for one in ranks:
        assert "Adasum" in one["op"]
        assert "in the `call` of a layer" in one["symbolic"]
        assert "not 'word'" in one["word"]
        assert one["gradient"] == [1.5, 1.5]
        said = one["compiled"]  # torch computes operation by operation
        assert (
            said == "nothing was refused" or "allgather has a result of a shape of its own" in said
        )


def test_variables_that_nobody_names(found: Found) -> None:
    for rank, one in enumerate(found["global_variables"]):
        assert (one["distance"], one["rate"]) == (0, pytest.approx(0.2))
        assert one["seed"] == rank  # random generators stay as they are
        assert f"of_rank_{rank}/bias" in one["different"]
        assert "3 variables of the name 'mine/iteration'" in one["same names"]
        assert "[3, 2]" in one["order"]
        assert "not array([0., 0.])" in one["no variable"]


def test_options_of_old_scripts(found: Found) -> None:
    for one in found["old_options"]:
        assert "unexpected keyword argument" in one["plain"]
        assert one["loaded"] == 0
        assert "Keras 3 does not have" in one["legacy"]


def test_a_state_goes_back_to_its_commit(found: Found) -> None:
    for one in found["restored"]:
        assert one == {"synced": 0, "after": [0] * 5, "epoch": 0}


def test_training_starts_again_from_its_last_commit(found: Found) -> None:
    for one in found["started_again"]:
        # Fails in the second epoch after three batches, of which the first two are kept.
        again = {"result": "done", "starts": [[0, 0], [1, 1]], "end": [4, 0]}
        assert one["callback"] == again
        assert one["batches"] == [*range(4), *range(3), *range(3), *range(4), *range(4)]
        assert one["step"] == again | {"starts": [[0, 0], [1, 0]]}
        assert all(first == second for first, second in one["same"])
        words = ["built", "not 3", "not 0", "batch=0", "epoch=0", "not 5", "not 6", "TensorFlow 1"]
        assert_said(one["refused"], words)


@pytest.mark.parametrize("backend", LATER)
def test_the_example_learns(backend: str, tmp_path: Path) -> None:
    printed = run_script(backend, tmp_path, ROOT / "examples" / "horovod_keras.py")
    assert float(printed.split()[-1].rstrip("%")) > 90
    assert (tmp_path / "horovod_digits.keras").exists()


@pytest.mark.parametrize("backend", LATER)
def test_the_program_of_the_report_learns(backend: str, tmp_path: Path) -> None:
    program = "examples.horovod_report.keras_program"
    printed = run_script(backend, ROOT, "-m", program, "--epochs", 12, "--output", tmp_path)
    (accuracy,) = re.findall(r"2 ranks: time .+ s, accuracy ([\d.]+)%, saved ", printed)
    assert float(accuracy) > 90
    assert (tmp_path / "model.keras").exists()
