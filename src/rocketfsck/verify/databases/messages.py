"""Rows of single messages against the commit log: index, timers, transactions.

    index   every record with a unique key has a row for it, for each of its keys and for its tags, from the
            first record that has any up to the mark `lastOffsetPy`; and no row is for anything else
    timer   the record is there, of that size, with that unique key and delivery time; and every message of
            the timer topic that was scanned, is not due yet and was not cancelled has a row
    trans   the record is there, of that size, prepared for that topic; and see below

The index is compared in `indexrows`. Reference 11.3, 11.7.

Prepared messages of the log that have no row in the family `trans` of `rocksdbstore/`. Reference 11.3.

    row gone  <-  an op message names the half message's place (TRANS_OFFSET): committed or rolled back
              <-  the broker asked about it often enough, and gave it up: nothing in the log says so

An older half message was asked about at least as often as a later one. So after the first row that is
there, nothing was given up, and each half message up to the mark has a row or an op message; those that say
when they are first asked about are left out.

The files of every database by its own manifest; what keeps RocksDB from reading one. Reference 11.4.

The index of a database against the log: by hashes of 64 bits, so that a row costs some 24 bytes.

The rows are read a second time only to name those that no record explains. Both sides are taken apart by the
batch; what is left for each row alone is its hash, by the secret of this process. Reference 11.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import dtypes, javatext, rocks, timer
from rocketfsck.formats import properties as props
from rocketfsck.reader.indexrows import IndexRows, log_batches
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.views.arrow import hash_texts
from rocketfsck.scan.views.messages import Message
from rocketfsck.store.elsewhere import lost_queue_database
from rocketfsck.store.model import Other, Store
from rocketfsck.store.rocks import families
from rocketfsck.store.rocks.reading import RocksError, Rows, read_rows, why_not_readable
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Shared

NAMED_LIMIT = 100
"""Findings of one kind that a database can have."""

_LONG_SIZE = 8
_LEAST_SIZE = 20
_MIXER = np.int64(-7046029254386353131)  # an odd number, so that storeTimes stay apart


@dataclass(slots=True)
class Index:
    """The index rows by their hashes: what was put, and what the log explains. `mark` is up to where the
    database says that it has the log."""

    compiled: bool
    parts: list[dtypes.Longs] = field(default_factory=list)
    first_offset: int = 1 << 62
    last_offset: int = -1
    mark: int | None = None
    hashes: dtypes.Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    explained: dtypes.Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def take(self, rows: Rows, odd: families.OddRows) -> None:
        """Take rows of the database; those that cannot be decoded go to `odd`."""
        hashes, offsets = self._entries(rows, odd)
        if len(hashes):
            self.parts.append(hashes)
            self.first_offset = min(self.first_offset, int(offsets.min()))
            self.last_offset = max(self.last_offset, int(offsets.max()))

    def _entries(self, rows: Rows, odd: families.OddRows) -> tuple[dtypes.Longs, dtypes.Longs]:
        """Hash and physical offset of each entry; the mark is noted."""
        wanted = plain_rows(rows)
        for row, key, value in _pairs(rows, ~wanted):
            try:
                kind, found = families.decode_row(families.Content.INDEX, key, value)
            except FormatError as error:
                odd.add(rows.family, key, str(error))
                continue
            if kind != "mark":
                wanted[row] = True
            elif key == rocks.MARKS["default"][0]:
                self.mark = found["number"]
        return _hashed(rows, wanted, compiled=self.compiled)

    def finish(self) -> None:
        """Sort what was taken."""
        if self.parts:
            self.hashes = np.sort(np.concatenate(self.parts))
        self.parts = []
        self.explained = np.zeros(len(self.hashes), np.bool_)

    def explain(self, rows: IndexRows) -> Iterator[tuple[int, int]]:
        """Mark the rows that the log has; yield physical offset and count where rows are missing."""
        wanted = _with_values(
            hash_texts(rows.keys, rows.starts, compiled=self.compiled), rows.store_timestamps
        )
        at, found = self._find(wanted)
        self.explained[at[found]] = True
        offsets, counts = np.unique(rows.offsets[~found], return_counts=True)
        yield from zip(offsets.tolist(), counts.tolist(), strict=True)

    def unexplained(self, rows: Rows) -> dtypes.Longs:
        """The physical offsets of rows of the database that the log does not explain."""
        hashes, offsets = self._entries(rows, families.OddRows())
        at, found = self._find(hashes)
        found[found] = ~self.explained[at[found]]
        return offsets[found]

    def _find(self, hashes: dtypes.Longs) -> tuple[dtypes.Longs, dtypes.Flags]:
        """Where these hashes are, and which of them are there."""
        order = np.argsort(hashes)  # neighbours are found side by side: a fourth of the time
        at = np.empty(len(hashes), np.int64)
        at[order] = np.searchsorted(self.hashes, hashes[order])
        found = at < len(self.hashes)
        found[found] = self.hashes[at[found]] == hashes[found]
        return at, found


def plain_rows(rows: Rows) -> dtypes.Flags:
    """Which rows are entries of the index beyond doubt; the others are to be decoded one by one."""
    keys = np.frombuffer(rows.keys, np.uint8)
    starts, ends = rows.key_starts[:-1], rows.key_starts[1:]
    plain: dtypes.Flags = (ends - starts >= _LEAST_SIZE) & (np.diff(rows.value_starts) == _LONG_SIZE)
    found = np.flatnonzero(plain)
    low, high = starts[found] + _LONG_SIZE, ends[found] - _LONG_SIZE - 1
    marks = np.append(np.flatnonzero(keys == rocks.AT[0]), len(keys) + _LEAST_SIZE)
    second = marks[np.searchsorted(marks, low + 1)]
    good = (keys[low] == rocks.AT[0]) & (keys[high] == rocks.AT[0]) & (second + 2 < high)
    low, high, second = low[good], high[good], second[good]
    kind = keys[second + 1]
    has_text = (kind == rocks.TYPE_KEY[0]) | (kind == rocks.TYPE_TAG[0])
    fourth = marks[np.searchsorted(marks, second + 3)]
    shaped = (keys[second + 2] == rocks.AT[0]) & (
        (kind == rocks.TYPE_UNIQUE[0]) | (has_text & (fourth < high))
    )
    plain[:] = False
    plain[found[good][shaped]] = True
    return plain


def _pairs(rows: Rows, wanted: dtypes.Flags) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, key and value of some rows."""
    keys, values = rows.key_starts, rows.value_starts
    for row in np.flatnonzero(wanted).tolist():
        yield row, rows.keys[keys[row] : keys[row + 1]], rows.values[values[row] : values[row + 1]]


