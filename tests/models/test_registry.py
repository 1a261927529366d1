import pytest

from phalanx.errors import UsageError
from phalanx.models import check, describe, model_names


def test_names() -> None:
    assert model_names()[:2] == ("mlp", "simplecnn")
    assert tuple(entry.name for entry in describe()) == model_names()
    assert [option.name for option in describe()[0].options] == ["hidden", "activation"]


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("mpl", r"unknown model 'mpl': did you mean 'mlp'"),
        ("SimpleCNN", "did you mean 'simplecnn'"),
        ("quux", r"There are: mlp, simplecnn, .*; your own is named as path/to/file.py:function"),
        ("my/model.py", "your own is named as path/to/file.py:function"),
    ],
)
def test_an_unknown_name_meets_the_nearest(name: str, cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, {})


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("simplecnn", {"hidden": (4,)}, r"simplecnn takes no options, got hidden=\(4,\)"),
        ("mlp", {"width": 4}, "mlp takes hidden, activation, got width=4"),
        ("model.py:net", {"hidden": (4,)}, "model.py:net takes no options, got hidden"),
        ("mlp", {"hidden": (4, 0)}, r"hidden must be .* got \(4, 0\)"),
        ("mlp", {"hidden": "64"}, r"hidden must be .* got '64'"),
        ("mlp", {"hidden": 64}, "hidden must be .* got 64"),
        ("mlp", {"hidden": [1.5]}, r"hidden must be .* got \[1.5\]"),
        ("mlp", {"hidden": [True]}, r"hidden must be .* got \[True\]"),
        ("mlp", {"activation": "gelu"}, "one of relu, tanh, sigmoid, got 'gelu'"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, object], cause: str) -> None:
    with pytest.raises(UsageError, match=cause):
        check(name, options)


def test_good_options_pass() -> None:
    check("mlp", {"hidden": [64, 32], "activation": "sigmoid"})
    check("simplecnn")
