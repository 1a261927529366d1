"""The self-test of collectives: right on ranks that are, and it notices those that are not."""

from collections.abc import Sequence

import pytest
import torch

from phalanx.comm.base import Call, Communicator, Request
from phalanx.comm.wrapped import WrappedCommunicator
from phalanx.observe.doctor.links import measure_link
from phalanx.observe.doctor.verbs import TRIALS


@pytest.mark.ranks(1, 2, 3)
def test_all_verbs_are_right(comm: Communicator) -> None:
    assert {name for name, trial in TRIALS.items() if not trial(comm)} == set()


class Forgetful(WrappedCommunicator):
    """Carries out every call, and spoils the last number that it gives."""

    def run(self, call: Call) -> None:
        self._inner.run(call)
        if call.receive is not None:
            torch.as_tensor(call.receive)[-1] += 1

    def start(self, call: Call) -> Request:
        return self._inner.start(call)

    def wait_any(self, requests: Sequence[Request]) -> int:
        return self._inner.wait_any(requests)

    def _wrap(self, inner: Communicator) -> Communicator:
        return Forgetful(inner)


@pytest.mark.ranks(2)
def test_wrong_numbers_are_noticed(comm: Communicator) -> None:
    spoilt = Forgetful(comm)
    for name, trial in TRIALS.items():
        seen = comm.allgather_objects(trial(spoilt))
        assert all(seen) == (name == "barrier"), name


@pytest.mark.ranks(2)
def test_a_link_has_a_latency_and_a_bandwidth(comm: Communicator) -> None:
    link = measure_link(comm, 1)
    assert link["rank"] == 1
    assert link["latency"] > 0
    assert link["bandwidth"] > 0
