"""What a query by key asks for, and which messages answer it. Reference 4.3, 4.5.

key      a word of KEYS or the UNIQ_KEY     hash of topic#key
unique   the UNIQ_KEY                       hash of topic#key
tag      all of TAGS                        hash of topic#T#tags, since 5.4.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN, TAG_KEY_PREFIX, index_hash, tag_index_hash
from rocketfsck.formats.magic import is_indexed
from rocketfsck.scan.views.messages import Message

KeyKind = Literal["key", "unique", "tag"]
"""What is asked for: a word of KEYS or the UNIQ_KEY; only the UNIQ_KEY; all of TAGS."""


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """What is asked for. Times are storeTimestamps in ms, half-open. `max_count`: only the newest."""

    topic: str
    key: str
    kind: KeyKind = "key"
    begin_timestamp: int = INT64_MIN
    end_timestamp: int = INT64_MAX
    max_count: int | None = None

    def is_of(self, message: Message) -> bool:
        """Whether the message has the key under the topic, whatever its time."""
        if self.kind == "tag":
            has_key = bool(self.key) and message.tags == self.key
        else:
            has_key = message.unique_key == self.key or (self.kind == "key" and self.key in message.keys)
        return message.topic == self.topic and has_key and is_indexed(message.sys_flag)

    @property
    def key_hash(self) -> int:
        """The keyHash of its index entries."""
        return (tag_index_hash if self.kind == "tag" else index_hash)(self.topic, self.key)

    @property
    def index_text(self) -> str:
        """The text that is hashed."""
        return f"{self.topic}#{TAG_KEY_PREFIX if self.kind == 'tag' else ''}{self.key}"

    @property
    def said(self) -> str:
        """The key with its kind, for people."""
        return {"key": "the key", "unique": "the unique key", "tag": "the tags"}[self.kind] + f" {self.key}"

    def wants(self, message: Message) -> bool:
        """Whether the message is an answer."""
        return self.begin_timestamp <= message.store_timestamp < self.end_timestamp and self.is_of(message)


def other_message(message: Message) -> str:
    """What a record is that a hash leads to but that has not the key."""
    return f"another message, of topic {message.topic} with the keys {' '.join(key_words(message)) or '-'}"


def key_words(message: Message) -> list[str]:
    unique = [message.unique_key] if message.unique_key else []
    return unique + message.keys
