"""Rules on single records: a table from the scan's faults to rules, and rules that compare neighbours.

Rows of a batch that break one rule next to each other become one finding with their count. Reference 2, 9.2.

Rules on header fields that frame, lengths and CRCs do not cover, but that brokers fill in few ways only.

    sysFlag 0x40, 0x80           an inner batch, which always has INNER_NUM and INNER_BASE
    sysFlag 0x8                  a committed message, whose producer set TRAN_MSG and PGROUP
    preparedTransactionOffset    0 but in committed and rolled-back messages
    reconsumeTimes               a count of deliveries
    bornTimestamp                a time
    storeTimestamp               a time that a clock can show

All but the last are heuristic: a client can send what no client is known to send. Reference 2.1, 2.3, 2.10,
2.12.

Properties that a kind of record must have, and where: of records whose columns do not tell.

    waiting record   in SCHEDULE_TOPIC_XXXX or the half topic; REAL_TOPIC and REAL_QID say where it goes then
    property CRC     the record's last 20 bytes, `__CRC32#` 0x01 digit*10 0x02

Bytes are read again for such records only, in pieces, and compared by NumPy. Reference 2.7, 2.10, 2.11, 9.2
M14, M17.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import magic
from rocketfsck.formats.dtypes import Bytes, Flags, Longs
from rocketfsck.formats.javatext import INT64_MAX, INT64_MIN
from rocketfsck.formats.properties import CRC32, HALF_TOPIC, PGROUP, TRAN_MSG
from rocketfsck.scan.columns import Fault, Trait
from rocketfsck.scan.log.live import LATEST_CLOCK_MS
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.regions import LiveRows, add_runs, no_facts
from rocketfsck.verify.tasks.task import Collector, add_rows

TARGETS = (b"REAL_TOPIC", b"REAL_QID")
_LACKING = np.array(["", "REAL_TOPIC", "REAL_QID", "REAL_TOPIC and REAL_QID"], object)
"""What a record lacks, by a bit for each of the targets."""
PIECE_SIZE = 1 << 20
CRC_TRAILER_SIZE = 20
_HALF = HALF_TOPIC.encode()


_CRC_HEAD = np.frombuffer(CRC32.encode() + b"\x01", np.uint8)


def check_targets(rows: LiveRows, reader: FileReader, collector: Collector) -> None:
    """Waiting records that do not say where they go: no broker can deliver them."""
    waiting = np.flatnonzero(_is_waiting(rows))
    if not len(waiting):
        return
    lacking = sum(~have_property(rows, waiting, name, reader) << bit for bit, name in enumerate(TARGETS))
    rule, either = RuleName.RECORD_WITHOUT_TARGET, np.flatnonzero(lacking)
    missing = {"missing": _LACKING[lacking]}
    add_rows(collector, rule, rows.relative, either, lambda at: rows.place(int(waiting[at])), missing, {})


def misplaced_crcs(rows: LiveRows, flagged: Flags, reader: FileReader) -> Flags:
    """Which of the flagged rows have their property CRC elsewhere than in their last 20 bytes."""
    misplaced = np.zeros(len(flagged), np.bool_)
    numbers = np.flatnonzero(flagged)
    start = (rows["pos"] + rows["total_size"])[numbers].astype(np.int64) - CRC_TRAILER_SIZE
    for low, high, data in _pieces(reader, start, np.full(len(start), CRC_TRAILER_SIZE, np.int64)):
        places = (start[low:high] - start[low])[:, None] + np.arange(len(_CRC_HEAD))
        misplaced[numbers[low:high]] = (data[places] != _CRC_HEAD).any(axis=1)
    return misplaced


def _is_waiting(rows: LiveRows) -> Flags:
    found: Flags = (rows["traits"] & int(Trait.SCHEDULE_TOPIC)) != 0
    maybe = np.flatnonzero((rows["topic_size"] == len(_HALF)) & (rows["queue_index"] >= 0))
    if len(maybe):
        queues = rows["queue_index"][maybe]
        is_half = np.zeros(int(queues.max()) + 1, np.bool_)
        for queue in np.flatnonzero(np.bincount(queues)).tolist():
            is_half[queue] = rows.table.names[queue][0] == _HALF
        found[maybe] |= is_half[queues]
    return found


def have_property(rows: LiveRows, numbers: Longs, name: bytes, reader: FileReader) -> Flags:
    """Which rows have a property of this name that is not empty."""
    start = rows["properties_pos"][numbers].astype(np.int64)
    size = np.maximum(rows["properties_size"][numbers].astype(np.int64), 0)
    have = np.zeros(len(numbers), np.bool_)
    wanted = np.frombuffer(name, np.uint8)
    for low, high, data in _pieces(reader, start, size):
        first = start[low:high] - start[low]
        last = first + size[low:high]
        begin = np.flatnonzero(data == 1) - len(name)
        begin = begin[begin >= 0]
        begin = begin[(data[begin[:, None] + np.arange(len(name))] == wanted).all(axis=1)]
        row = np.searchsorted(first, begin, "right") - 1
        begin, row = begin[row >= 0], row[row >= 0]
        value = begin + len(name) + 1
        inside = value < last[row]
        begin, row, value = begin[inside], row[inside], value[inside]
        sound = ((begin == first[row]) | (data[begin - 1] == 2)) & (data[value] != 2)
        have[low + row[sound]] = True
    return have


def _pieces(reader: FileReader, start: Longs, size: Longs) -> Iterator[tuple[int, int, Bytes]]:
    """The ranges (in order) in groups that are read at once: first, end, and the bytes from the first on."""
    if not len(start):
        return
    for low, high in pairwise(group_bounds((start - start[0]) // PIECE_SIZE).tolist()):
        begin, end = int(start[low]), int((start[low:high] + size[low:high]).max())
        yield low, high, np.frombuffer(reader.read(begin, end - begin), np.uint8)


RECONSUME_LIMIT = 1 << 16
"""Deliveries of one message that nobody waits for: at the longest default delay they take fifteen years."""

BATCH_FLAGS = magic.NEED_UNWRAP | magic.INNER_BATCH
TRANSACTION_PROPERTIES = (TRAN_MSG.encode(), PGROUP.encode())


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`rule` is broken by the rows that `broken` flags, by their `column` and what else is in them; the
    template shows the value of the column, as `value` where it shows the `field`, too."""

    rule: str
    column: str
    broken: Callable[[Longs, LiveRows, FileReader], Flags]
    field: str = ""


