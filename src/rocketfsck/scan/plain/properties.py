"""The properties of a record in plain Python: the values that a scan wants, the keys, the further queues.

    properties := name 0x01 value (0x02 name 0x01 value)* 0x02?        (reference 2.5)

The oracle of `scan.compiled.properties` and `scan.compiled.dispatch`.
"""

from __future__ import annotations

from rocketfsck.formats.delay import SCHEDULE_TOPIC
from rocketfsck.formats.javatext import (
    index_hash,
    java_decode,
    java_encode,
    parse_int64,
    split_java,
    tag_index_hash,
)
from rocketfsck.scan.columns import KEY_TAGS, KEY_UNIQUE, KEY_WORD
from rocketfsck.scan.options import PropertyParser

LMQ_PREFIX = "%LMQ%"
NOT_MULTI_DISPATCHED = (b"%RETRY%", b"rmq_sys_", SCHEDULE_TOPIC.encode())

Row = tuple[int, ...]
Queue = tuple[bytes, int, int]
Spans = dict[bytes, tuple[int, int]]


def find_properties(data: bytes, parser: PropertyParser) -> tuple[Spans, bool]:
    """Where each property's value lies in `data` by its name (last one wins), and whether all is in shape.

    In shape: every piece between separators is empty or `name 0x01 value` with both sides non-empty and
    no further 0x01; then both parsers see the same pairs.
    """
    spans: Spans = {}
    shaped = True
    start = 0
    for piece in data.split(b"\x02"):
        end = start + len(piece)
        at = piece.find(b"\x01")
        if 0 < at < len(piece) - 1 and piece.find(b"\x01", at + 1) < 0:
            spans[piece[:at]] = (start + at + 1, end)
        elif piece:
            shaped = False
            found = _odd_piece(piece, at, parser)
            if found is not None:
                spans[piece[:at]] = (start + at + 1, start + found)
        start = end + 1
    return spans, shaped


def _odd_piece(piece: bytes, at: int, parser: PropertyParser) -> int | None:
    """Where the value of an ill-shaped piece ends, None if the parser drops the piece."""
    if at < 0:
        return None
    if parser == "scan":
        return len(piece) if 0 < at < len(piece) - 1 else None
    kept = piece.rstrip(b"\x01")
    return len(kept) if kept.count(b"\x01") == 1 else None


def property_text(data: bytes, spans: Spans, name: bytes) -> str | None:
    """A property's value as Java reads it; None without the property."""
    span = spans.get(name)
    return None if span is None else java_decode(data[span[0] : span[1]])


def index_words(
    data: bytes, spans: Spans, topic: str, properties_pos: int, *, index_tags: bool = False
) -> list[Row]:
    """The index keys in the broker's order: UNIQ_KEY, the words of KEYS, with `index_tags` TAGS (4.5).

    Rows of hash, position in the file, size and kind; `properties_pos` is where `data` stands.
    """
    words: list[Row] = []
    if (span := spans.get(b"UNIQ_KEY")) is not None:
        low, high = span
        found = index_hash(topic, java_decode(data[low:high]))
        words.append((found, properties_pos + low, high - low, KEY_UNIQUE))
    if (span := spans.get(b"KEYS")) is not None:
        low = span[0]
        for word in data[low : span[1]].split(b" "):
            if word:
                found = index_hash(topic, java_decode(word))
                words.append((found, properties_pos + low, len(word), KEY_WORD))
            low += len(word) + 1
    if index_tags and (span := spans.get(b"TAGS")) is not None and span[0] < span[1]:
        low, high = span
        found = tag_index_hash(topic, java_decode(data[low:high]))
        words.append((found, properties_pos + low, high - low, KEY_TAGS))
    return words


def further_queues(topic: bytes, queue_id: int, names: str, offsets: str) -> list[Queue] | None:
    """The queues besides its own that a record is dispatched to: (topic, queueId, queueOffset).

    None if the lists have different lengths or an offset is not a number, whereupon a broker gives up. Some
    topics are never multi-dispatched; names with a path separator are skipped. Reference 2.13.
    """
    listed = split_java(names, ",")
    numbers = [parse_int64(offset) for offset in split_java(offsets, ",")]
    if len(listed) != len(numbers) or None in numbers:
        return None
    if topic.startswith(NOT_MULTI_DISPATCHED):
        return []
    return [
        (java_encode(name), 0 if name.startswith(LMQ_PREFIX) else queue_id, number)
        for name, number in zip(listed, numbers, strict=True)
        if number is not None and "/" not in name
    ]
