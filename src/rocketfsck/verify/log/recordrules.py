"""Rules on single records: a table from the scan's faults to rules, and rules that compare neighbours.

Rows of a batch that break one rule next to each other become one finding with their count. Reference 2, 9.2.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.host import decode_host
from rocketfsck.formats.magic import IPV4_HOST_SIZE, IPV6_HOST_SIZE, MAGIC_V2, STORE_HOST_V6
from rocketfsck.formats.places import store_host_place
from rocketfsck.scan.columns import Fault
from rocketfsck.scan.log.queuetrack import RECENT_COUNT
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.emit import add_runs, no_facts
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.headerrules import check_headers
from rocketfsck.verify.log.propertyrows import check_targets, misplaced_crcs
from rocketfsck.verify.log.rows import LogRows
from rocketfsck.verify.tasks.task import Collector

BORN_TOLERANCE = 600_000
"""Milliseconds that a producer's clock may be ahead."""
CRC_READ_SIZE = 1 << 20

FactsOf = Callable[[LogRows, int], Facts]


@dataclass(frozen=True, slots=True)
class FaultRule:
    """`rule` is broken where a row has any bit of `faults`; `found` gives the values its template names.

    With `once` a file has one finding of the rule, with the number of records: for what is legal and common.
    """

    rule: str
    faults: Fault
    found: FactsOf
    once: bool = False


_NEGATIVE = (
    (Fault.QUEUE_ID, "queueId", "queue_id"),
    (Fault.QUEUE_OFFSET, "queueOffset", "queue_offset"),
    (Fault.PREPARED_OFFSET, "preparedTransactionOffset", "prepared_transaction_offset"),
    (Fault.BODY_SIZE, "bodyLength", "body_size"),
    (Fault.PROPERTIES_SIZE, "propertiesLength", "properties_size"),
)
_TOPIC = (
    (Fault.TOPIC_EMPTY, "the name is empty"),
    (Fault.TOPIC_UTF8, "the name is not UTF-8"),
    (Fault.TOPIC_CHARSET, "the name has a '/' or a control character"),
    (Fault.TOPIC_SIZE, "the name is longer than 255 bytes"),
)


def _nothing(rows: LogRows, row: int) -> Facts:
    del rows, row
    return {}


def _negative(rows: LogRows, row: int) -> Facts:
    faults = int(rows["faults"][row])
    field, column = next((name, column) for bit, name, column in _NEGATIVE if faults & bit)
    return {"field": field, "value": int(rows[column][row])}


def _topic(rows: LogRows, row: int) -> Facts:
    faults = int(rows["faults"][row])
    return {"reason": next(text for bit, text in _TOPIC if faults & bit)}


def _column(name: str, column: str) -> FactsOf:
    return lambda rows, row: {name: int(rows[column][row])}


FAULT_RULES: tuple[FaultRule, ...] = (
    FaultRule(RuleName.RECORD_BODY_CRC, Fault.BODY_CRC | Fault.BODY_CRC_NEGATIVE, _column("crc", "body_crc")),
    FaultRule(RuleName.RECORD_PROPERTY_CRC, Fault.PROPERTY_CRC, _nothing),
    FaultRule(
        RuleName.RECORD_PHYSICAL_OFFSET,
        Fault.PHYSICAL_OFFSET,
        _column("stated_physical_offset", "physical_offset"),
    ),
    FaultRule(
        RuleName.RECORD_SYS_FLAG, Fault.SYS_FLAG | Fault.COMPRESSION_TYPE, _column("sys_flag", "sys_flag")
    ),
    FaultRule(RuleName.RECORD_HOST_PORT, Fault.PORT, _nothing),
    FaultRule(
        RuleName.RECORD_NEGATIVE_FIELD,
        Fault.QUEUE_ID | Fault.QUEUE_OFFSET | Fault.PREPARED_OFFSET | Fault.BODY_SIZE | Fault.PROPERTIES_SIZE,
        _negative,
    ),
    FaultRule(
        RuleName.RECORD_TOPIC,
        Fault.TOPIC_EMPTY | Fault.TOPIC_CHARSET | Fault.TOPIC_SIZE | Fault.TOPIC_UTF8,
        _topic,
    ),
    FaultRule(RuleName.RECORD_PROPERTIES_SHAPE, Fault.PROPERTY_SHAPE, _nothing, once=True),
    FaultRule(RuleName.RECORD_PROPERTIES_NUL, Fault.PROPERTY_NUL, _nothing),
    FaultRule(RuleName.RECORD_DELAY_LEVEL, Fault.DELAY, _nothing),
    FaultRule(
        RuleName.RECORD_INNER_BATCH,
        Fault.INNER_BATCH,
        lambda _rows, _row: {"reason": "INNER_NUM or INNER_BASE"},
    ),
    FaultRule(RuleName.RECORD_END_OF_FILE, Fault.END_OF_FILE, _nothing),
)


def check_version(rows: LogRows, store: Store, once: dict[str, tuple[Where, int]]) -> None:
    """Records that the broker whose version was given does not know. An inferred version knows them all."""
    if store.dialect.v2_allowed or not store.dialect_evidence.given:
        return
    newer = rows["magic_code"] == MAGIC_V2
    if newer.any():
        where, count = once.get(RuleName.RECORD_TOO_NEW) or (rows.place(int(np.argmax(newer))), 0)
        once[RuleName.RECORD_TOO_NEW] = (where, count + int(np.count_nonzero(newer)))


