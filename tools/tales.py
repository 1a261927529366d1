"""Writes the text that ships with the package, `text.txt`: short tales, by a small grammar.

    .venv/bin/python tools/tales.py > src/phalanx/data/embedded/text.txt

Who, what and where are drawn once a tale, and come again in it: there is something to learn about
letters, words, sentences, and what stands many sentences before.
"""

import random
from collections.abc import Sequence

COUNT = 330

PEOPLE = {
    "miller": ("Anselm", "Berit", "Corvin", "Dagny"),
    "weaver": ("Edda", "Fenno", "Gisla", "Hauke"),
    "smith": ("Ilse", "Joris", "Keno", "Lioba"),
    "shepherd": ("Maren", "Njord", "Odilia", "Piet"),
    "ferryman": ("Quint", "Runa", "Sverre", "Tilda"),
    "baker": ("Ulla", "Veit", "Wenke", "Yorick"),
}
PLACES = ("the mill", "the harbour", "the old bridge", "the well", "the forest", "the market")
THINGS = ("a silver key", "a clay pot", "a red lantern", "a wooden flute", "a bag of salt")
BEASTS = ("fox", "heron", "goat", "raven", "hedgehog", "badger")
WEATHER = ("the wind blew from the sea", "the snow lay deep", "the sun stood high", "it rained")
TIMES = ("One morning", "One evening", "On market day", "In the last days of autumn", "At midnight")
LESSONS = (
    "Who asks twice, walks once.",
    "A borrowed thing weighs more than one's own.",
    "The slow foot finds the dry stone.",
    "Bread that is shared does not grow old.",
    "What is hidden well is lost well.",
)
NUMBERS = ("two", "three", "four", "five", "six", "seven")


#: The sentences of a tale, one of each kind; a new line begins where a kind says so.
KINDS = (
    (
        "{time}, when {weather}, {name} the {trade} went to {place}. ",
        "There was a {trade} whose name was {name}, and who lived near {place}. ",
        "{name} the {trade} had lost {thing}, and looked for it at {place}. ",
    ),
    (
        "There sat a {beast}, which had found {thing}.\n",
        "A {beast} came along the path with {thing}.\n",
        "Behind a stone lay {thing}, and a {beast} kept watch over it.\n",
    ),
    (
        '"Give me the {bare}," said {name}, "and I will give you bread for {days} days."\n',
        '"Whose is the {bare}?" asked {name}. "It is mine," said the {beast}.\n',
        '"What do you want for the {bare}?" asked {name}. "Apples for {days} days," said the '
        "{beast}.\n",
    ),
    (
        "So they walked together to {other}, and it took them {days} days. ",
        "For {days} days they said no word, and {weather}. ",
        "The {beast} laughed, and ran to {other}, and {name} ran behind. ",
    ),
    (
        "In the end {name} had the {bare}, and the {beast} had a friend.\n",
        "Then the {beast} put down the {bare} and was never seen again at {place}.\n",
        "The {bare} fell into the water, and both went home with nothing.\n",
    ),
    ("Where {name} lived they still say: {lesson}\n",),
)


def tale(draw: random.Random) -> str:
    """A tale of four lines."""

    def one(of: Sequence[str]) -> str:
        return of[int(draw.random() * len(of))]

    trade, thing = one(tuple(PEOPLE)), one(THINGS)
    drawn = {
        "trade": trade,
        "name": one(PEOPLE[trade]),
        "thing": thing,
        "bare": thing.partition(" ")[2],
        "place": one(PLACES),
        "other": one(PLACES),
        "beast": one(BEASTS),
        "days": one(NUMBERS),
        "time": one(TIMES),
        "weather": one(WEATHER),
        "lesson": one(LESSONS),
    }
    return "".join(one(kind) for kind in KINDS).format(**drawn)


def text() -> str:
    """All tales, always the same ones."""
    draw = random.Random(1)
    return "\n".join(tale(draw) for _ in range(COUNT))


if __name__ == "__main__":
    print(text(), end="")
