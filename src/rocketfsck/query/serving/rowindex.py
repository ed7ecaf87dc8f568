"""Queries by key that a broker answers from `rocksdbstore/` (5.4.0+), with `indexFileReadEnable=false`.

    IndexRocksDBStore#queryOffset    the window, its limit in days, which type of key is asked for
    MessageRocksDBStorage#queryOffsetForIndex    hour by hour, rows in the order of their keys

A window that is open at either end is that of the days until now. Reference 11.3.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Literal

from rocketfsck.formats.dialect import Dialect
from rocketfsck.formats.javatext import INT64_MAX, parse_int32
from rocketfsck.formats.rocksmessages import AT, HOUR_MS, TYPE_KEY, TYPE_TAG, TYPE_UNIQUE
from rocketfsck.store.circumstances import Settings
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.families import DEFAULT
from rocketfsck.store.rocks.reading import read_rows

DATABASE = "rocksdbstore"
DAY_MS = 24 * HOUR_MS
HOUR_LIMIT = 720
BATCH_LIMIT = 64

Asked = Literal["files", "rows", "nothing"]
Row = tuple[int, bytes, int, int]
"""Hour, what is behind the text that is asked for, storeTime and physical offset."""


def asked_index(settings: Settings, dialect: Dialect) -> Asked:
    """Which index a broker asks."""
    if not dialect.message_database or settings.flag("indexFileReadEnable", True):
        return "files"
    return "rows" if settings.flag("indexRocksDBEnable", False) else "nothing"


def types_asked(*, unique: bool | None, by_tags: bool) -> tuple[bytes, ...]:
    """The types of keys that are looked for, one after the other until something is found.

    `unique` None: as a client before 5.4.0 asks, which names no type."""
    if by_tags:
        return (TYPE_TAG,)
    if unique is None:
        return TYPE_KEY, TYPE_UNIQUE
    return (TYPE_UNIQUE,) if unique else (TYPE_KEY,)


class RowIndex:
    """The rows of a topic and a key, read once. Raises StoreError where the database cannot be read."""

    def __init__(self, store: Store, topic: str, key: str, types: Iterable[bytes]) -> None:
        self.settings = store.settings
        self.now = time.time_ns() // 1_000_000
        other = next((other for other in store.others if other.relative == DATABASE and other.files), None)
        middles = [AT.join((b"", topic.encode(), kind, key.encode(), b"")) for kind in types]
        self.rows: list[list[Row]] = [[] for _ in middles]
        for rows in () if other is None else read_rows(other, [DEFAULT]):
            for found, value in rows.pairs():
                for number, middle in enumerate(middles):
                    if found.startswith(middle, 8) and len(value) >= 8:
                        self.rows[number].append(_row(found, len(middle), value))

    def offsets(self, max_num: int, begin_timestamp: int, end_timestamp: int) -> tuple[int, ...]:
        """The physical offsets for a window of store times (ms, closed), oldest hours first."""
        days = parse_int32((self.settings.get("maxRocksDBIndexQueryDays") or "").strip())
        length = (7 if days is None else days) * DAY_MS
        if begin_timestamp == 0 or end_timestamp == INT64_MAX:
            end_timestamp, begin_timestamp = self.now, self.now - length
        if not 0 < begin_timestamp <= end_timestamp <= begin_timestamp + length:
            return ()
        limit = min(max_num, BATCH_LIMIT)
        for rows in self.rows:
            found = list(_within(rows, begin_timestamp, end_timestamp))[:limit]
            if found:
                return tuple(found)
        return ()


def _row(key: bytes, size: int, value: bytes) -> Row:
    hour, offset = int.from_bytes(key[:8], "big", signed=True), int.from_bytes(key[-8:], "big", signed=True)
    return hour, key[8 + size :], int.from_bytes(value[:8], "big", signed=True), offset


def _within(rows: Iterable[Row], begin: int, end: int) -> Iterator[int]:
    first = begin // HOUR_MS * HOUR_MS
    last = min(end, first + (HOUR_LIMIT - 1) * HOUR_MS)
    for hour, _, stored, offset in rows:
        if first <= hour <= last and hour % HOUR_MS == 0 and begin <= stored <= end:
            yield offset
