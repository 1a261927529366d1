"""What stands behind `--vary`."""

from typing import Any

import pytest

from phalanx.errors import UsageError
from phalanx.observe.sweep.axes import parse_axis, shown, split_axis
from phalanx.settings.table import SETTINGS


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("ranks=1,2", "ranks", (1, 2)),
        ("batch-size=16,full", "batch_size", (16, "full")),
        ("--batch-size=16", "batch_size", (16,)),
        ("hidden=30,300,[300,300]", "hidden", ((30,), (300,), (300, 300))),
        ("hidden=[],[30]", "hidden", ((), (30,))),
        ("bind=true,off", "bind", (True, False)),
        ("learning-rate=0.1, 1e-3", "learning_rate", (0.1, 1e-3)),
        ("optimizer-options=[betas=0.9,0.95],eps=1e-6", None, ("betas=0.9,0.95", "eps=1e-6")),
    ],
)
def test_a_setting_and_its_values(text: str, name: str | None, values: Any) -> None:
    axis = parse_axis(text, SETTINGS)
    assert axis.values == values
    assert axis.name == (name or "optimizer_options")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ranks", "takes a setting and its values"),
        ("=1", "takes a setting and its values"),
        ("ranks=", "a value is missing"),
        ("ranks=1,,2", "a value is missing"),
        ("ranks=1,2,1", "has 1 twice"),
        ("ranks=1,01", "has 01 twice"),
        ("hidden=[1,2", "a bracket has no other one"),
        ("hidden=1],2", "a bracket has no other one"),
        ("hiden=1", "did you mean 'hidden'?"),
        ("ranks=0", "--vary ranks must be at least 1, not 0"),
        ("hidden=wide", "--vary hidden must be whole numbers"),
        ("optimizer=adm", "did you mean 'adam'?"),
        ("bind=perhaps", "--vary bind must be true or false"),
    ],
)
def test_what_is_none_is_refused(text: str, cause: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_axis(text, SETTINGS)
    assert cause in str(refused.value)


def test_values_as_they_are_written() -> None:
    assert split_axis("model=a.py:one,b.py:two") == ("model", ["a.py:one", "b.py:two"])
    assert [shown(one) for one in ((300, 300), True, 0.5, "sgd")] == [
        "300,300",
        "true",
        "0.5",
        "sgd",
    ]
