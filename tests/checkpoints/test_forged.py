"""A checkpoint.json whose checksum is right and that says what cannot be: refused all the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phalanx.checkpoints import read_checkpoint
from phalanx.checkpoints.document import NAME, SEAL, seal_of
from phalanx.checkpoints.reading import verify
from phalanx.errors import CheckpointError
from tests.checkpoints.examples import write_parts

WEIGHT, SLICED, SUMMED = "parameters/weight", "optimizer/weight/exp_avg", "metrics/sums"

Content = dict[str, Any]


def put(name: str, index: int, **fields: Any) -> Callable[[Content], None]:
    return lambda content: content["tensors"][name][index].update(fields)


def leave_out(name: str, index: int) -> Callable[[Content], None]:
    return lambda content: content["tensors"][name].pop(index)


FORGED: dict[str, tuple[Callable[[Content], Any], str]] = {
    "a gap": (put(SLICED, 1, start=6), "overlap, or one is missing"),
    "an overlap": (put(SLICED, 1, start=4), "overlap, or one is missing"),
    "a slice less": (leave_out(SLICED, 1), "are not all of it"),
    "a long slice": (put(SLICED, 1, length=8), "are not all of it"),
    "a negative slice": (put(SLICED, 0, start=-1), "a slice that cannot be"),
    "one dimension twice": (put(SLICED, 0, order=[1, 1]), "a slice that cannot be"),
    "another order": (put(SLICED, 1, order=[0, 1]), "are of different tensors"),
    "another shape": (put(SLICED, 0, shape=[4, 3]), "are of different tensors"),
    "a shape": (put(WEIGHT, 0, shape=[4, 3]), "its tensors are not those that"),
    "a huge shape": (put(WEIGHT, 0, shape=[1 << 40, 1 << 40]), "what cannot be"),
    "a shape of texts": (put(WEIGHT, 0, shape=["3", 4]), "what cannot be"),
    "another dtype": (put(WEIGHT, 0, dtype="int32"), "its tensors are not those that"),
    "no dtype": (put(WEIGHT, 0, dtype="float31"), "what cannot be"),
    "another kind": (put(WEIGHT, 0, kind="most"), "what cannot be"),
    "two kinds": (put(SUMMED, 0, kind="mean"), "do not go together"),
    "another file": (put(WEIGHT, 0, file="rank-1.safetensors"), "its tensors are not those that"),
    "a file elsewhere": (put(WEIGHT, 0, file="../rank-0.safetensors"), "what cannot be"),
    "a file of no rank": (put(WEIGHT, 0, file="rank-2.safetensors"), "not those that have"),
    "another key": (put(WEIGHT, 0, key="weight"), "what cannot be"),
    "a share less": (leave_out(SUMMED, 1), "its tensors are not those that"),
    "no parts": (lambda content: content["tensors"].update({WEIGHT: []}), "has no parts"),
    "a tensor less": (lambda content: content["tensors"].pop(WEIGHT), "are not those that"),
    "fewer ranks": (lambda content: content.update(ranks=1), "parts of more ranks"),
    "no step": (lambda content: content.update(step=-1), "not as they are written"),
    "no values": (lambda content: content.update(values=[]), "not as they are written"),
    "odd values": (lambda content: content.update(values={"a": {"$set": []}}), "is none that"),
    "a tuple": (lambda content: content.update(values={"$tuple": []}), "no dictionary"),
    "a list as a key": (
        lambda content: content.update(values={"$items": [[{"$tuple": [[]]}, 1]]}),
        "cannot be a key",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    forge, cause = FORGED[name]
    path = write_parts(tmp_path / "checkpoint")
    content = json.loads((path / NAME).read_text())
    del content[SEAL]
    forge(content)
    (path / NAME).write_text(json.dumps(content | {SEAL: seal_of(content)}))
    for look in (read_checkpoint, verify):
        with pytest.raises(CheckpointError, match=cause) as refused:
            look(path)
        assert str(refused.value).startswith(f"{path}/")
