"""Draws what moves between ranks under each strategy: docs/strategies/pictures/NAME.svg.

    .venv/bin/python tools/strategy_pictures.py

One style for all: teal is weights, orange gradients, violet what an optimizer keeps, blue samples
and activations. The colours follow the reader's light or dark screen; the site, which has a switch
of its own for that, puts the pictures into its pages (tools/docs_site.py).
"""

from collections.abc import Callable
from pathlib import Path

from phalanx.strategies.pipeline.schedule import Operation, one_forward_one_backward

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "strategies" / "pictures"
WIDTH = 640
STYLE = """
.moves { --ink: #22313a; --line: #9fb0b8; --panel: #f3f6f7; --weights: #0f7b7b; --gradient: #c2540a;
  --state: #6d4bb8; --samples: #2f6db5; --paper: #fff; font: 15px system-ui, sans-serif }
@media (prefers-color-scheme: dark) { .moves { --ink: #e4ebee; --line: #607480; --panel: #26323a;
  --weights: #3fb6ae; --gradient: #f0924a; --state: #b39cf0; --samples: #7fb2ee;
  --paper: #1c262c } }
.moves text { fill: var(--ink); text-anchor: middle } .moves .left { text-anchor: start }
.moves .small { font-size: 13px } .moves .on { fill: var(--paper); font-size: 13px }
.moves .box { fill: var(--panel); stroke: var(--line) }
.moves .cut { stroke: var(--paper); stroke-width: 3 }
.moves .weights { fill: var(--weights) } .moves .gradient { fill: var(--gradient) }
.moves .state { fill: var(--state) } .moves .samples { fill: var(--samples) }
.moves .go { fill: none; stroke-width: 2.5 }
.moves .host { fill: none; stroke: var(--line); stroke-dasharray: 6 5 }
.moves .go.weights { stroke: var(--weights) } .moves .go.gradient { stroke: var(--gradient) }
.moves .go.samples { stroke: var(--samples) } .moves .go.line { stroke: var(--line) }
"""
KINDS = ("weights", "gradient", "samples", "line")
COLUMNS = (20, 230, 440)
BOX = 180


def rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def text(words: str, x: float, y: float, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{words}</text>'


def small(words: str, x: float, y: float) -> str:
    return text(words, x, y, "small")


def chip(kind: str, words: str, x: float, y: float, width: float = 148) -> str:
    return rect(kind, x, y, width, 26) + text(words, x + width / 2, y + 18, "on")


def go(kind: str, *points: tuple[float, float], both: bool = False) -> str:
    """An arrow along some points."""
    path = " L".join(f"{x} {y}" for x, y in points)
    start = f' marker-start="url(#{kind})"' if both else ""
    return f'<path class="go {kind}" d="M{path}"{start} marker-end="url(#{kind})"/>'


def rank(name: str, x: float, y: float, *chips: tuple[str, str], width: float = BOX) -> str:
    """A rank, and what it has."""
    body = rect("box", x, y, width, 34 + 32 * len(chips)) + text(name, x + width / 2, y + 22)
    for number, (kind, words) in enumerate(chips):
        body += chip(kind, words, x + 16, y + 32 + 32 * number, width - 32)
    return body


def single() -> tuple[int, str]:
    parts = [("samples", "the whole batch"), ("weights", "weights"), ("gradient", "gradient")]
    body = rank("rank 0", 230, 8, *parts, ("state", "optimizer"))
    body += go("gradient", (416, 118), (470, 118), (470, 86), (416, 86))
    return 190, body + text("step", 492, 107) + text("nothing moves", 110, 95)


def allreduce() -> tuple[int, str]:
    body = ""
    for number, x in enumerate(COLUMNS):
        parts = [("samples", "a part of the batch"), ("weights", "weights"), ("state", "optimizer")]
        body += rank(f"rank {number}", x, 8, *parts, ("gradient", "gradient"))
        body += go("gradient", (x + 90, 172), (x + 90, 212), both=True)
    body += rect("gradient", 20, 216, 600, 30)
    body += text("MPI_Allreduce: the sum of all gradients, on every rank", 320, 236, "on")
    return 276, body + small("once a step; then every rank makes the same update", 320, 268)


def central() -> tuple[int, str]:
    body = rect("host", 4, 4, 632, 326)
    for number, x in enumerate(COLUMNS):
        parts = [("samples", "a part of the batch"), ("state", "optimizer of its slice")]
        body += rank(f"rank {number}", x, 14, *parts)
        body += go("gradient", (x + 60, 114), (x + 60, 150))
        body += go("weights", (x + 120, 150), (x + 120, 114))
        body += small("writes", x + 30, 137) + small("reads", x + 148, 137)
    body += rect("box", 14, 154, 612, 144)
    for number in range(3):
        body += rect("gradient", 20, 162 + 33 * number, 600, 27)
        body += text(f"gradient of rank {number}", 102, 180 + 33 * number, "on")
    body += rect("weights", 20, 261, 600, 30) + '<path class="cut" d="M220 158V296M420 158V296"/>'
    for number, x in enumerate((120, 320, 520)):
        body += text(f"weights, slice of rank {number}", x, 281, "on")
    body += small("memory that the ranks of a host share", 320, 319)
    return 362, body + small("between hosts: each slice, once a step, by MPI", 320, 352)


def _served(first: tuple[str, ...], *, names: tuple[str, ...], top: int) -> str:
    kinds = {"weights": "weights", "optimizer": "state", "all samples": "samples"}
    kinds |= {"a part": "samples", "gradient": "gradient"}
    body = rank("rank 0", 160, 8, *((kinds[one], one) for one in first), width=320)
    for number, x in enumerate(COLUMNS):
        parts = [("samples", "a part of the batch"), ("weights", "weights")]
        body += rank(names[number], x, top, *parts, ("gradient", "gradient"))
    return body


def server() -> tuple[int, str]:
    body = _served(("weights", "optimizer"), names=("rank 1", "rank 2", "rank 3"), top=178)
    for start, x in ((230, 80), (300, 300), (390, 510)):
        body += go("gradient", (x, 174), (start, 112))
        body += go("weights", (start + 26, 112), (x + 34, 174))
    body += small("gradients up", 80, 130) + small("weights down", 560, 130)
    return 334, body + text(
        "once a step; rank 0 waits for all, and does not train", 320, 326, "small"
    )


def gather() -> tuple[int, str]:
    body = rank("rank 0", 160, 8, *(("samples", "all samples"), ("weights", "weights")), width=320)
    body = body.replace('height="98"', 'height="130"')
    body += chip("state", "optimizer", 176, 104, 136) + chip("gradient", "gradient", 328, 104, 136)
    for number, x in enumerate(COLUMNS, 1):
        parts = [("samples", "a part of the batch"), ("weights", "weights")]
        body += rank(f"rank {number}", x, 210, *parts, ("gradient", "gradient"))
    for start, x in ((210, 60), (292, 282), (380, 500)):
        body += go("samples", (start, 144), (x, 206)) + go(
            "gradient", (x + 28, 206), (start + 26, 144)
        )
        body += go("weights", (start + 52, 144), (x + 56, 206))
    body += small("1 scatter the batch", 80, 60) + text("2 gather gradients", 80, 84, "small")
    body += small("3 step, alone", 80, 108) + small("4 broadcast weights", 565, 108)
    return 366, body + small("once a step; rank 0 trains, too", 320, 358)


def asynchronous() -> tuple[int, str]:
    names = ("rank 1, at batch 41", "rank 2, at batch 43", "rank 3, at batch 42")
    body = _served(("weights", "optimizer"), names=names, top=178)
    body += go("gradient", (80, 174), (230, 112)) + go("weights", (326, 112), (334, 174))
    body += go("gradient", (510, 174), (390, 112))
    body += small("a gradient comes", 80, 130) + text("and is applied at once", 566, 130, "small")
    note = "nobody waits for all: --max-staleness bounds how far ranks run ahead"
    return 334, body + small(note, 320, 326)


def local() -> tuple[int, str]:
    body = ""
    for number in range(3):
        y = 24 + 56 * number
        body += text(f"rank {number}", 44, y + 20) + go("line", (84, y + 15), (616, y + 15))
        for step in range(8):
            x = 96 + 34 * step if step < 4 else 340 + 34 * (step - 4)
            body += rect("gradient", x, y, 26, 30)
    for x in (240, 484):
        body += rect("weights", x, 14, 84, 170)
        body += text("mean of", x + 42, 95, "on") + text("weights", x + 42, 113, "on")
    body += small("steps of a rank alone, with its own optimizer and part", 200, 212)
    return 222, body + small("once every --every steps", 526, 212)


def pipeline() -> tuple[int, str]:
    body = ""
    for number, x in enumerate((20, 250, 480)):
        words = ("first layers", "middle layers", "last layers")[number]
        parts = [("weights", words), ("state", "their optimizer")]
        body += rank(f"rank {number}", x, 8, *parts, width=140)
    for x in (164, 394):
        body += go("samples", (x, 44), (x + 82, 44)) + go("gradient", (x + 82, 82), (x, 82))
        body += small("activations", x + 41, 34) + small("gradients", x + 41, 104)
    for number, line in enumerate(_timeline(stages=3, micro_batches=4)):
        y = 132 + 34 * number
        body += small(f"rank {number}", 44, y + 19)
        for start, done in line.items():
            kind, x = "gradient" if done.kind == "backward" else "samples", 88 + 44 * start
            body += rect(kind, x, y, 40, 28) + text(f"{done.micro_batch + 1}", x + 20, y + 19, "on")
    note = "time: micro-batches 1 to 4 forward (blue) and backward (orange)"
    return 262, body + small(note, 320, 254)


def _timeline(*, stages: int, micro_batches: int) -> list[dict[int, Operation]]:
    """When each stage begins which pass, if every pass takes as long and messages no time."""
    left = [
        list(one_forward_one_backward(stage, stages=stages, micro_batches=micro_batches))
        for stage in range(stages)
    ]
    ends: dict[tuple[int, Operation], int] = {}
    lines: list[dict[int, Operation]] = [{} for _ in left]
    for now in range(4 * stages * micro_batches):
        for stage, waiting in enumerate(left):
            if not waiting:
                continue
            before = stage - 1 if waiting[0].kind == "forward" else stage + 1
            if before in (-1, stages) or ends.get((before, waiting[0]), now + 1) <= now:
                lines[stage][now] = waiting.pop(0)
                ends[stage, lines[stage][now]] = now + 1
    return lines


def tensor() -> tuple[int, str]:
    body = ""
    for number, x in enumerate(COLUMNS):
        body += rank(f"rank {number}", x, 8, ("samples", "the whole batch"))
        body += rect("box", x, 84, BOX, 76) + rect("weights", x + 22 + 46 * number, 92, 42, 60)
        body += f'<rect class="go line" x="{x + 20}" y="90" width="140" height="64"/>'
        body += rect("box", x, 170, BOX, 76) + rect("weights", x + 22, 178 + 20 * number, 136, 18)
        body += f'<rect class="go line" x="{x + 20}" y="176" width="140" height="64"/>'
        body += go("samples", (x + 90, 248), (x + 90, 276), both=True)
    body += rect("samples", 20, 280, 600, 30)
    body += text("the sum of activations; backward the same of their gradients", 320, 300, "on")
    note = "two layers, the first cut by outputs, the second by inputs: ranks meet once a pair"
    return 336, body + small(note, 320, 330)


PICTURES: dict[str, Callable[[], tuple[int, str]]] = {
    "single": single,
    "allreduce": allreduce,
    "central": central,
    "server": server,
    "gather": gather,
    "async": asynchronous,
    "local": local,
    "pipeline": pipeline,
    "tensor": tensor,
}


def drawn(name: str) -> str:
    """The picture of a strategy."""
    height, body = PICTURES[name]()
    heads = "".join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" '
        'orient="auto-start-reverse">'
        f'<path d="M0 0L8 4L0 8z" style="fill: var(--{kind})"/></marker>'
        for kind in KINDS
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="moves" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="What moves between ranks under {name}">\n<style>{STYLE}</style>\n'
        f"<defs>{heads}</defs>\n{body.replace('><', '>' + chr(10) + '<')}\n</svg>\n"
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PICTURES:
        (FOLDER / f"{name}.svg").write_text(drawn(name))
