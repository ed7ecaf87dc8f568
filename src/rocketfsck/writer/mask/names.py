"""Pseudonyms of names: as long as the name, and the same for the same name in one archive.

A keyed permutation of all texts of one form gives them (`permute.py`), so that two names never have one
pseudonym, and neither the text nor its Java hash tells the name. Tag codes and key hashes are computed again
from the pseudonyms (`hashes.py`).
"""

from __future__ import annotations

import hashlib
import secrets
import string
from dataclasses import dataclass, field
from functools import cache
from unicodedata import category

import numpy as np

from rocketfsck.formats.javatext import java_hash
from rocketfsck.formats.magic import FENCE_TOPIC
from rocketfsck.writer.mask.permute import permuted_digits
from rocketfsck.writer.mask.times import Times, next_index_name

SYSTEM_NAMES = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "TBW102",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "BenchmarkTest",
        FENCE_TOPIC.decode(),
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC",
        "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_SELF_TEST_TOPIC",
        "rmq_sys_wheel_timer",
        "rmq_sys_INDEX",
    }
)
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
                if (len(made), java_hash(made)) not in self._hashes:
                    unused = made
                    break
            made = self._permuted(made)
        while unused is None:
            unused = None if made in self._taken else made
            made = self._permuted(made)
        self._taken.add(unused)
        self._hashes.add((len(unused), java_hash(unused)))
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
