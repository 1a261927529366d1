import re

import pytest
import torch

from phalanx.errors import UsageError
from phalanx.models import ModelEntry, build, check, describe, model_names


def test_names() -> None:
    assert model_names()[:3] == ("logistic", "mlp", "simplecnn")
    assert tuple(entry.name for entry in describe()) == model_names()
    assert len(set(model_names())) == len(model_names())
    own = {entry.name: [option.name for option in entry.options] for entry in describe()}
    assert own.pop("mlp") == ["hidden", "activation", "output_activation", "standardise"]
    assert own.pop("transformer") == [
        *("blocks", "attention_heads", "embedding_size", "dropout_rate"),
    ]
    assert not any(own.values())


def smallest(entry: ModelEntry) -> int | None:
    found = re.search(r"images of (\d+)×\1 pixels or more", entry.summary)
    return int(found[1]) if found else None


@pytest.mark.parametrize("entry", describe(), ids=lambda entry: entry.name)
def test_images_below_those_of_the_summary_are_refused(entry: ModelEntry) -> None:
    pixels = smallest(entry)
    if pixels is None:
        assert entry.summary.endswith("data set text" if entry.reads_tokens else "of any shape")
        return
    with pytest.raises(UsageError, match=f"{entry.name} needs images of {pixels}×{pixels}"):
        build(entry.name, input_shape=(1, pixels, pixels - 1), classes=3)


@pytest.mark.parametrize(
    "entry",
    {entry.module: entry for entry in reversed(describe()) if smallest(entry)}.values(),
    ids=lambda entry: entry.name,
)
def test_the_smallest_images_of_the_summary_fit(entry: ModelEntry) -> None:
    pixels = smallest(entry)
    assert pixels is not None
    shape = (2, pixels, pixels + 9)
    with torch.device("meta"):
        model = build(entry.name, input_shape=shape, classes=3)
        assert model(torch.zeros(2, *shape)).shape == (2, 3)


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("mpl", r"unknown model 'mpl': did you mean 'mlp'"),
        ("SimpleCNN", "did you mean 'simplecnn'"),
        ("inception_v3", "did you mean 'inception-v3'"),
        ("MobileNet", "did you mean 'mobilenet-v1'"),
        ("quux", r"There are: logistic, mlp, .*; your own is named as path/to/file.py:function"),
        ("my/model.py", "your own is named as path/to/file.py:function"),
    ],
)
def test_an_unknown_name_meets_the_nearest(name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, {})


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("simplecnn", {"hidden": (4,)}, r"simplecnn takes no options but init, not hidden=\(4,\)"),
        (
            "mlp",
            {"width": 4},
            "mlp takes hidden, activation, output_activation, standardise, init, not width=4",
        ),
        ("mlp", {"hidden": (4, 0)}, r"^hidden must be whole numbers .*, at least 1, not \(4, 0\)"),
        ("mlp", {"hidden": "64"}, r"^hidden must be whole numbers such as 128,64, not '64'"),
        ("mlp", {"hidden": 64}, "hidden must be .* not 64"),
        ("mlp", {"hidden": [1.5]}, r"hidden must be .* not \[1.5\]"),
        ("mlp", {"hidden": [True]}, r"hidden must be .* not \[True\]"),
        (
            "mlp",
            {"activation": "gelu"},
            "must be one of relu, tanh, sigmoid, not 'gelu'",
        ),
        ("mlp", {"standardise": "yes"}, "standardise must be true or false, not 'yes'"),
        ("vgg11", {"init": 0.12}, "init must be a text, not 0.12"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, object], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, options)


def test_good_options_pass() -> None:
    check("mlp", {"hidden": [64, 32], "activation": "sigmoid", "standardise": True})
    check("vgg11", {"init": "normal:0.01"})
    check("simplecnn")
