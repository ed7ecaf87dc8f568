"""Pseudonyms of names: as long as the name, with the same Java hash, and the same for the same name.

The hash stays because consume queues (tagsCode) and index files (keyHash) keep it: with the same hash these
files are copied as they are. A name of few characters can be guessed from its hash, with the pseudonym or
without: whoever offers a copy says so.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats.javatext import utf16_length
from rocketfsck.formats.magic import FENCE_TOPIC

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
_ALNUM = string.ascii_letters + string.digits
_CLASSES = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_RIGHT, _LEFT = 3, 4
_SAMPLE = 500_000
_TRIES = 12
_MODULUS = 1 << 32
_TABLES = 8
_WINDOW = 31
"""One more in a character and 31 less in the next give the same hash: a solution is never farther away."""

Sums = NDArray[np.uint32]


@dataclass(slots=True)
class Pseudonyms:
    """Names and what stands for them; another secret gives other pseudonyms."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    _known: dict[str, str] = field(default_factory=dict)
    _samples: dict[tuple[int, tuple[tuple[int, str], ...]], tuple[NDArray[np.uint8], Sums]] = field(
        default_factory=dict
    )
    _tables: dict[tuple[tuple[int, str], ...], tuple[Sums, NDArray[np.int64]]] = field(default_factory=dict)

    def name(self, text: str) -> str:
        """The pseudonym of a topic, group, tag or key; the names that RocketMQ itself gives stay."""
        if text in SYSTEM_NAMES:
            return text
        for prefix in KEPT_PREFIXES:
            if text.startswith(prefix) and len(text) > len(prefix):
                return prefix + self.name(text[len(prefix) :])
        if text not in self._known:
            self._known[text] = self._alike(text)
        return self._known[text]

    def raw(self, data: bytes) -> bytes:
        """The pseudonym of a name in bytes; bytes that are no UTF-8 have only a shape."""
        try:
            return self.name(data.decode("utf-8")).encode("utf-8")
        except UnicodeError:
            return self.shape(data)

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
        seed = hmac.digest(self.secret, text.encode("utf-8", "surrogatepass"), "sha256")
        random = np.random.default_rng(int.from_bytes(seed))
        places = [place for place, character in enumerate(text) if _choices(character)]
        right = places[-min(_RIGHT, max(len(places) // 2, 1)) :]
        left = places[: -len(right)][-_LEFT:] if right else []
        head = places[: len(places) - len(right) - len(left)]
        if not left:
            return text
        weights = _weights(text)
        for turn in range(_TRIES):
            changed = list(text)
            for place in head:
                letters = _choices(text[place])
                changed[place] = letters[int(random.integers(len(letters)))]
            parts = [(weights[place], _choices(text[place])) for place in left]
            picks, sums = self._sample(parts, turn)
            table, order = self._table([(weights[place], _choices(text[place])) for place in right])
            target = _missing(text, changed, weights, {*left, *right})
            near = _near(sums, target - int(table[-1]), target - int(table[0]))
            wanted = np.uint32(target) - sums[near]
            rows = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
            for hit in random.permutation(np.flatnonzero(table[rows] == wanted)).tolist():
                _put(changed, left, text, picks[near[hit]].tolist())
                _put(changed, right, text, _digits(int(order[rows[hit]]), right, text))
                if "".join(changed) != text:
                    return "".join(changed)
        return text

    def _sample(self, parts: list[tuple[int, str]], turn: int) -> tuple[NDArray[np.uint8], Sums]:
        """Combinations of some characters, a row each, with their sums, ascending: all of them, or another
        sample of many in each turn."""
        key = turn, tuple(parts)
        _bound(self._samples)
        if key not in self._samples:
            picks = _picks([len(choices) for _, choices in parts], np.random.default_rng(turn))
            sums = np.zeros(len(picks), np.uint32)
            for column, (weight, choices) in enumerate(parts):
                codes = np.array([ord(one) for one in choices], np.uint32)
                sums += codes[picks[:, column]] * np.uint32(weight)
            order = np.argsort(sums)
            self._samples[key] = picks[order], sums[order]
        return self._samples[key]

    def _table(self, parts: list[tuple[int, str]]) -> tuple[Sums, NDArray[np.int64]]:
        """The sums that some characters can have, ascending, and the combination that has each."""
        key = tuple(parts)
        _bound(self._tables)
        if key not in self._tables:
            sums = np.zeros(1, np.uint32)
            for weight, choices in parts:
                codes = np.array([ord(one) for one in choices], np.uint32) * np.uint32(weight)
                sums = (sums[:, None] + codes).ravel()
            order = np.argsort(sums, kind="stable")
            self._tables[key] = sums[order], order
        return self._tables[key]


def _bound(tables: dict[Any, Any]) -> None:
    """Forget the tables when there are many: a key of another form needs another one."""
    if len(tables) > _TABLES:
        tables.clear()


def _missing(text: str, changed: list[str], weights: list[int], open_places: set[int]) -> int:
    """What the characters at the open places must add to the hash, modulo 2^32."""
    total = 0
    for place, (old, new, weight) in enumerate(zip(text, changed, weights, strict=True)):
        if old != new or place in open_places:
            total += ord(old) * weight - (0 if place in open_places else ord(new) * weight)
    return total % _MODULUS


def _near(sums: Sums, low: int, high: int) -> NDArray[np.int64]:
    """The rows of the sums from `low` to `high`, both modulo 2^32."""
    begin = int(np.searchsorted(sums, np.uint32(low % _MODULUS)))
    end = int(np.searchsorted(sums, np.uint32(high % _MODULUS), side="right"))
    if low % _MODULUS <= high % _MODULUS:
        return np.arange(begin, end)
    return np.concatenate([np.arange(begin, len(sums)), np.arange(end)])


def _digits(number: int, places: list[int], text: str) -> list[int]:
    """Which choice each place has in a combination of a table."""
    digits = []
    for place in reversed(places):
        number, digit = divmod(number, len(_choices(text[place])))
        digits.append(digit)
    return digits[::-1]


def _put(changed: list[str], places: list[int], text: str, digits: list[int]) -> None:
    for place, digit in zip(places, digits, strict=True):
        changed[place] = _choices(text[place])[digit]


def _picks(sizes: list[int], random: np.random.Generator) -> NDArray[np.uint8]:
    """Combinations, a row each: all of them, or a sample of many."""
    if np.prod(sizes) <= _SAMPLE:
        return np.array(list(product(*map(range, sizes))), np.uint8)
    return np.stack([random.integers(0, size, _SAMPLE, np.uint8) for size in sizes], axis=1)


def _weights(text: str) -> list[int]:
    """By what each character's code goes into the hash, modulo 2^32."""
    ends = np.cumsum([utf16_length(character) for character in text])
    return [pow(31, int(ends[-1] - end), _MODULUS) for end in ends]


@cache
def _choices(character: str) -> str:
    """What may stand for a character: as long in UTF-8; "" for one that stays."""
    if character.isascii():
        return _ALNUM if character.isalnum() else ""
    code = ord(character)
    if code >= 0x10000 or not character.isalpha():
        return ""
    near = map(chr, range(max(code - _WINDOW, 0x80), min(code + _WINDOW, 0xFFFF) + 1))
    size = len(character.encode())
    return "".join(one for one in near if one.isalpha() and len(one.encode()) == size)


def _of_class(value: int, key: int) -> int:
    for letters in _CLASSES:
        if chr(value) in letters:
            return ord(letters[key % len(letters)])
    return 0x80 | key & 0x7F if value >= 0x80 else value


_LITERAL = re.compile(r'("(?:[^"\\]|\\.)*")', re.DOTALL)
_WORD = re.compile(r"[^@\\/:;,\s\"]+")
_ESCAPED = r"\\u(?![dD][89a-fA-F])([0-9a-fA-F]{4})"
_WRITTEN_CHARACTER = re.compile(rf"{_ESCAPED}|(.)", re.DOTALL)
_WRITTEN_WORD = re.compile(rf'((?:{_ESCAPED}|[^@\\/:;,\s"])+)|\\u[0-9a-fA-F]{{4}}|\\.', re.DOTALL)
"""A word (group 1) of a text as JSON writes it, escaped characters in it; or an escape outside of words."""
_BARE = re.compile(r"[^\W\d_]\w*")


def mask_json(text: str, names: Pseudonyms) -> str:
    """JSON, whole or broken, with its texts masked; the names of its members stay.

    A text is masked name by name: `topic@group` as topic and group.
    """
    parts = _LITERAL.split(text)
    return "".join(
        _masked_literal(part, names) if number % 2 else _masked_words(_BARE, part, names)
        for number, part in enumerate(parts)
    )


def json_words(text: str) -> set[str]:
    """The names in JSON, whole or broken: texts word by word, and bare words, without RocketMQ's members."""
    parts = _LITERAL.split(text)
    words = {word for part in parts[::2] for word in _BARE.findall(part)}
    words |= {_read(word[1]) for part in parts[1::2] for word in _WRITTEN_WORD.finditer(part) if word[1]}
    return words - _JSON_FIELDS


def _masked_literal(text: str, names: Pseudonyms) -> str:
    if text[1:-1] in _JSON_FIELDS:
        return text
    return _WRITTEN_WORD.sub(lambda word: _masked_written(word[1], names) if word[1] else word[0], text)


def _masked_written(word: str, names: Pseudonyms) -> str:
    """A word of a text as JSON writes it; what was escaped in it is escaped again."""
    read = _read(word)
    if read in _JSON_FIELDS:
        return word
    escaped = {place for place, one in enumerate(_WRITTEN_CHARACTER.finditer(word)) if one[1]}
    masked = enumerate(names.name(read))
    return "".join(f"\\u{ord(one):04x}" if place in escaped else one for place, one in masked)


def _read(word: str) -> str:
    """What a word of a text in JSON says."""
    return _WRITTEN_CHARACTER.sub(lambda one: one[2] or chr(int(one[1], 16)), word)


def mask_words(text: str, names: Pseudonyms) -> str:
    """A text of JSON, or the name of a member, masked name by name; RocketMQ's own members stay."""
    return text if text in _JSON_FIELDS else _masked_words(_WORD, text, names)


def _masked_words(words: re.Pattern[str], text: str, names: Pseudonyms) -> str:
    return words.sub(lambda word: word[0] if word[0] in _JSON_FIELDS else names.name(word[0]), text)


_JSON_FIELDS_TEXT = (
    "dataVersion counter stateVersion timestamp topicConfigTable topicName readQueueNums "
    "writeQueueNums perm topicFilterType topicSysFlag order attributes subscriptionGroupTable "
    "forbiddenTable groupName brokerId consumeEnable consumeFromMinEnable consumeBroadcastEnable "
    "consumeMessageOrderly retryQueueNums retryMaxTimes groupRetryPolicy type "
    "whichBrokerWhenConsumeSlowly notifyConsumerIdsChangedEnable groupSysFlag "
    "consumeTimeoutMinute subscriptionDataSet offsetTable pullOffsetTable resetOffsetTable "
    "filterDataByTopic filterData clientId consumerGroup expressionType bloomFilterData bornTime "
    "clientVersion compiledExpression deadTime expression topic queueOffsetMap SINGLE_TAG "
    "MULTI_TAG CUSTOMIZED EXPONENTIAL message.type cleanup.policy queue.type +message.type "
    "+cleanup.policy +queue.type NORMAL FIFO DELAY TRANSACTION MIXED UNSPECIFIED COMPACTION "
    "DELETE SimpleCQ BatchCQ true false null"
)
_JSON_FIELDS = frozenset(_JSON_FIELDS_TEXT.split())
