"""An option's one check, spelt as a flag and as an argument, and its one help."""

from pathlib import Path
from typing import Any, Literal

import pytest

from phalanx.errors import UsageError
from phalanx.kinds import convert
from phalanx.options import Option
from phalanx.wording import flag


def refusal(option: Option, value: Any) -> tuple[str, str]:
    """What is said about a value, in Python and on the command line."""
    with pytest.raises(UsageError) as in_python:
        option.check(value)
    with pytest.raises(UsageError) as on_the_line:
        option.check(value, spell=flag)
    return str(in_python.value), str(on_the_line.value)


@pytest.mark.parametrize(
    ("limits", "value", "wanted"),
    [
        ({"at_least": 1}, 0, "at least 1, not 0"),
        ({"at_least": 0}, -1, "0 or more, not -1"),
        ({"at_least": 0, "below": 1}, 1.0, "from 0 to below 1, not 1.0"),
        ({"at_least": 0, "below": 2**63}, 2**63, f"from 0 to below 2^63, not {2**63}"),
        ({"above": 0}, 0.0, "above 0, not 0.0"),
        ({"above": 0, "below": 1}, 1.5, "above 0 and below 1, not 1.5"),
        ({"below": 2}, 2, "below 2, not 2"),
        ({"above": 0}, float("nan"), "above 0, not nan"),
        ({"at_least": 0}, float("inf"), "0 or more, not inf"),
        ({}, "much", "a number, not 'much'"),
        ({"at_least": 0}, True, "a number, 0 or more, not True"),
    ],
)
def test_limits_are_said_once(limits: dict[str, Any], value: Any, wanted: str) -> None:
    option = Option("clip_norm", float, "", **limits)
    assert refusal(option, value) == (
        f"clip_norm must be {wanted}",
        f"--clip-norm must be {wanted}",
    )
    option.check(None)
    option.check(0.5 if limits.get("at_least") != 1 else 2)


def test_choices_meet_the_nearest() -> None:
    option = Option("kind", str, "", choices=("relu", "tanh"))
    option.check("tanh")
    assert refusal(option, "tahn")[1] == (
        "--kind must be one of relu, tanh, not 'tahn': did you mean 'tanh'?"
    )
    assert refusal(option, 3)[0] == "kind must be a text, not 3"


def test_each_of_several_numbers_is_within_the_limits() -> None:
    option = Option("hidden", tuple[int, ...], "", at_least=1)
    option.check(())
    option.check([8, 4])
    assert refusal(option, (8, 0))[0] == (
        "hidden must be whole numbers such as 128,64, at least 1, not (8, 0)"
    )


def test_a_rule_of_its_own_gets_the_spelling() -> None:
    def odd(value: int, spelled: str) -> None:
        if value % 2 == 0:
            raise UsageError(f"{spelled} must be odd")

    option = Option("kernel_size", int, "", rule=odd)
    option.check(3)
    assert refusal(option, 4) == ("kernel_size must be odd", "--kernel-size must be odd")


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"default": 8}, "Steps. [default: 8]"),
        ({"default": 1}, "Steps. [default: 1]"),
        ({"default": (8, 4)}, "Steps. [default: 8,4]"),
        ({"default": False}, "Steps."),
        ({"default": True}, "Steps. [default: on]"),
        ({"default_words": "all"}, "Steps. [default: all]"),
        ({"choices": ("a", "b"), "default": "a"}, "Steps. One of: a, b. [default: a]"),
        ({}, "Steps."),
    ],
)
def test_help(about: dict[str, Any], text: str) -> None:
    assert Option("steps", str, "Steps.", **about).text == text


@pytest.mark.parametrize(
    ("value", "kind", "converted"),
    [
        ("128, 64", tuple[int, ...], (128, 64)),
        ("", tuple[int, ...], ()),
        ([1, 2], tuple[int, ...] | None, (1, 2)),
        ("top-5,mse", tuple[str, ...], ("top-5", "mse")),
        ("full", int | Literal["full"] | None, "full"),
        ("64", int | Literal["full"] | None, 64),
        (1, float, 1.0),
        ("a/b", Path | None, Path("a/b")),
        (None, int | None, None),
        (True, bool, True),
    ],
)
def test_values_become_what_their_kind_wants(value: Any, kind: Any, converted: Any) -> None:
    found = convert(value, kind, where="here")
    assert found == converted
    assert type(found) is type(converted)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("half", int | Literal["full"] | None, "a whole number or 'full', not 'half'"),
        (True, int, "a whole number, not True"),
        (2.5, int, "a whole number, not 2.5"),
        (None, int, "a whole number, not None"),
        (1, bool, "true or false, not 1"),
        ("1,x", tuple[int, ...], "whole numbers such as 128,64, not '1,x'"),
        (3, str, "a text, not 3"),
    ],
)
def test_values_of_another_kind(value: Any, kind: Any, wanted: str) -> None:
    with pytest.raises(UsageError) as refused:
        convert(value, kind, where="--this")
    assert str(refused.value) == f"--this must be {wanted}"