def _hashed(rows: Rows, wanted: dtypes.Flags, *, compiled: bool) -> tuple[dtypes.Longs, dtypes.Longs]:
    """The hashes of rows, and the physical offsets that their keys have."""
    numbers = np.flatnonzero(wanted)
    ends = rows.key_starts[1:][numbers]
    offsets = _longs(np.frombuffer(rows.keys, np.uint8), ends - _LONG_SIZE)
    times = _longs(np.frombuffer(rows.values, np.uint8), rows.value_starts[:-1][numbers])
    hashes = hash_texts(rows.keys, rows.key_starts, compiled=compiled)[numbers]
    return _with_values(hashes, times), offsets


def _longs(data: dtypes.Bytes, places: dtypes.Longs) -> dtypes.Longs:
    found: dtypes.Longs = data[places[:, None] + np.arange(_LONG_SIZE)].view(">i8").reshape(-1)
    return found.astype(np.int64)


def _with_values(hashes: dtypes.Longs, values: dtypes.Longs) -> dtypes.Longs:
    mixed: dtypes.Longs = hashes ^ (values * _MIXER)
    return mixed


def dangling_rows(other: Other, index: Index, start: int) -> Findings:
    """The index rows that no record explains, those of expired ones left out: by physical offset."""
    found: dict[int, int] = {}
    for rows in read_rows(other, ["default"]):
        offsets = index.unexplained(rows)
        for offset, count in zip(*np.unique(offsets[offsets >= start], return_counts=True), strict=True):
            found[int(offset)] = found.get(int(offset), 0) + int(count)
        if len(found) >= NAMED_LIMIT:
            break
    for offset, count in sorted(found.items())[:NAMED_LIMIT]:
        where = Where(other.relative, physical_offset=offset)
        yield Finding(RuleName.INDEX_ROW_DANGLING, where, {"database": other.relative, "row_count": count})


