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
from rocketfsck.formats.properties import CRC32, HALF_TOPIC, PGROUP, TRAN_MSG
from rocketfsck.scan.columns import Fault, Trait
from rocketfsck.scan.log.live import LATEST_CLOCK_MS
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.regions import LogRows, add_runs, no_facts
from rocketfsck.verify.tasks.task import Collector, add_rows

TARGETS = (b"REAL_TOPIC", b"REAL_QID")
PIECE_SIZE = 1 << 20
CRC_TRAILER_SIZE = 20
_HALF = HALF_TOPIC.encode()


_CRC_HEAD = np.frombuffer(CRC32.encode() + b"\x01", np.uint8)


def check_targets(rows: LogRows, reader: FileReader, collector: Collector) -> None:
    """Waiting records that do not say where they go: no broker can deliver them."""
    waiting = np.flatnonzero(_is_waiting(rows))
    if not len(waiting):
        return
    lacking = {name: waiting[~have_property(rows, waiting, name, reader)] for name in TARGETS}
    either = np.unique(np.concatenate(list(lacking.values())))

    def make(row: int) -> tuple[Where, Facts, Facts]:
        names = [name.decode() for name, found in lacking.items() if row in found]
        return rows.place(row), {"missing": " and ".join(names)}, {}

    add_rows(collector, RuleName.RECORD_WITHOUT_TARGET, rows.relative, either, make)


def misplaced_crcs(rows: LogRows, flagged: Flags, reader: FileReader) -> Flags:
    """Which of the flagged rows have their property CRC elsewhere than in their last 20 bytes."""
    misplaced = np.zeros(len(flagged), np.bool_)
    numbers = np.flatnonzero(flagged)
    start = (rows["pos"] + rows["total_size"])[numbers].astype(np.int64) - CRC_TRAILER_SIZE
    for low, high, data in _pieces(reader, start, np.full(len(start), CRC_TRAILER_SIZE, np.int64)):
        places = (start[low:high] - start[low])[:, None] + np.arange(len(_CRC_HEAD))
        misplaced[numbers[low:high]] = (data[places] != _CRC_HEAD).any(axis=1)
    return misplaced


def _is_waiting(rows: LogRows) -> Flags:
    found: Flags = (rows["traits"] & int(Trait.SCHEDULE_TOPIC)) != 0
    maybe = np.flatnonzero((rows["topic_size"] == len(_HALF)) & (rows["queue_index"] >= 0))
    if len(maybe):
        queues = rows["queue_index"][maybe]
        is_half = np.zeros(int(queues.max()) + 1, np.bool_)
        for queue in np.flatnonzero(np.bincount(queues)).tolist():
            is_half[queue] = rows.table.names[queue][0] == _HALF
        found[maybe] |= is_half[queues]
    return found


def have_property(rows: LogRows, numbers: Longs, name: bytes, reader: FileReader) -> Flags:
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
    """`rule` is broken by the rows that `broken` flags; `name` and `column` are what its template shows, the
    column's value as `value` where it shows the name, too."""

    rule: str
    broken: Callable[[LogRows, FileReader], Flags]
    name: str
    column: str
    shows_name: bool = False


def _in_state(rows: LogRows, state: int) -> Flags:
    flags: Flags = (rows["sys_flag"] & magic.TRANSACTION_MASK) == state
    return flags


def _lacks_inner_number(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    is_batch, has_number = rows["sys_flag"] & BATCH_FLAGS, rows["traits"] & int(Trait.INNER_BATCH)
    broken: Flags = (is_batch != 0) & (has_number == 0)
    return broken


def _plain_with_prepared(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = _in_state(rows, magic.TRANSACTION_NOT) & (rows["prepared_transaction_offset"] > 0)
    return broken


def _never_prepared(rows: LogRows, reader: FileReader) -> Flags:
    broken = _in_state(rows, magic.TRANSACTION_COMMIT)
    for name in TRANSACTION_PROPERTIES:
        committed = np.flatnonzero(broken)
        broken[committed] = ~have_property(rows, committed, name, reader)
    return broken


def _reconsumed_absurdly(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    times = rows["reconsume_times"]
    broken: Flags = (times < 0) | (times >= RECONSUME_LIMIT)
    return broken


def _born_never(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = rows["born_timestamp"] <= 0
    return broken


def _stored_never(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = rows["store_timestamp"] < 0
    return broken


def _stored_beyond(rows: LogRows, reader: FileReader) -> Flags:
    del reader
    broken: Flags = rows["store_timestamp"] > LATEST_CLOCK_MS
    return broken


HEADER_RULES: tuple[HeaderRule, ...] = (
    HeaderRule(RuleName.RECORD_INNER_BATCH_FLAG, _lacks_inner_number, "sys_flag", "sys_flag"),
    HeaderRule(
        RuleName.RECORD_PREPARED_OFFSET,
        _plain_with_prepared,
        "prepared_transaction_offset",
        "prepared_transaction_offset",
    ),
    HeaderRule(RuleName.RECORD_COMMIT_FLAG, _never_prepared, "sys_flag", "sys_flag"),
    HeaderRule(RuleName.RECORD_RECONSUME_TIMES, _reconsumed_absurdly, "reconsume_times", "reconsume_times"),
    HeaderRule(RuleName.RECORD_BORN_TIMESTAMP, _born_never, "born_timestamp", "born_timestamp"),
    HeaderRule(
        RuleName.RECORD_NEGATIVE_FIELD, _stored_never, "storeTimestamp", "store_timestamp", shows_name=True
    ),
    HeaderRule(RuleName.RECORD_STORE_TIMESTAMP, _stored_beyond, "store_timestamp", "store_timestamp"),
)


def check_headers(rows: LogRows, reader: FileReader, collector: Collector) -> None:
    """Add what these rules find in a batch's rows. Raises StoreError where properties cannot be read."""
    for rule in HEADER_RULES:
        flags = rule.broken(rows, reader)
        if flags.any():
            add_runs(collector, rule.rule, rows, flags, partial(_value, rule, rows))


def _value(rule: HeaderRule, rows: LogRows, row: int) -> Facts:
    value = int(rows[rule.column][row])
    return {"field": rule.name, "value": value} if rule.shows_name else {rule.name: value}


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
    newer = rows["magic_code"] == magic.MAGIC_V2
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
