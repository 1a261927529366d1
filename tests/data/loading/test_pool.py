"""Workers by themselves: what they are, what they say, how they end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from phalanx.data.loading.pool import Workers
from phalanx.data.own.collected import Collected
from phalanx.data.transforms import Draw
from phalanx.errors import LoadingError, UsageError
from tests.data.loading.datasets import Behaving, Drawn

#: A process that has workers and says which, and then waits to be killed.
PARENT = """
import time, torch
from phalanx.data.loading.pool import Workers
from phalanx.data.transforms import Draw
from tests.data.loading.datasets import Behaving
with Workers(1) as workers:
    reader = workers.reader(Behaving(), lambda samples: samples)
    print(reader.ask(torch.tensor([1]), Draw(0, 0)).result()[0]["process"], flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Workers]:
    with Workers(1) as workers:
        yield workers


@pytest.fixture(scope="module")
def behaving(one_worker: Workers) -> Collected:
    return Collected(Behaving()).beside(one_worker)


def ask(samples: Collected, *indices: int) -> Any:
    future = samples.ask(torch.tensor(indices), Draw(1, 2))
    assert future is not None
    return future.result(120)


def is_there(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_worker_is_a_process_without_mpi_that_leaves_signals_to_its_rank(
    behaving: Collected,
) -> None:
    batch = ask(behaving, 1, 2)
    assert batch["image"].tolist() == [[1.0] * 4, [2.0] * 4]
    assert set(batch["process"].tolist()) != {os.getpid()}
    assert batch["threads"].tolist() == [1, 1]
    for name in ("mpi", "variables", "hears"):
        assert batch[name].tolist() == [0, 0], name


def test_an_error_of_a_sample_comes_with_its_index_and_the_workers_traceback(
    behaving: Collected,
) -> None:
    with pytest.raises(ValueError, match=r"^the file of a sample is damaged") as caught:
        ask(behaving, 6, 7)
    notes = "\n".join(caught.value.__notes__)
    assert "sample 7 of the data set" in notes
    assert "in worker process" in notes
    assert "in __getitem__" in notes
    assert ask(behaving, 5)["image"].shape == (1, 4)  # it goes on


def test_an_error_that_cannot_be_sent_is_told(behaving: Collected) -> None:
    with pytest.raises(RuntimeError, match=r"^UnlikeOthersError: one and another"):
        ask(behaving, 8)


def test_an_error_of_the_collate_function_names_the_samples(behaving: Collected) -> None:
    with pytest.raises((RuntimeError, KeyError)) as caught:
        ask(behaving, 10, 11)
    assert "samples 10, 11 of the data set were collated" in "\n".join(caught.value.__notes__)


def test_without_workers_an_error_names_the_sample_as_well() -> None:
    with pytest.raises(ValueError, match="damaged") as caught:
        Collected(Behaving()).fetch(torch.tensor([7]))
    assert "sample 7 of the data set" in "\n".join(caught.value.__notes__)


def test_random_numbers_are_those_that_this_process_would_draw(one_worker: Workers) -> None:
    here = Collected(Drawn())
    there = here.beside(one_worker)  # one more data set for the same workers
    indices = torch.tensor([3, 21, 0])
    state = torch.get_rng_state()
    read, made = ask(there, *indices.tolist()), here.fetch(indices, Draw(1, 2))
    assert all(torch.equal(one, other) for one, other in zip(read, made, strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_functions_of_no_module_are_sent_by_value(one_worker: Workers) -> None:
    scale = 3.0
    samples = Collected(
        Drawn(), collate=lambda some: [scale * one for one in default_collate(some)]
    )
    (images, _), (scaled, _) = ask(samples.beside(one_worker), 1), samples.fetch(torch.tensor([1]))
    assert images.shape == scaled.shape == (1, 12)


def test_a_worker_that_is_killed_is_named_to_whoever_waits_and_to_who_comes() -> None:
    with Workers(1) as workers:
        samples = Collected(Behaving(), collate=slowly).beside(workers)
        process = int(ask(samples, 1)[0]["process"])
        future = samples.ask(torch.tensor([2, 3]), None)  # two samples: it sleeps
        assert future is not None
        os.kill(process, signal.SIGKILL)
        with pytest.raises(LoadingError, match=f"process {process}, was ended by SIGKILL"):
            future.result(120)
        with pytest.raises(LoadingError, match="with fewer workers or workers=0"):
            ask(samples, 1)


def slowly(samples: list[Any]) -> list[Any]:
    time.sleep(600 * (len(samples) - 1))
    return samples


def test_closing_ends_idle_and_busy_workers() -> None:
    with Workers(2) as workers:
        samples = Collected(Behaving(), collate=slowly).beside(workers)
        futures = [samples.ask(torch.tensor([1]), None) for _ in range(2)]
        processes = {int(one.result(120)[0]["process"]) for one in futures if one is not None}
        assert len(processes) == 2
        samples.ask(torch.tensor([2, 3]), None)
    assert not any(map(is_there, processes))
    with pytest.raises(LoadingError, match="closed"):
        samples.ask(torch.tensor([1]), None)


def test_workers_end_with_their_rank_however_it_ends() -> None:
    command = [sys.executable, "-c", PARENT]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert is_there(worker)
        parent.kill()
        wait_for(lambda: not is_there(worker))


def test_what_cannot_be_pickled_is_refused_by_name() -> None:
    data = Drawn()
    data.lock = threading.Lock()  # type: ignore[attr-defined]
    with (
        Workers(1) as workers,
        pytest.raises(UsageError, match=r"a Drawn, .* cannot be pickled .*workers=0"),
    ):
        Collected(data).beside(workers)


def test_a_data_set_that_cannot_be_made_again_is_an_error_of_its_samples(
    one_worker: Workers,
) -> None:
    samples = Collected([1, 2], collate=OnlyOnce()).beside(one_worker)
    with pytest.raises(ValueError, match="made once") as caught:
        ask(samples, 0)
    assert "could not be made again in a worker" in "\n".join(caught.value.__notes__)


class OnlyOnce:
    """What can be sent, and not received."""

    def __call__(self, samples: list[Any]) -> Any:
        return samples

    def __reduce__(self) -> Any:
        return refuse, ()


def refuse() -> None:
    raise ValueError("this is made once")