NO_DATABASE = "the whole database of consume queues is not there"
SHOWN_KEY = 60
"""Bytes of a key that a finding shows."""


def check_database_files(store: Store) -> Items:
    """Yield what is wrong with the files of the databases, whether or not they can be read."""
    lost = lost_queue_database(store)
    if lost is not None:
        facts: Facts = {"name": families.CURRENT, "database": lost.relative, "detail": NO_DATABASE}
        yield Finding(RuleName.DATABASE_FILE_MISSING, Where(f"{lost.relative}/{families.CURRENT}"), facts)
    for other in families.databases_of(store):
        try:
            for fault in families.file_faults(other):
                yield _finding(store, other, fault)
        except StoreError as error:
            yield NotChecked(other.relative, str(error), operational=True)


def _finding(store: Store, other: Other, fault: families.FileFault) -> Finding:
    file = f"{other.relative}/{fault.name}"
    facts: dict[str, int | str | bool | None] = {"name": fault.name, "database": other.relative}
    if fault.fault in (families.Fault.MISSING, families.Fault.NO_WAL):
        facts["detail"] = fault.detail
        return Finding(RuleName.DATABASE_FILE_MISSING, Where(file), facts)
    facts["reason"] = fault.detail
    expected: Facts = {}
    if fault.fault is families.Fault.LENGTH:
        facts["reason"] = (
            f"the file has {count_of(fault.size or 0, 'byte')}, but the manifest says {fault.expected:,}"
        )
        facts["size"], expected = fault.size, {"size": fault.expected}
    where = Where(file, fault.pos, fault.size)
    cut = fault.at_end and store.abort is not None
    rule = RuleName.DATABASE_LOG_CUT if cut else RuleName.DATABASE_FILE_DAMAGED
    return Finding(rule, where, facts, expected)


def unreadable(store: Store, other: Other, error: StoreError) -> Finding | NotChecked:
    """What to say of a database that could not be read: a finding, unless it is not the database's fault."""
    if why_not_readable(other) is not None or not isinstance(error, RocksError):
        return NotChecked(other.relative, str(error), operational=not isinstance(error, RocksError))
    if store.live.locked:
        return NotChecked(
            other.relative, f"a broker is changing the database during the check: {error.message}"
        )
    file = other.relative if error.file is None else f"{other.relative}/{error.file}"
    facts: Facts = {"database": other.relative, "reason": error.message, "name": error.file}
    return Finding(RuleName.DATABASE_UNREADABLE, Where(file), facts)


def odd_rows(database: str, odd: families.OddRows) -> Findings:
    """Rows that cannot be decoded: one finding for each family."""
    for family, row in sorted(odd.first.items()):
        facts: Facts = {
            "row_count": odd.counts[family],
            "family": family,
            "database": database,
            "key": row.key[:SHOWN_KEY].hex(),
            "reason": row.reason,
        }
        yield Finding(RuleName.DATABASE_ROW_ODD, Where(database), facts)


HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
OP_OFFSET = "TRANS_OFFSET"
FIRST_CHECK = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_LOOKED_AT = frozenset(topic.encode() for topic in (timer.TIMER_TOPIC, HALF_TOPIC, OP_TOPIC))
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
            ended = javatext.parse_int64(properties.get(OP_OFFSET, ""))
            self.missing.pop(-1 if ended is None else ended, None)
        if message.topic != HALF_TOPIC or FIRST_CHECK in properties or offset > self.mark:
            return
        if offset in self.places:
            self.anchor = offset if self.anchor is None else self.anchor
        elif self.anchor is not None and len(self.missing) < FOUND_LIMIT:
            unique_key = properties.get(props.TRANSACTION_ID)
            if unique_key and properties.get(props.REAL_TOPIC):
                self.missing[offset] = unique_key

    def found(self) -> Iterator[tuple[int, str]]:
        """Physical offset and unique key of each that nothing ended."""
        yield from sorted(self.missing.items())


# POP records of a database, by themselves: JSON and key of a row have to agree. Reference 11.7.


