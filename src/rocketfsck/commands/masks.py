"""`--mask`: output that can be shared, without names of topics, groups, tags and keys, bodies and addresses.

A name becomes `m-` and ten hexadecimal digits of a keyed hash: the same name is the same mask in one run,
and in all runs with one `--mask-key`. RocketMQ's own names, sizes, offsets, times and the path of the store
stay; Java hashes and slots become other numbers. What a field holds follows from its name. In sentences,
addresses are replaced, and names that are known: those of the store's queues and config files, and those
masked before.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.javatext import INT32_MAX, INT32_MIN
from rocketfsck.formats.properties import serialize_properties
from rocketfsck.writer.mask import record
from rocketfsck.writer.mask.names import HashPermutation, Pseudonyms

if TYPE_CHECKING:
    from rocketfsck.store.model import Store

Value = TypeVar("Value")

NAMES = frozenset(
    {
        "broker_name", "cluster", "expression", "group", "key", "keys", "name", "node", "recalled_key", "tag",
        "tags", "topic", "topic_bytes", "topics", "unique_key",
    }
)  # fmt: skip
HOSTS = frozenset({"born_address", "born_host", "host", "previous_host", "store_address", "store_host"})
FILLED = frozenset({"body", "body_decoded", "body_hex", "filter_bit_map", "properties_raw", "value"})
"""Fields whose bytes or texts become as many `x`; numbers of such a name stay."""
HASHES = frozenset({"hashCodeOfRealTopic", "keyHash", "key_hash", "slot", "tagsCode", "tags_code"})
"""Fields whose numbers follow from names, where they are 32-bit ones: times and addresses stay."""
CONTENT = "content"
"""A config file, as JSON or as its text."""
PROPERTIES = "properties"
REVIVE_LOG = "rmq_sys_REVIVE_LOG_"
"""A system topic with the name of the cluster at its end."""
KEY_SIZES = (16, 4096)
KNOWN_LIMIT = 200_000
ODD_LIMIT = 1000
_WORD = re.compile(r"[%|\w-]+")
_ADDRESS = re.compile(
    r"(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7})(?![\w.])"
)


def read_key(path: Path) -> bytes:
    """The secret that a key file gives. Raises UsageError for a file that is too short or too long."""
    low, high = KEY_SIZES
    with path.open("rb") as stream:
        data = stream.read(high + 1)
    if not low <= len(data) <= high:
        raise UsageError(f"--mask-key: the file must have {low} to {high:,} bytes, chosen at random")
    return hashlib.sha256(data).digest()


@dataclass(slots=True)
class Masks(Pseudonyms):
    """Masks for names, with the names that are known so far."""

    _odd: set[str] = field(default_factory=set)
    _numbers: HashPermutation | None = None

    def _alike(self, text: str) -> str:
        return f"m-{hmac.digest(self.secret, text.encode('utf-8', 'surrogatepass'), 'sha256')[:5].hex()}"

    def name(self, text: str) -> str:
        """The mask of a name; the empty text and RocketMQ's own names stay."""
        if text.startswith(REVIVE_LOG) and len(text) > len(REVIVE_LOG):
            return REVIVE_LOG + self.name(text[len(REVIVE_LOG) :])
        if not text:
            return text
        if len(self._known) >= KNOWN_LIMIT:
            self._known.clear()
        if len(self._odd) < ODD_LIMIT and not _WORD.fullmatch(text):
            self._odd.add(text)
        return Pseudonyms.name(self, text)

    def learn(self, names: Iterable[str]) -> None:
        """Names to be found in sentences."""
        for name in names:
            self.name(name)

    def learn_store(self, store: Store) -> None:
        """The names of a store's queues, and those in its config files."""
        from rocketfsck.reader.configs import CONFIG_LIMIT
        from rocketfsck.store.reading import read_whole

        self.learn(queue.topic for queue in store.queues)
        self.learn(queue.topic for queue in store.ext_queues)
        topics = (other.topic for other in store.others)
        self.learn(topic for topic in topics if topic is not None)
        for file in store.configs:
            try:
                text = read_whole(file.path, CONFIG_LIMIT).decode("utf-8", "replace")
            except StoreError:
                continue
            self.learn(word for word in record.json_words(text) if not word.isdecimal())

    def text(self, said: str) -> str:
        """A sentence or a path with masks for the names that are known, and for addresses."""
        for odd in sorted(self._odd, key=len, reverse=True):
            if odd in said:
                said = said.replace(odd, self.name(odd))
        said = _ADDRESS.sub(lambda found: self.address(found[0]), said)
        return _WORD.sub(lambda word: self.name(word[0]) if self._is_known(word[0]) else word[0], said)

    def _is_known(self, word: str) -> bool:
        return word in self._known or (word.startswith("%") and word.rpartition("%")[2] in self._known)

    def address(self, said: str) -> str:
        """Another address of the same kind; a port stays, and so do 0.0.0.0 and 127.0.0.1."""
        host, colon, port = said.rpartition(":")
        for alone, rest in ((said, ""), (host.strip("[]"), colon + port)):
            try:
                found = ipaddress.ip_address(alone).packed
            except ValueError:
                continue
            shown = str(ipaddress.ip_address(record.masked_address(found, self.secret)))
            return f"[{shown}]{rest}" if rest and said.startswith("[") else shown + rest
        return said

    def of(self, value: Value, name: str = "") -> Value:
        """A value with masks in it, at any depth; `name` is that of the field which holds the value."""
        made: Any = self._masked(value, name)
        result: Value = made
        return result

    def _masked(self, value: Any, name: str) -> Any:
        if isinstance(value, Enum) or value is None:
            return value
        if name in HASHES and isinstance(value, int):
            return self._number(value)
        if name == CONTENT:
            return self._content(value)
        if name == PROPERTIES and isinstance(value, Mapping):
            return dict(self._property(key, inner) for key, inner in value.items())
        if isinstance(value, str):
            return self._text_of(value, name)
        if isinstance(value, bytes):
            kept = value if name == "type" else b"x" * len(value)
            return self.raw(value) if name in NAMES and name != "key" else kept
        if isinstance(value, Mapping):
            return {self.of(key): self._masked(inner, str(key)) for key, inner in value.items()}
        if isinstance(value, tuple | list):
            items = [self._masked(inner, name) for inner in value]
            return type(value)._make(items) if hasattr(value, "_make") else type(value)(items)
        return self._dataclass(value) if is_dataclass(value) and not isinstance(value, type) else value

    def _number(self, value: int) -> int:
        """Another number for a hash, of the same sign; the same one for the same hash."""
        if not INT32_MIN <= value <= INT32_MAX:
            return value
        if self._numbers is None:
            self._numbers = HashPermutation(self.secret)
        return int(self._numbers.key_hashes(np.array([value], np.int64))[0])

    def _dataclass(self, value: Any) -> Any:
        made = {
            item.name: self._masked(getattr(value, item.name), item.name)
            for item in fields(value)
            if item.init
        }
        if "properties_bytes" in made:  # of a message: what is written says what is shown
            pairs = made.get(PROPERTIES) or {}
            made["properties_bytes"] = serialize_properties(pairs, True)
        return replace(value, **made)

    def _text_of(self, value: str, name: str) -> str:
        if name in NAMES:
            return self.name(value)
        if name in HOSTS:
            return self.address(value)
        if name in FILLED:
            return "78" * (len(value) // 2) if name == "body_hex" else "x" * len(value)
        return self.text(value)

    def _property(self, name: str, value: str) -> tuple[str, str]:
        """A property of a message, its value name by name where that is a list; RocketMQ's own names stay."""
        if record.is_kept(name, value):
            return name, value
        if name in record.KEPT_VALUES:
            return name, self.name(value)
        if name not in record.NAMED_VALUES:
            return self.name(name), self.name(value)
        separator = "," if name == "INNER_MULTI_DISPATCH" else " "
        return name, separator.join(map(self.name, value.split(separator)))

    def _content(self, value: Any) -> Any:
        """A config file: the names of its own members stay."""
        if isinstance(value, bytes):
            return record.mask_json(value.decode("utf-8", "replace"), self).encode("utf-8")
        if isinstance(value, str):
            return record.mask_words(value, self)
        if isinstance(value, Mapping):
            return {self._content(key): self._content(inner) for key, inner in value.items()}
        return [self._content(inner) for inner in value] if isinstance(value, list) else value
