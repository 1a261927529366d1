"""What comes out of a message is what went in, to the stride."""

from collections import namedtuple

import pytest
import torch
from torch import Tensor

from phalanx.data.loading.memory import read_apart, write_apart
from phalanx.data.loading.packing import layout, pack, unpack

Pair = namedtuple("Pair", "first second")
LARGE = torch.arange(4 * 8 * 16 * 16, dtype=torch.float32).reshape(4, 8, 16, 16)
TENSORS = {
    "large": LARGE,
    "small": torch.arange(6).reshape(2, 3),
    "channels last": LARGE.to(memory_format=torch.channels_last),
    "transposed": LARGE.reshape(64, -1).T,
    "every other": LARGE[:, ::2],
    "expanded": torch.ones(1, 5).expand(1000, 5),
    "one number": torch.tensor(3.5),
    "nothing": torch.empty(0, 7),
    "bfloat16": LARGE.to(torch.bfloat16),
    "complex": torch.complex(LARGE, LARGE),
    "conjugate": torch.complex(LARGE, LARGE).conj(),
    "bool": LARGE > 5,
    "sparse": torch.eye(3).to_sparse(),
    "of a gradient": torch.ones(2000, requires_grad=True),
}


def round_trip(value: object) -> object:
    descriptor, spans = write_apart(pack(value))
    text, *buffers = read_apart(descriptor, spans)
    return unpack(text, buffers)


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_come_back_as_they_were(name: str) -> None:
    tensor = TENSORS[name]
    back = round_trip(tensor)
    assert isinstance(back, Tensor)
    assert back.dtype == tensor.dtype
    assert back.requires_grad == tensor.requires_grad
    assert torch.equal(back.to_dense(), tensor.to_dense())
    if tensor.layout is torch.strided:
        assert (back.shape, back.stride()) == (tensor.shape, tensor.stride())
        assert back.data_ptr() % 64 == 0


def test_a_large_tensor_is_memory_of_its_own_and_not_text() -> None:
    packed = pack([LARGE, LARGE.to(torch.uint8).numpy()])
    assert len(packed.text) < 1000
    assert [one.nbytes for one in packed.buffers] == [LARGE.nbytes, LARGE.numel()]


def test_nests_keep_their_kinds() -> None:
    back = round_trip(Pair({"a": [LARGE]}, ("text", None)))
    assert isinstance(back, Pair)
    assert back.second == ("text", None)
    assert torch.equal(back.first["a"][0], LARGE)


def test_buffers_are_aligned_one_after_the_other() -> None:
    assert layout([1, 64, 3], start=70) == [(128, 129), (192, 256), (256, 259)]
    assert layout([]) == []
