"""Pseudonyms of names: as long as the name, and the same for the same name in one archive.

A keyed permutation of all texts of one form gives them (`permute.py`), so that two names never have one
pseudonym, and neither the text nor its Java hash tells the name. Tag codes and key hashes are computed again
from the pseudonyms (`hashes.py`).

Keyed permutations: of the texts that a name may become, and of 32-bit hashes.

A Feistel network of two unequal halves permutes the numbers below any product. Without the secret, what a
number became tells nothing of it but whether two of them are equal.

Other times for those of a store: moved by a secret number of seconds, and rounded down if that is asked.

One map is for all times, wherever they are, so that the distance between two times stays (with rounding, to
within the unit). A number that is not a plausible time stays: 0, negative ones, and what damage made of a
time.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from math import prod
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import dtypes, javatext, magic, smallfiles

_TURNS = 8
_SPARE = 16
"""Bytes more than a number has, so that the remainder is as good as evenly spread."""
_HALF = 1 << 16
_WORD = 1 << 32


def permuted_digits(secret: bytes, digits: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The image of `digits` (each below its size) under a keyed permutation of all such rows of digits.

    Every row of these sizes is the image of exactly one row.
    """
    if not sizes:
        return []
    tweak = hashlib.sha256(secret + repr(list(sizes)).encode()).digest()
    if len(sizes) == 1:
        order = np.random.default_rng(int.from_bytes(tweak)).permutation(sizes[0])
        return [int(order[digits[0]])]
    half = len(sizes) // 2
    low, high = prod(sizes[:half]), prod(sizes[half:])
    left, right = _number(digits[:half], sizes[:half]), _number(digits[half:], sizes[half:])
    for turn in range(_TURNS):
        left = (left + _draw(tweak, 2 * turn, right, low)) % low
        right = (right + _draw(tweak, 2 * turn + 1, left, high)) % high
    return _digits(left, sizes[:half]) + _digits(right, sizes[half:])