def check_pop(database: str, rows: Rows, odd: families.OddRows, shared: Shared) -> Findings:
    """Yield a finding for each record whose JSON and key differ; rows that cannot be decoded go to `odd`."""
    for key, value in rows.pairs():
        try:
            _, values = families.decode_row(families.Content.POP, key, value)
        except FormatError as error:
            odd.add(rows.family, key, str(error))
            continue
        shared.ask(RuleName.POP_ROW, 1)
        content = values["content"]
        stated = content if isinstance(content, dict) else {}
        times = [stated.get(name) for name in ("popTime", "invisibleTime")]
        visible = sum(times) if all(isinstance(time, int) for time in times) else None  # type: ignore[arg-type]
        pairs = (
            ("visibleTime", values["visibleTime"], visible),
            ("groupId", values["group"].decode("utf-8", "replace"), stated.get("groupId")),
            ("topicId", values["topic"].decode("utf-8", "replace"), stated.get("topicId")),
            ("queueId", values["queueId"], stated.get("queueId", 0)),
            ("offset", values["queueOffset"], stated.get("offset", 0)),
        )
        wrong = [
            f"{name} is {in_key} in the key, but {in_value} in the value"
            for name, in_key, in_value in pairs
            if in_key != in_value
        ]
        if wrong:
            group, topic = pairs[1][1], pairs[2][1]
            where = Where(
                database, topic=topic, queue_id=values["queueId"], queue_offset=values["queueOffset"]
            )
            yield Finding(RuleName.POP_ROW, where, {"database": database, "group": group, "reason": wrong[0]})


@dataclass(slots=True)
class _Taken:
    """What was read of a database: the index, the timers and transactions by physical offset, the marks of
    the timers, odd rows."""

    index: Index
    messages: dict[int, list[tuple[str, dict[str, Any]]]] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    prepared_mark: int | None = None
    odd: families.OddRows = field(default_factory=families.OddRows)


def check_messages(store: Store, other: Other, shared: Shared) -> Findings:
    """The rows of `rocksdbstore/` against the log, those of `kvStore/` by themselves.

    Raises RocksError where the database cannot be read, StoreError where the log cannot.
    """
    taken = _Taken(Index(compiled_wanted(store.commitlog.size)))
    for rows in read_rows(other):
        content = families.content_of(other.relative, rows.family)
        if content is families.Content.INDEX:
            taken.index.take(rows, taken.odd)
        elif content in (families.Content.TIMER, families.Content.TRANS):
            _take_messages(taken, rows, content)
        elif content is families.Content.POP:
            yield from check_pop(other.relative, rows, taken.odd, shared)
    yield from odd_rows(other.relative, taken.odd)
    taken.index.finish()
    if len(taken.index.hashes) or taken.messages:
        yield from _against_log(store, other, taken)


def _take_messages(taken: _Taken, rows: Rows, content: families.Content) -> None:
    for key, value in rows.pairs():
        try:
            kind, values = families.decode_row(content, key, value)
        except FormatError as error:
            taken.odd.add(rows.family, key, str(error))
            continue
        if kind != "mark":
            taken.messages.setdefault(values["phyOffset"], []).append((kind, values))
        elif content is families.Content.TIMER:
            taken.timers[values["name"]] = values["number"]
        else:
            taken.prepared_mark = values["number"]


def _against_log(store: Store, other: Other, taken: _Taken) -> Findings:
    """Walk the log once, and tell what it does not explain and what is not there."""
    index = taken.index
    last = index.last_offset if index.mark is None else index.mark
    left = NAMED_LIMIT
    waiting = _Waiting(taken)
    prepared = Prepared(taken.messages, taken.prepared_mark)
    places = np.array(sorted(taken.messages), np.int64)
    for batch in log_batches(store):
        offsets = batch.offsets
        looked_at = batch.of_topics(_LOOKED_AT) | np.isin(offsets, places)
        for offset, message in batch.messages(np.flatnonzero(looked_at)):
            for kind, values in taken.messages.pop(offset, ()):
                reason = _misfit(kind, values, message)
                if reason is not None:
                    yield _message_finding(other, kind, values, reason)
            if message.topic == timer.TIMER_TOPIC:
                waiting.look(offset, message)
            prepared.look(offset, message)
        if not len(offsets) or offsets[-1] < index.first_offset:
            continue
        for expected in batch.index_rows():
            for offset, missing in index.explain(expected):
                if index.first_offset <= offset <= last and left:
                    left -= 1
                    record = int(np.searchsorted(offsets, offset))
                    where = Where(other.relative, physical_offset=offset, topic=batch.topic(record))
                    facts: Facts = {"database": other.relative, "row_count": missing}
                    yield Finding(RuleName.INDEX_ROW_MISSING, where, facts)
    yield from waiting.findings(other)
    for offset, unique_key in islice(prepared.found(), NAMED_LIMIT):
        values = {"phyOffset": offset, "uniqKey": unique_key.encode("utf-8", "replace")}
        reason = "the row is missing, and the message was neither committed nor rolled back"
        yield _message_finding(other, "trans", values, reason)
    start = store.commitlog.start_offset or 0
    for offset, rows in sorted(taken.messages.items()):
        for kind, values in rows:
            if offset >= start:
                yield _message_finding(other, kind, values, "no record starts there")
    if not index.explained.all():
        yield from dangling_rows(other, index, start)


