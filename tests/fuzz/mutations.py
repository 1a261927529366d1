"""Files damaged on purpose, the same ones every time: what a disk, a network or a rogue does."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

Mutation = Callable[[bytes, Random], bytes]

#: Numbers that sizes are miscounted with.
_NUMBERS = (
    *(0, 1, 2, 3, 4, 7, 8, 16, 28, 100, 127, 128, 255, 256, 1000, 3072, 32767, 32768, 65535),
    *(65536, 1 << 20, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40),
    *((1 << 62), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2),
)
_WORDS = (
    *("0", "1", "-1", "99999999999", "1e999", "-1e-999", "nan", "inf", "", "1.5", "true", "null"),
    *("9223372036854775808", "4" * 5000, "1_000", "\u0663", "0x10", "[]", "{}", '"', "1,5"),
)
_TOKENS = (
    *(
        b"\0",
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b",",
        b";",
        b"\t",
        b'"',
        b"'",
        b"=",
        b"#",
        b"\\",
        b"[",
        b"{",
    ),
    *(
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"\x1f\x8b",
        b"PK",
    ),
    *(b"[" * 100_000, b'{"a":' * 100_000, b"(" * 5000, b"a." * 50_000, b"," * 50_000, b"\n" * 5000),
    *(b"../../etc/passwd", b"__class__", b"batch_size = 5\n", b"%s%n", b"NaN", b"Infinity"),
)
_ENCODINGS = ("utf-16", "utf-32", "latin-1", "cp037", "utf-8-sig", "utf-7")


@dataclass(frozen=True)
class Seed:
    """A valid file, or the part of one that is damaged before `wrap` makes a whole file of it."""

    content: bytes
    wrap: Callable[[bytes], bytes] = bytes
    #: What the file is called.
    file: str = "file"
    #: What is done to it, besides what can be done to any file.
    own: tuple[Mutation, ...] = ()


def damaged(seed: Seed, random: Random) -> bytes:
    """The file with some mutations: of its own half of the time, if it has some."""
    content = seed.content
    own = seed.own if random.random() < 0.5 else ()
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        content = random.choice(own or MUTATIONS)(content, random)
    return seed.wrap(content)


def _place(content: bytes, random: Random) -> int:
    """Somewhere in the content, half of the time where headers are."""
    most = len(content) if random.random() < 0.5 else min(len(content), 200)
    return random.randrange(most + 1)


def flip_bits(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.randint(1, 8)):
        place = _place(content, random)
        if place < len(changed):
            changed[place] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def splice(content: bytes, random: Random) -> bytes:
    """Copy, insert or leave out a part."""
    start, place = _place(content, random), _place(content, random)
    part = content[start : start + random.choice((1, 4, 8, 50, 500))]
    kept = random.choice((0, len(part), 1))
    return content[:place] + (part if random.random() < 0.7 else b"") + content[place + kept :]


def change_number(content: bytes, random: Random) -> bytes:
    """Write a size over whatever is there, in either order of bytes."""
    width = random.choice((1, 2, 4, 8))
    number = random.choice((*_NUMBERS, len(content), len(content) - 1)) % (1 << (8 * width))
    place = _place(content, random)
    if random.random() < 0.7:
        place = place // 4 * 4
    order = random.choice(("little", "big"))
    written = number.to_bytes(width, "little" if order == "little" else "big")
    return content[:place] + written + content[place + width :]


def change_digits(content: bytes, random: Random) -> bytes:
    """Write another number where one stands in digits."""
    places = [i for i, byte in enumerate(content[:20_000]) if 48 <= byte < 58]
    if not places:
        return change_number(content, random)
    start = end = random.choice(places)
    while end < len(content) and 48 <= content[end] < 58:
        end += 1
    return content[:start] + random.choice(_WORDS).encode() + content[end:]


def insert_token(content: bytes, random: Random) -> bytes:
    place = _place(content, random)
    return content[:place] + random.choice(_TOKENS) + content[place:]


def encode_again(content: bytes, random: Random) -> bytes:
    text = content.decode("utf-8", errors="replace")
    return text.encode(random.choice(_ENCODINGS), errors="replace")


def pack(content: bytes, random: Random) -> bytes:
    """Packed once more, or unpacked and packed with other bytes."""
    if content[:2] == b"\x1f\x8b" and random.random() < 0.5:
        try:
            return gzip.compress(flip_bits(gzip.decompress(content), random), mtime=0)
        except (OSError, EOFError, zlib.error):
            return content[:50]
    return gzip.compress(content, mtime=0)


def repeat(content: bytes, random: Random) -> bytes:
    return content * random.choice((2, 3, 20)) if len(content) < 100_000 else content


MUTATIONS: tuple[Mutation, ...] = (
    *(flip_bits, flip_bits, cut_off, splice, splice, change_number, change_number, change_number),
    *(change_digits, change_digits, insert_token, insert_token, encode_again, pack, repeat),
)
