"""Prepared messages of the log that have no row in the family `trans` of `rocksdbstore/`. Reference 11.3.

    row gone  <-  an op message names the half message's place (TRANS_OFFSET): committed or rolled back
              <-  the broker asked about it often enough, and gave it up: nothing in the log says so

An older half message was asked about at least as often as a later one. So after the first row that is
there, nothing was given up, and each half message up to the mark has a row or an op message; those that say
when they are first asked about are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.properties import REAL_TOPIC, TRANSACTION_ID
from rocketfsck.scan.views.messages import Message

HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
OP_OFFSET = "TRANS_OFFSET"
FIRST_CHECK = "CHECK_IMMUNITY_TIME_IN_SECONDS"
FOUND_LIMIT = 100_000
"""Half messages without a row that are kept until their op message comes."""


class Prepared:
    """Half messages without a row. `rows` are those of the database, by physical offset; `mark` is up to
    where it has any."""

    def __init__(self, rows: Mapping[int, list[tuple[str, dict[str, Any]]]], mark: int | None) -> None:
        self.places = {offset for offset, found in rows.items() for kind, _ in found if kind == "trans"}
        self.mark = -1 if mark is None else mark
        self.anchor: int | None = None
        self.missing: dict[int, str] = {}

    def look(self, offset: int, message: Message) -> None:
        """Take a message of the log; others than half and op messages are passed over."""
        properties = message.properties or {}
        if message.topic == OP_TOPIC:
            ended = parse_int64(properties.get(OP_OFFSET, ""))
            self.missing.pop(-1 if ended is None else ended, None)
        if message.topic != HALF_TOPIC or FIRST_CHECK in properties or offset > self.mark:
            return
        if offset in self.places:
            self.anchor = offset if self.anchor is None else self.anchor
        elif self.anchor is not None and len(self.missing) < FOUND_LIMIT:
            unique_key = properties.get(TRANSACTION_ID)
            if unique_key and properties.get(REAL_TOPIC):
                self.missing[offset] = unique_key

    def found(self) -> Iterator[tuple[int, str]]:
        """Physical offset and unique key of each that nothing ended."""
        yield from sorted(self.missing.items())