def _lacks_inner_number(flags: Longs, rows: LiveRows, _: FileReader) -> Flags:
    broken: Flags = ((flags & BATCH_FLAGS) != 0) & ((rows["traits"] & int(Trait.INNER_BATCH)) == 0)
    return broken


def _plain_with_prepared(offsets: Longs, rows: LiveRows, _: FileReader) -> Flags:
    broken: Flags = (offsets > 0) & ((rows["sys_flag"] & magic.TRANSACTION_MASK) == magic.TRANSACTION_NOT)
    return broken


def _never_prepared(flags: Longs, rows: LiveRows, reader: FileReader) -> Flags:
    broken: Flags = (flags & magic.TRANSACTION_MASK) == magic.TRANSACTION_COMMIT
    for name in TRANSACTION_PROPERTIES:
        committed = np.flatnonzero(broken)
        broken[committed] = ~have_property(rows, committed, name, reader)
    return broken


def _outside(least: int, most: int) -> Callable[[Longs, LiveRows, FileReader], Flags]:
    """Whether the values of a column are not between these, which are sound."""
    return lambda values, _rows, _reader: (values < least) | (values > most)


HEADER_RULES: tuple[HeaderRule, ...] = (
    HeaderRule(RuleName.RECORD_INNER_BATCH_FLAG, "sys_flag", _lacks_inner_number),
    HeaderRule(RuleName.RECORD_PREPARED_OFFSET, "prepared_transaction_offset", _plain_with_prepared),
    HeaderRule(RuleName.RECORD_COMMIT_FLAG, "sys_flag", _never_prepared),
    HeaderRule(RuleName.RECORD_RECONSUME_TIMES, "reconsume_times", _outside(0, RECONSUME_LIMIT - 1)),
    HeaderRule(RuleName.RECORD_BORN_TIMESTAMP, "born_timestamp", _outside(1, INT64_MAX)),
    HeaderRule(
        RuleName.RECORD_NEGATIVE_FIELD, "store_timestamp", _outside(0, INT64_MAX), field="storeTimestamp"
    ),
    HeaderRule(RuleName.RECORD_STORE_TIMESTAMP, "store_timestamp", _outside(INT64_MIN, LATEST_CLOCK_MS)),
)


def check_headers(rows: LiveRows, reader: FileReader, collector: Collector) -> None:
    """Add what these rules find in a batch's rows. Raises StoreError where properties cannot be read."""
    for rule in HEADER_RULES:
        flags = rule.broken(rows[rule.column], rows, reader)
        if flags.any():
            add_runs(collector, rule.rule, rows, flags, partial(_value, rule, rows))


def _value(rule: HeaderRule, rows: LiveRows, row: int) -> Facts:
    value = int(rows[rule.column][row])
    return {"field": rule.field, "value": value} if rule.field else {rule.column: value}


CRC_READ_SIZE = 1 << 20

FactsOf = Callable[[LiveRows, int], Facts]


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


def _nothing(rows: LiveRows, row: int) -> Facts:
    del rows, row
    return {}


def _negative(rows: LiveRows, row: int) -> Facts:
    faults = int(rows["faults"][row])
    field, column = next((name, column) for bit, name, column in _NEGATIVE if faults & bit)
    return {"field": field, "value": int(rows[column][row])}


def _topic(rows: LiveRows, row: int) -> Facts:
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


def check_version(rows: LiveRows, store: Store, once: dict[str, tuple[Where, int]]) -> None:
    """Records that the broker whose version was given does not know. An inferred version knows them all."""
    if store.dialect.v2_allowed or not store.dialect_evidence.given:
        return
    newer = rows["magic_code"] == magic.MAGIC_V2
    if newer.any():
        where, count = once.get(RuleName.RECORD_TOO_NEW) or (rows.place(int(np.argmax(newer))), 0)
        once[RuleName.RECORD_TOO_NEW] = (where, count + int(np.count_nonzero(newer)))


def check_faults(
    rows: LiveRows, reader: FileReader, collector: Collector, once: dict[str, tuple[Where, int]]
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


def _expected_crc(rows: LiveRows, reader: FileReader, row: int) -> Facts:
    return {"crc": _body_crc(rows, reader, row)}


def _body_crc(rows: LiveRows, reader: FileReader, row: int) -> int:
    pos, size = int(rows["body_pos"][row]), max(int(rows["body_size"][row]), 0)
    value = 0
    for start in range(pos, pos + size, CRC_READ_SIZE):
        value = zlib.crc32(reader.read(start, min(CRC_READ_SIZE, pos + size - start)), value)
    return value & 0x7FFFFFFF
