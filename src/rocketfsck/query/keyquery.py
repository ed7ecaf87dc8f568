"""What a query by key asks for, and which messages answer it. Reference 4.3, 4.5.

key      a word of KEYS or the UNIQ_KEY     hash of topic#key
unique   the UNIQ_KEY                       hash of topic#key
tag      all of TAGS                        hash of topic#T#tags, since 5.4.0

How a broker looks into one index file: the file's times, then the chain. Reference 4.7.

The walk compares no numbers along the chain and has no memory of where it was: as the broker's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rocketfsck.formats.indexfile import IndexHeader, slot_of
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN, TAG_KEY_PREFIX, index_hash, tag_index_hash
from rocketfsck.formats.magic import is_indexed
from rocketfsck.query.answers import EntryStep, IndexStep
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.views.messages import Message


def is_time_matched(header: IndexHeader, begin: int, end: int) -> bool:
    """Whether a broker looks into a file of these times."""
    first, last = header.begin_timestamp, header.end_timestamp
    return (begin < first and end > last) or first <= begin <= last or first <= end <= last


def index_step(index: IndexReader, **facts: object) -> IndexStep:
    header = index.header
    return IndexStep(
        index.file.relative,
        header.begin_timestamp,
        header.end_timestamp,
        header.begin_physical_offset,
        header.end_physical_offset,
        index.index_count,
        **facts,  # type: ignore[arg-type]
    )


def select_offsets(
    index: IndexReader, key_hash: int, out: list[int], limit: int, begin: int, end: int
) -> IndexStep:
    """Walk a chain as `IndexFile#selectPhyOffset` does, which compares no numbers along the chain.

    A chain that runs in a circle holds a broker until `out` is full, or forever: the walk gives up after as
    many steps as the file has entries and says so.
    """
    slot = slot_of(key_hash, index.slot_count)
    number = newest = index.newest(slot) or 0  # a broker makes a short file longer with zeros
    count = index.index_count
    steps: list[EntryStep] = []
    ended: str | None = None
    broken = False
    if not 0 < number <= count or count <= 1:
        return index_step(index, slot=slot, newest=newest, ended="the slot is empty")
    while ended is None:
        if len(out) >= limit:
            ended = "the limit of matches is reached"
            break
        if len(steps) > count:
            ended, broken = "the chain is a cycle: a broker would never end", True
            break
        entry = index.entry(number)
        if entry is None:
            ended, broken = f"the file ends before entry {number}", True
            break
        timestamp = index.header.begin_timestamp + entry.time_diff * 1000
        verdict = "match" if entry.key_hash == key_hash else "another hash"
        if entry.time_diff < 0:
            verdict, ended = "negative timeDiff", "a negative timeDiff ends the walk"
        elif entry.key_hash == key_hash and begin <= timestamp <= end:
            out.append(entry.physical_offset)
        elif entry.key_hash == key_hash:
            verdict = "outside the window"
        steps.append(
            EntryStep(
                number,
                entry.key_hash,
                entry.physical_offset,
                entry.time_diff,
                entry.previous,
                timestamp,
                verdict,
            )
        )
        if ended is None:
            if entry.previous <= 0 or entry.previous > count or entry.previous == number:
                ended = "the chain ends"
            elif timestamp < begin:
                ended = "older than the window"
        number = entry.previous
    return index_step(
        index,
        slot=slot,
        newest=newest,
        entries=tuple(steps),
        ended=ended,
        broken=broken,
    )


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