def _draw(tweak: bytes, turn: int, value: int, size: int) -> int:
    data = tweak + bytes([turn]) + value.to_bytes(value.bit_length() // 8 + 1)
    return int.from_bytes(hashlib.shake_128(data).digest(size.bit_length() // 8 + _SPARE)) % size


def _number(digits: Sequence[int], sizes: Sequence[int]) -> int:
    number = 0
    for digit, size in zip(digits, sizes, strict=True):
        number = number * size + digit
    return number


def _digits(number: int, sizes: Sequence[int]) -> list[int]:
    digits = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        digits.append(digit)
    return digits[::-1]


class HashPermutation:
    """A keyed permutation of 32-bit hashes; 0 stays 0."""

    __slots__ = ("_tables",)

    def __init__(self, secret: bytes) -> None:
        draws = (hashlib.shake_128(secret + b"hash" + bytes([turn])) for turn in range(_TURNS))
        self._tables = [np.frombuffer(draw.digest(2 * _HALF), np.uint16).astype(np.int64) for draw in draws]

    def codes(self, values: dtypes.Longs) -> dtypes.Longs:
        """The images of tag codes, all of them signed 32-bit numbers: any number but 0."""
        return self._walked(values, keeps_sign=False)

    def key_hashes(self, values: dtypes.Longs) -> dtypes.Longs:
        """The images of key hashes: of positive numbers positive ones, of negative (wrong) ones negative."""
        return self._walked(values, keeps_sign=True)

    def _walked(self, values: dtypes.Longs, *, keeps_sign: bool) -> dtypes.Longs:
        """Permute until the image is one of the wanted kind: so the kind is permuted in itself."""
        made = values.astype(np.int64)
        rows = np.flatnonzero(made)
        while len(rows):
            made[rows] = self._once(made[rows])
            bad = made[rows] == 0
            if keeps_sign:
                bad |= (made[rows] < 0) != (values[rows] < 0)
            rows = rows[bad]
        return made

    def _once(self, values: dtypes.Longs) -> dtypes.Longs:
        left, right = (values % _WORD) >> 16, values & (_HALF - 1)
        for table in self._tables:
            left, right = right, left ^ table[right]
        words: NDArray[np.int64] = left << 16 | right
        return np.where(words >= _WORD >> 1, words - _WORD, words)


SECOND = 1000
DAY = 86_400 * SECOND
_EARLIEST, _LATEST = 10**12, 10**13
"""What a time in ms is between: 13 digits, from 2001 on."""
_LEAST_SHIFT, _SHIFTS = 365 * DAY // SECOND, 7 * 365 * DAY // SECOND
_LEAP = 1_000_000


@dataclass(frozen=True, slots=True)
class Times:
    """What becomes of times: `shift` is added, then they are rounded down to multiples of `unit`; all in ms.

    `shift` is a number of whole seconds, so that the slots of a timer wheel stay whole at any precision.
    """

    shift: int = 0
    unit: int = 1

    @property
    def stay(self) -> bool:
        """Whether every time is as in the store."""
        return self.shift == 0 and self.unit == 1

    @property
    def are_rounded(self) -> bool:
        """Whether times are rounded, too, so that distances change."""
        return self.unit > 1

    def of(self, value: int) -> int:
        """What a time (ms) becomes."""
        return self.moved(value) // self.unit * self.unit if _EARLIEST <= value < _LATEST else value

    def moved(self, value: int) -> int:
        """The same without rounding, for times at which timers are due."""
        return value + self.shift if _EARLIEST <= value < _LATEST else value

    def of_all(self, values: dtypes.Longs) -> dtypes.Longs:
        """`of` for a column."""
        made = values + self.shift
        return np.where(are_times(values), made // self.unit * self.unit, values)

    def of_text(self, text: bytes, *, rounded: bool = True) -> bytes:
        """A decimal number in ASCII; any other text stays, and so does the length."""
        if not text.isdigit():
            return text
        value = int(text)
        return b"%0*d" % (len(text), self.of(value) if rounded else self.moved(value))

    def of_file(self, mtime_ns: int) -> int:
        """A time of modification (ns)."""
        value, rest = divmod(mtime_ns, _LEAP)
        return self.of(value) * _LEAP + (0 if self.are_rounded else rest)

    def of_index_name(self, name: str) -> str:
        """The name of an index file, which is a local time; any other name stays."""
        created = smallfiles.index_filename_time(name)
        if created is None or self.stay:
            return name
        value = (created.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        made = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=self.of(value))
        return smallfiles.index_filename(made)


def next_index_name(name: str) -> str:
    """The name one millisecond later; a name that is not a time gets a digit more."""
    created = smallfiles.index_filename_time(name)
    return f"{name}0" if created is None else smallfiles.index_filename(created + timedelta(milliseconds=1))


def are_times(values: dtypes.Longs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which numbers of a column are plausible times in ms."""
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = (values >= _EARLIEST) & (values < _LATEST)
    return found


def secret_shift(secret: bytes) -> int:
    """A shift (ms) into the past, of 1 to 8 years in whole seconds, that only the secret tells."""
    draw = int.from_bytes(hashlib.shake_128(secret + b"times").digest(16))
    return -(_LEAST_SHIFT + draw % _SHIFTS) * SECOND


SYSTEM_NAMES = frozenset({
    "SCHEDULE_TOPIC_XXXX", "TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "BenchmarkTest",
    magic.FENCE_TOPIC.decode(), "TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP",
    "CID_ONSAPI_OWNER", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_PULL", "CID_RMQ_SYS_TRANS",
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
    "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_SELF_TEST_TOPIC",
    "rmq_sys_wheel_timer", "rmq_sys_INDEX",
})  # fmt: skip
KEPT_PREFIXES = (
    *("%RETRY%", "%DLQ%", "%LMQ%"),
    *("rmq_sys_REVIVE_LOG_", "rmq_sys_SYNC_BROKER_MEMBER_", "CID_RMQ_SYS_", "RMQ_SYS_", "rmq_sys_"),
)
"""What RocketMQ puts before names that somebody else gave: topics and groups, clusters and brokers."""
_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_STRAY_BYTES = range(0xDC80, 0xDD00)
"""Bytes that are not UTF-8, as Python's `surrogateescape` reads them."""
_RANGES = (range(0x80), _STRAY_BYTES, range(0x80, 0x800), range(0x800, 0x10000))
"""Characters that are as long in UTF-8 as each other."""


_TRIES = 50
"""Texts that are tried for a pseudonym whose hash no other one has."""


@dataclass(slots=True)
class Pseudonyms:
    """Names and what stands for them; another secret gives other pseudonyms. `times`: what times become."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    times: Times = field(default_factory=Times)
    _known: dict[str, str] = field(default_factory=dict)
    _index_names: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _hashes: set[tuple[int, int]] = field(default_factory=set)

    def name(self, text: str) -> str:
        """The pseudonym of a topic, group, tag or key; the names that RocketMQ itself gives stay."""
        if text in SYSTEM_NAMES:
            return text
        if text not in self._known:
            self._known[text] = self._prefixed(text) or self._alike(text)
        return self._known[text]

    def _prefixed(self, text: str) -> str | None:
        for prefix in KEPT_PREFIXES:
            if text.startswith(prefix) and len(text) > len(prefix):
                return prefix + self.name(text[len(prefix) :])
        return None

    def known(self) -> dict[str, str]:
        """The names asked for so far, and their pseudonyms."""
        return dict(self._known)

    def raw(self, data: bytes) -> bytes:
        """The pseudonym of a name in bytes; bytes that are not UTF-8 have only a shape."""
        try:
            return self.name(data.decode("utf-8")).encode("utf-8")
        except UnicodeError:
            return self.shape(data)

    def index_name(self, name: str) -> str:
        """The name of an index file at its new time; no two have one, also where times are rounded."""
        if name not in self._index_names:
            made, taken = self.times.of_index_name(name), set(self._index_names.values())
            while made in taken:
                made = next_index_name(made)
            self._index_names[name] = made
        return self._index_names[name]

    def shape(self, data: bytes) -> bytes:
        """Letters for letters, digits for digits, bytes above 0x7f for such bytes; all else stays."""
        keys = self._stream(data, len(data))
        return bytes(_of_class(value, key) for value, key in zip(data, keys, strict=True))

    def noise(self, data: bytes) -> bytes:
        """Bytes that tell nothing: zeros stay zeros, all others become others."""
        keys = np.frombuffer(self._stream(data, len(data)), np.uint8)
        values = np.frombuffer(data, np.uint8)
        return np.where(values == 0, 0, keys % 255 + 1).astype(np.uint8).tobytes()

    def _stream(self, data: bytes, size: int) -> bytes:
        return hashlib.shake_128(self.secret + hashlib.sha256(data).digest()).digest(size)

    def _alike(self, text: str) -> str:
        """What the permutation makes of a text, or of that again, until no other has its Java hash.

        Short texts share hashes more often than the names that people give, and a check would find that in
        the copy alone. The permutation goes in circles, and each text takes one of its own circle: there is
        one for every text.
        """
        made, unused = self._permuted(text), None
        for _ in range(_TRIES):
            if made not in self._taken:
                unused = made if unused is None else unused
                if (len(made), javatext.java_hash(made)) not in self._hashes:
                    unused = made
                    break
            made = self._permuted(made)
        while unused is None:
            unused = None if made in self._taken else made
            made = self._permuted(made)
        self._taken.add(unused)
        self._hashes.add((len(unused), javatext.java_hash(unused)))
        return unused

    def _permuted(self, text: str) -> str:
        """Letters and digits for letters and digits, of as many bytes each; punctuation stays."""
        alphabets = [_alphabet(character) for character in text]
        free = [(place, of_place) for place, of_place in enumerate(alphabets) if of_place is not None]
        form = [None if of_place else one for one, of_place in zip(text, alphabets, strict=True)]
        digits = [of_place.number[text[place]] for place, of_place in free]
        sizes = [len(of_place.letters) for _, of_place in free]
        changed = list(text)
        secret = self.secret + repr(form).encode()
        for (place, of_place), digit in zip(free, permuted_digits(secret, digits, sizes), strict=True):
            changed[place] = of_place.letters[digit]
        return "".join(changed)


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Characters of which each may stand for each other: all are as long in UTF-8."""

    letters: str
    number: dict[str, int]


@cache
def _alphabet_of(codes: range) -> Alphabet:
    """Letters, digits and marks; of the bytes that are not text, all."""
    found = [chr(code) for code in codes if codes is _STRAY_BYTES or category(chr(code))[0] in "LMN"]
    return Alphabet("".join(found), {one: number for number, one in enumerate(found)})


def _alphabet(character: str) -> Alphabet | None:
    """What may stand for a character; None for one that stays: punctuation, and all beyond the BMP."""
    codes = next((codes for codes in _RANGES if ord(character) in codes), None)
    if codes is None:
        return None
    found = _alphabet_of(codes)
    return found if character in found.number else None


def _of_class(value: int, key: int) -> int:
    for letters in _CLASSES:
        if chr(value) in letters:
            return ord(letters[key % len(letters)])
    return 0x80 | key & 0x7F if value >= 0x80 else value