def check_faults(
    rows: LogRows, reader: FileReader, collector: Collector, once: dict[str, tuple[Where, int]]
) -> None:
    """Turn the scan's faults into findings; `once` gathers first place and count of the common ones."""
    check_targets(rows, reader, collector)
    check_headers(rows, reader, collector)
    faults = rows["faults"]
    if not faults.any():
        return
    for rule in FAULT_RULES:
        flags = (faults & int(rule.faults)) != 0
        if not flags.any():
            continue
        if (
            rule.rule == RuleName.RECORD_PROPERTY_CRC
        ):  # a client's property of that name is not a CRC of a broker
            elsewhere = misplaced_crcs(rows, flags, reader)
            add_runs(collector, RuleName.RECORD_PROPERTY_CRC_PLACE, rows, elsewhere)
            flags &= ~elsewhere
        if rule.once:
            where, count = once.get(rule.rule) or (rows.place(int(np.argmax(flags))), 0)
            once[rule.rule] = (where, count + int(np.count_nonzero(flags)))
            continue
        crc = partial(_expected_crc, rows, reader) if rule.rule == RuleName.RECORD_BODY_CRC else no_facts
        add_runs(collector, rule.rule, rows, flags, partial(rule.found, rows), crc)


def _expected_crc(rows: LogRows, reader: FileReader, row: int) -> Facts:
    return {"crc": _body_crc(rows, reader, row)}


def _body_crc(rows: LogRows, reader: FileReader, row: int) -> int:
    pos, size = int(rows["body_pos"][row]), max(int(rows["body_size"][row]), 0)
    value = 0
    for start in range(pos, pos + size, CRC_READ_SIZE):
        value = zlib.crc32(reader.read(start, min(CRC_READ_SIZE, pos + size - start)), value)
    return value & 0x7FFFFFFF


class Clocks:
    """Times and hosts along a file: steps back, producers ahead, changes of the storeHost."""

    __slots__ = (
        "_ahead",
        "_back",
        "_host",
        "_hosts",
        "_tail",
        "first",
        "last",
        "newest",
        "oldest",
    )

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: int | None = None
        self.oldest: int | None = None
        self.newest: int | None = None
        self._tail: list[int] = []
        self._back: tuple[Where, int, int] | None = None  # first place, largest step, count
        self._ahead: tuple[Where, int, int] | None = None
        self._host: tuple[int, str] | None = None
        self._hosts: tuple[Where, str, str, int] | None = None

    def take(self, rows: LogRows, reader: FileReader) -> None:
        """Go on by the rows of a batch (at least one)."""
        times = rows["store_timestamp"]
        before = np.empty(len(times), np.int64)
        before[1:] = times[:-1]
        before[0] = times[0] if self.last is None else self.last
        self._back = _worst(self._back, rows, before - times, 0)
        self._ahead = _worst(self._ahead, rows, rows["born_timestamp"] - times, BORN_TOLERANCE)
        self.first = int(times[0]) if self.first is None else self.first
        self.last = int(times[-1])
        low, high = int(times.min()), int(times.max())
        self.oldest = low if self.oldest is None else min(self.oldest, low)
        self.newest = high if self.newest is None else max(self.newest, high)
        self._tail = [*self._tail, *times[-RECENT_COUNT:].tolist()][-RECENT_COUNT:]
        self._take_hosts(rows, reader)

    @property
    def recent(self) -> int | None:
        """The median storeTimestamp of the last records; None before any."""
        return sorted(self._tail)[len(self._tail) // 2] if self._tail else None

    def _take_hosts(self, rows: LogRows, reader: FileReader) -> None:
        host = rows["store_host"]
        changes = np.flatnonzero(host[1:] != host[:-1]) + 1
        if self._host is None:
            self._host = (int(host[0]), host_text(rows, reader, 0))
        elif int(host[0]) != self._host[0]:
            changes = np.concatenate(([0], changes))
        if not len(changes):
            return
        if self._hosts is None:
            row = int(changes[0])
            previous = self._host[1] if row == 0 else host_text(rows, reader, row - 1)
            self._hosts = (rows.place(row), previous, host_text(rows, reader, row), 0)
        where, previous, now, count = self._hosts
        self._hosts = (where, previous, now, count + len(changes))
        self._host = (int(host[-1]), host_text(rows, reader, len(host) - 1))

    def finish(self, collector: Collector) -> None:
        """Add what was found: one finding a rule."""
        if self._back is not None:
            where, step, count = self._back
            collector.find(
                RuleName.STORE_TIMESTAMP_BACK, where, {"largest_step_ms": step, "step_count": count}
            )
        if self._ahead is not None:
            where, step, count = self._ahead
            collector.find(RuleName.BORN_AFTER_STORE, where, {"ahead_ms": step, "record_count": count})
        if self._hosts is not None:
            where, previous, now, count = self._hosts
            found: Facts = {"previous_host": previous, "host": now, "change_count": count}
            collector.find(RuleName.STORE_HOST_CHANGE, where, found)


def _worst(
    known: tuple[Where, int, int] | None,
    rows: LogRows,
    amounts: np.ndarray[tuple[int], np.dtype[np.int64]],
    limit: int,
) -> tuple[Where, int, int] | None:
    found = np.flatnonzero(amounts > limit)
    if not len(found):
        return known
    largest = int(amounts[found].max())
    if known is None:
        return rows.place(int(found[0])), largest, len(found)
    return known[0], max(known[1], largest), known[2] + len(found)


def host_text(rows: LogRows, reader: FileReader, row: int) -> str:
    """The storeHost of a record as `address:port`."""
    sys_flag = int(rows["sys_flag"][row])
    start = int(rows["pos"][row]) + store_host_place(sys_flag)
    size = IPV6_HOST_SIZE if sys_flag & STORE_HOST_V6 else IPV4_HOST_SIZE
    return decode_host(reader.read(start, size)).text
