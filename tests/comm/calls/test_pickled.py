"""Functions, arguments and results as bytes: tensors once, and what cannot be sent by name."""

import pickle
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
from torch import nn

from phalanx.comm.calls.pickled import Call, dumps, loads, pack_call
from phalanx.errors import UsageError


def test_tensors_that_share_memory_are_sent_once_and_share_it_again() -> None:
    flat = torch.arange(100_000.0)
    views = [flat[start : start + 100] for start in range(0, 1000, 100)]
    sent = dumps(views)
    assert len(sent) < 2 * 4 * len(flat) < len(pickle.dumps(views))
    received = loads(sent)
    assert all(torch.equal(one, other) for one, other in zip(received, views, strict=True))
    received[1][0] = -1
    assert received[0].untyped_storage().data_ptr() == received[1].untyped_storage().data_ptr()


def test_a_model_of_a_class_that_is_in_no_module() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.second = nn.Linear(3, 3)
            self.second.weight = self.first.weight

    model = Twice()
    received = loads(dumps(model))
    assert type(received) is Twice
    assert received.first.weight is received.second.weight
    for name, tensor in model.state_dict().items():
        assert torch.equal(received.state_dict()[name], tensor)


def test_what_has_no_tensors_is_read_without_torch() -> None:
    read = "import sys; from phalanx.comm.calls.pickled import loads; "
    read += "print(loads(sys.stdin.buffer.read()), 'torch' in sys.modules)"
    sent = dumps({"accuracy": 0.5})
    done = subprocess.run([sys.executable, "-c", read], input=sent, capture_output=True, check=True)
    assert done.stdout == b"{'accuracy': 0.5} False\n"


def test_a_call() -> None:
    base = 10

    def power(exponent: int, *, plus: int) -> Any:
        return base**exponent + plus

    call: Call = loads(pack_call(power, [2], {"plus": 1}))
    assert call.function(*call.args, **call.keywords) == 101


def test_what_cannot_be_sent_is_named() -> None:
    lock = threading.Lock()

    def locked() -> Any:
        return lock

    with pytest.raises(UsageError, match=r"lock \(of type lock\), which .*locked uses, cannot be"):
        pack_call(locked, (), {})
    with pytest.raises(
        UsageError, match=r"argument 2 \(of type lock\) cannot be sent .*cannot pic"
    ):
        pack_call(print, (1, lock), {})
    with pytest.raises(UsageError, match=r"argument end \(of type generator\) cannot be sent"):
        pack_call(print, (), {"end": (one for one in "abc")})
    with pytest.raises(UsageError, match=r"the function lock\.acquire cannot be sent"):
        pack_call(lock.acquire, (), {})
