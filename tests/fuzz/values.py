"""Other values in files of text whose form stays right, so that whoever uses a value gets it."""

import json
from random import Random
from typing import Any

_VALUES: tuple[Any, ...] = (
    *(0, 1, -1, 2, 5, 1 << 31, 1 << 63, 1 << 64, 10**400, 0.5, 1e308, 1e-320, float("nan")),
    *(float("inf"), True, False, None, "", "a", "0", "-1", "1e999", "nan", "\0", "a" * 10_000),
    *(
        "\ud800",
        "\u202e",
        "..",
        "/dev/null",
        "iris",
        "mlp",
        "adam",
        "float32",
        "no.py:thing",
        "64x64",
    ),
    *([], [1], [-1], [0], ["a"], [[]], [1 << 40] * 3, [1] * 2000, {}, {"a": 1}, {"name": []}),
)
_CELLS = (
    *("", "0", "-1", "1e999", "nan", "inf", "1e308", "-", "?", "1,5", '"', '"a', 'a"b', "1" * 400),
    *(
        "\0",
        "\u202e",
        "\ufeff",
        "\u0663",
        "1_000",
        "0x1F",
        "a" * 200_000,
        "=1+1",
        " ",
        "\r",
        "\n",
        "1;2",
    ),
)


def change_json(content: bytes, random: Random) -> bytes:
    """Give another value to something in JSON, leave it out, or name it otherwise."""
    try:
        root = json.loads(content)
    except (ValueError, RecursionError):
        return content
    places = list(_places(root))
    if not places:
        return content
    inside, key = random.choice(places)
    if isinstance(inside, dict) and random.random() < 0.2:
        value = inside.pop(key)
        if random.random() < 0.5:
            inside[random.choice((key + "2", key.upper(), key.replace("_", "-"), ""))] = value
    else:
        inside[key] = random.choice(_VALUES)
    return json.dumps(root).encode()


def _places(value: Any) -> Any:
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def change_value(content: bytes, random: Random) -> bytes:
    """Give another value to one of the lines KEY = VALUE, or repeat it."""
    lines = content.decode(errors="replace").splitlines()
    numbers = [number for number, line in enumerate(lines) if "=" in line]
    if not numbers:
        return content
    number = random.choice(numbers)
    key = lines[number].partition("=")[0]
    if random.random() < 0.2:
        key = key.replace("-", "_") if random.random() < 0.5 else key.upper()
    value = random.choice(_VALUES)
    written = str(value) if isinstance(value, float) or random.random() < 0.3 else json.dumps(value)
    changed = f"{key}={written}"
    lines[number : number + (random.random() < 0.8)] = [changed]
    return "\n".join(lines).encode(errors="replace") + b"\n"


def change_cell(content: bytes, random: Random) -> bytes:
    """Write something else into one cell of a table."""
    rows = [line.split(",") for line in content.decode(errors="replace").split("\n")]
    row = random.choice(rows)
    row[random.randrange(len(row))] = random.choice(_CELLS)
    return "\n".join(",".join(row) for row in rows).encode()