class _Waiting:
    """Messages that wait for their time, and have no row. Those from before the first row are not judged: the
    database may be younger than they are."""

    def __init__(self, taken: _Taken) -> None:
        rows = [(offset, *row) for offset, rows in taken.messages.items() for row in rows]
        timers = [(offset, values) for offset, kind, values in rows if kind == "timer"]
        self.first = min((offset for offset, _ in timers), default=1 << 62)
        self.keys = {(values["deliverTime"], values["uniqKey"]) for _, values in timers}
        self.scanned = taken.timers.get("sys_topic_scan_offset_checkpoint", 0)
        self.delivered = taken.timers.get("timeline_checkpoint", 1 << 62)
        self.found: list[tuple[int, str, int]] = []
        self.cancelled: list[str] = []

    def look(self, offset: int, message: Message) -> None:
        """Take a message of the timer topic. The row of one that was rolled may lead to a later copy."""
        properties = message.properties or {}
        if props.TIMER_DEL_UNIQKEY in properties:
            self.cancelled.append(properties[props.TIMER_DEL_UNIQKEY])
            return
        due, unique_key = properties.get(props.TIMER_OUT_MS, ""), properties.get(props.UNIQ_KEY, "")
        if offset < self.first or message.queue_offset >= self.scanned or not due.isdecimal():
            return
        if int(due) <= self.delivered or (int(due), unique_key.encode("utf-8", "replace")) in self.keys:
            return
        if len(self.found) < NAMED_LIMIT:
            self.found.append((offset, unique_key, int(due)))

    def findings(self, other: Other) -> Findings:
        """Those that no later message cancelled."""
        for offset, unique_key, due in self.found:
            if unique_key and not any(text.endswith(unique_key) for text in self.cancelled):
                values = {"phyOffset": offset, "uniqKey": unique_key.encode("utf-8", "replace")}
                yield _message_finding(
                    other, "timer", values, f"the row is missing, and the message is due at {due}"
                )


def _misfit(kind: str, values: dict[str, Any], message: Message) -> str | None:
    """Why a timer or transaction is not of the record at its place; None if it is."""
    properties = message.properties or {}
    if message.total_size != values["size"]:
        return f"the row says {values['size']:,} bytes, but the record has {message.total_size:,}"
    unique_key = values["uniqKey"].decode("utf-8", "replace")
    if kind == "timer":
        if properties.get(props.UNIQ_KEY) != unique_key:
            return "the record there has another unique key"
        due = properties.get(props.TIMER_OUT_MS)
        if due is not None and due != str(values["deliverTime"]):
            return f"the row has the delivery time {values['deliverTime']}, but the record has {due}"
        return None
    if properties.get(props.TRANSACTION_ID, properties.get(props.UNIQ_KEY)) != unique_key:
        return "the record there has another unique key"
    if properties.get(props.REAL_TOPIC, "").encode("utf-8", "replace") != values["topic"]:
        return "the record there belongs to another topic"
    return None


def _message_finding(other: Other, kind: str, values: dict[str, Any], reason: str) -> Finding:
    where = Where(other.relative, physical_offset=values["phyOffset"])
    unique_key = values["uniqKey"].decode("utf-8", "replace")
    facts: Facts = {"database": other.relative, "family": kind, "unique_key": unique_key, "reason": reason}
    return Finding(RuleName.MESSAGE_ROW, where, facts)
