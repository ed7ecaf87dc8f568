"""The join of keys and index entries: broker-written stores agree, damaged ones disagree where they were
damaged, and only there. And which units the records of a batch should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from rocketfsck.common.budget import within
from rocketfsck.formats.indexfile import ENTRY, ENTRY_SIZE, decode_header, index_file_size
from rocketfsck.formats.magic import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.join.keyjoin import EntryCode, EntryJoin, Mismatches, put_rows
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.plain.records import further_queues
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.units import UNKNOWN_TAGS, dispatches_of
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader, read_whole

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory

Found = list[tuple[str, dict[str, int]]]
NAMES = ("queue", "row", "offset", "end", "number", "number_end", "found", "expected", "count")


def _entries_of(store: Store) -> list[list[int]]:
    """All entries of all index files, as a feed gives them."""
    rows: list[list[int]] = []
    inherited = 0
    for index in store.indexes:
        data = read_whole(index.path, 1 << 26)
        header = decode_header(data[:40])
        first = index_file_size(store.geometry.slot_count, 1)
        for number in range(1, header.entry_count + 1):
            at = first + ENTRY_SIZE * (number - 1)
            if at + ENTRY_SIZE > len(data):
                break
            entry = ENTRY.parse(data, at)
            begin = inherited if number == 1 else header.begin_timestamp
            rows.append([number, entry["phyOffset"], entry["keyHash"], entry["timeDiff"], begin])
        inherited = header.end_timestamp
    return rows


class Listed:
    """A feed of given rows, in pieces of at most `step`."""

    def __init__(self, rows: Sequence[Sequence[int]], width: int, step: int = 1 << 20) -> None:
        self._rows = np.array(rows, np.int64).reshape(-1, width)
        self._step = step

    def read(self, count: int) -> NDArray[np.int64]:
        size = min(count, self._step)
        found, self._rows = self._rows[:size], self._rows[size:]
        return found


class Stored:
    """A feed of entries as on disk, `step` at once."""

    def __init__(
        self, rows: Sequence[Sequence[int]], begin: int, end: int, step: int, *, compiled: bool
    ) -> None:
        fields = [(key_hash, offset, diff, 0) for _, offset, key_hash, diff, _ in rows]
        self._entries = np.array(fields, ENTRY.dtype())
        self._begin, self._end, self._step, self._compiled = begin, end, step, compiled
        self._next = 0

    def read(self, count: int) -> NDArray[np.int64]:
        while self._next < len(self._entries):
            first = self._next
            entries = self._entries[first : first + min(count, self._step)]
            self._next += len(entries)
            room = np.empty((len(entries), 5), np.int64)
            rows = put_rows(
                entries, first + 1, self._begin, -(1 << 62), self._end, room, compiled=self._compiled
            )
            if len(rows):
                return rows
        return np.zeros((0, 5), np.int64)


def _rows(found: Mismatches) -> Found:
    rows = zip(*(getattr(found, name).tolist() for name in ("code", *NAMES)), strict=True)
    return [(EntryCode(code).name, dict(zip(NAMES, row, strict=True))) for code, *row in rows]


def _join(
    root: Path, *, compiled: bool = False, batch: RecordBatch | None = None
) -> tuple[Found, Counter[str]]:
    """The join over a store: its mismatches and their counts."""
    store = open_store(root)
    table = QueueTable()
    with within(compiled=compiled):
        join = EntryJoin(Listed(_entries_of(store), 5))
    found: Found = []
    options = ScanOptions(property_parser=store.dialect.property_parser)
    for file in store.commitlog.files:
        base = file.start_offset or 0
        with FileReader(file.path) as reader:
            for item in scan_log_file(reader, base, options, table, batch=batch):
                if not isinstance(item, Region):
                    found += _rows(join.add(item, base))
    found += _rows(join.finish())
    counts: Counter[str] = Counter()
    for name, row in found:
        counts[name] += row["count"]
    assert counts == {code.name: join.count(code) for code in EntryCode if join.count(code)}
    return found, counts


EXPECTED = {
    "4.9.8-expired": {"RECORD_MISSING": 114},
    "5.1.3-expired": {"RECORD_MISSING": 239},
    "5.1.3-killed-restarted": {"ENTRY_MISSING": 110},  # the crash lost the newest file (reference 4.8)
}


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if name != "4.9.8-ghosttail"])
def test_a_broker_written_store_agrees_with_itself(name: str, store_dir: Directory) -> None:
    assert _join(store_dir(name))[1] == EXPECTED.get(name, {})


DAMAGE = {
    "4.9.8-basic--torn-tail": {"RECORD_MISSING": 2},
    "5.3.3-trans--cq-dangling": {},
    "4.9.8-killed--index-truncated": {"ENTRY_MISSING": 215},
    "4.4.0-multiseg--missing-middle-commitlog": {"RECORD_MISSING": 345},
}


@pytest.mark.parametrize("name", sorted(DAMAGE))
def test_damage_is_found_where_it_is_and_nowhere_else(name: str, restart_dir: Directory) -> None:
    assert name in RESTART_NAMES
    assert _join(restart_dir(name))[1] == DAMAGE[name]


@pytest.mark.parametrize("name", ["4.9.8-lmq", "5.0.0-innerbatch", "5.1.3-expired"])
def test_batches_may_end_anywhere(name: str, store_dir: Directory) -> None:
    assert _join(store_dir(name), batch=new_batch(7, 1 << 15)) == _join(store_dir(name))


@pytest.mark.parametrize("name", ["4.9.8-ghosttail", "4.9.8-delay", "5.0.0-innerbatch", "5.1.3-expired"])
def test_the_compiled_join_says_the_same(name: str, store_dir: Directory) -> None:
    assert _join(store_dir(name), compiled=True) == _join(store_dir(name))


def _key_batch(records: Sequence[tuple[int, Sequence[int]]], sys_flags: Sequence[int] = ()) -> RecordBatch:
    batch = new_batch(64, 256)
    for row, (pos, hashes) in enumerate(records):
        batch.records["pos"][row] = pos
        batch.records["store_timestamp"][row] = 10_000 + pos
        batch.records["key_start"][row] = batch.counts[1]
        batch.records["key_count"][row] = len(hashes)
        batch.records["sys_flag"][row] = sys_flags[row] if sys_flags else 0
        for word in hashes:
            batch.keys["key_hash"][batch.counts[1]] = word
            batch.counts[1] += 1
        batch.counts[0] += 1
    return batch


def _entry(number: int, offset: int, key_hash: int, diff: int = 0, begin: int = 10_000) -> list[int]:
    return [number, offset, key_hash, diff, begin]


KEYED = [(0, [11, 12]), (100, []), (200, [13]), (300, [14, 15, 14])]
ENTRIES = [
    _entry(number, offset, key_hash)
    for number, (offset, key_hash) in enumerate(
        [(0, 11), (0, 12), (200, 13), (300, 14), (300, 15), (300, 14)], 1
    )
]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (ENTRIES, []),
        (ENTRIES[2:], [("ENTRY_MISSING", 0, 1, 2)]),
        (ENTRIES[:2], [("ENTRY_MISSING", 2, 4, 4)]),
        ([], [("ENTRY_MISSING", 0, 4, 6)]),
        ([ENTRIES[1], *ENTRIES[2:]], [("ENTRY_MISSING", 0, 1, 1)]),
        ([_entry(1, 0, 99), *ENTRIES[1:]], [("HASH", 1, 2, 1)]),
        ([_entry(1, 0, 11, diff=3), *ENTRIES[1:]], [("TIME_DIFF", 1, 2, 1)]),
        ([*ENTRIES, *(_entry(n, 300, h) for n, h in ((7, 14), (8, 15), (9, 14)))], [("DUPLICATE", 7, 10, 3)]),
        (
            [_entry(1, 0, 11), _entry(1001, 0, 11), _entry(1002, 0, 12), *ENTRIES[2:]],
            [("DUPLICATE", 1001, 1002, 1)],
        ),
        ([*ENTRIES, _entry(7, 300, 99)], [("EXTRA", 7, 8, 1)]),
        ([*ENTRIES, _entry(7, 900, 1), _entry(8, 900, 2)], [("RECORD_MISSING", 7, 9, 2)]),
        ([*ENTRIES[:2], _entry(9, 100, 1), *ENTRIES[2:]], [("EXTRA", 9, 10, 1)]),
        ([*ENTRIES[:3], _entry(9, 0, 1), *ENTRIES[3:]], [("ORDER", 9, 10, 1)]),
        ([*ENTRIES[:2], _entry(9, 9000, 1), *ENTRIES[2:]], [("ORDER", 9, 10, 1)]),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_what_entries_can_have_wrong(
    entries: list[list[int]], expected: list[tuple[str, int, int, int]], compiled: bool
) -> None:
    for step in (1, 2, 100):
        with within(compiled=compiled):
            join = EntryJoin(Listed(entries, 5, step))
        found = _rows(join.add(_key_batch(KEYED), 0)) + _rows(join.finish())
        assert [(name, row["number"], row["number_end"], row["count"]) for name, row in found] == expected


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_a_repetition_of_a_record_that_has_a_key_twice(compiled: bool) -> None:
    """A full file ends with three of its entries; after a kill the next one begins with all of them."""
    keyed = [(300, [14, 15, 16, 15, 17])]
    hashes = [14, 15, 16, 14, 15, 16, 15, 17]
    entries = [_entry(number if number < 4 else 1000 + number, 300, h) for number, h in enumerate(hashes, 1)]
    for step in (1, 2, 100):
        with within(compiled=compiled):
            join = EntryJoin(Listed(entries, 5, step))
        found = _rows(join.add(_key_batch(keyed), 0)) + _rows(join.finish())
        assert [(name, row["number"], row["count"]) for name, row in found] == [("DUPLICATE", 1004, 3)]


def test_a_time_difference_is_truncated_and_clamped() -> None:
    late = (1 << 31) * 1000 + 999
    batch = _key_batch([(1999, [1]), (late, [2]), (late + 1, [3])])
    entries = [
        _entry(1, 1999, 1, diff=1),
        _entry(2, late, 2, diff=(1 << 31) - 1),
        _entry(3, late + 1, 3, diff=0, begin=0),
    ]
    join = EntryJoin(Listed(entries, 5))
    assert len(join.add(batch, 0)) == 0
    assert join.count(EntryCode.TIME_DIFF) == 0


def test_rolled_back_records_have_no_entries_and_prepared_ones_have() -> None:
    flags = [TRANSACTION_ROLLBACK, 0, TRANSACTION_PREPARED, 0]
    join = EntryJoin(Listed(ENTRIES[2:], 5))
    assert len(join.add(_key_batch(KEYED, flags), 0)) == 0


def test_prepared_and_rolled_back_records_are_not_dispatched() -> None:
    flags = [TRANSACTION_ROLLBACK, 0, TRANSACTION_PREPARED, 8]
    found = dispatches_of(_key_batch(KEYED, flags), 4096)
    assert found.row.tolist() == [1, 3]
    assert found.offset.tolist() == [4196, 4396]


def test_delayed_records_have_their_delivery_time_as_tags_code() -> None:
    batch = _key_batch([(0, []), (1, []), (2, []), (3, [])])
    batch.records["traits"][:4] = [0x30, 0x30, 0x30, 0x20]
    batch.records["delay_level"][:4] = [1, 9, 0, 1]
    batch.records["tags_code"][:4] = 77
    levels = {1: 1000, 2: 5000}
    found = dispatches_of(batch, 0, delay_levels=levels)
    assert found.tags.tolist() == [11_000, 15_001, 77, 77]
    assert dispatches_of(batch, 0).tags.tolist() == [UNKNOWN_TAGS, UNKNOWN_TAGS, 77, 77]


@pytest.mark.parametrize(
    ("topic", "names", "offsets", "expected"),
    [
        (b"T", "%LMQ%a,b", "4,5", [(b"%LMQ%a", 0, 4), (b"b", 3, 5)]),
        (b"T", "%LMQ%a,b", "4", None),
        (b"T", "%LMQ%a,b", "4,", None),
        (b"T", "%LMQ%a,b", "4,x", None),
        (b"T", "%LMQ%a,", "4", [(b"%LMQ%a", 0, 4)]),
        (b"T", ",", ",,", []),
        (b"T", "%LMQ%a/b,%LMQ%c", "4,5", [(b"%LMQ%c", 0, 5)]),
        (b"%RETRY%T", "%LMQ%a", "4", []),
        (b"%RETRY%T", "%LMQ%a", "x", None),
        (b"rmq_sys_x", "%LMQ%a", "4", []),
    ],
)
def test_the_queues_of_a_multi_dispatch_record(
    topic: bytes, names: str, offsets: str, expected: list[tuple[bytes, int, int]] | None
) -> None:
    assert further_queues(topic, 3, names, offsets) == expected


def test_further_queues_are_dispatched_behind_the_own_one_if_the_record_is() -> None:
    batch = _key_batch([(0, []), (100, []), (200, [])], [0, TRANSACTION_ROLLBACK, 0])
    batch.records["queue_index"][:3] = 7
    batch.records["tags_code"][:3] = 5
    for place, (row, queue, offset) in enumerate([(0, 8, 30), (1, 8, 31), (2, 9, 32), (2, 8, 33)]):
        batch.dispatches["dispatch_record"][place] = row
        batch.dispatches["dispatch_queue"][place] = queue
        batch.dispatches["dispatch_offset"][place] = offset
    batch.counts[3] = 4
    found = dispatches_of(batch, 1000)
    assert found.row.tolist() == [0, 0, 2, 2, 2]
    assert found.queue.tolist() == [7, 8, 7, 9, 8]
    assert found.index.tolist() == [0, 30, 0, 32, 33]
    assert found.offset.tolist() == [1000, 1000, 1200, 1200, 1200]
    assert found.tags.tolist() == [5] * 5
    batch.cut(2)
    assert dispatches_of(batch, 1000).queue.tolist() == [7, 8]


BIG = st.one_of(st.integers(-3, 900), st.sampled_from([(1 << 63) - 1, -(1 << 63), 1 << 62, -1]))
HASH = st.integers(10, 14)


PUT = st.tuples(st.sampled_from([*range(0, 700, 100), 50]), HASH, st.sampled_from([0, 0, 1]), st.just(10_000))
STRANGE = st.tuples(BIG, HASH, st.integers(-2, 3), BIG)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.lists(HASH, max_size=3), max_size=8),
    st.lists(st.tuples(st.integers(0, 30), st.one_of(PUT, STRANGE)), max_size=6),
    st.sets(st.integers(0, 30), max_size=3),
)
def test_pieces_and_compiled_code_make_no_difference(
    keys: list[list[int]], more: list[tuple[int, tuple[int, ...]]], lost: set[int]
) -> None:
    """Sound entries, some left out and others put between: one at a time, there is no quick way."""
    sound: list[tuple[int, ...]] = [
        (100 * number, value, 0, 10_000) for number, hashes in enumerate(keys) for value in hashes
    ]
    rows = [row for at, row in enumerate(sound) if at not in lost]
    for at, row in more:
        rows.insert(at, row)
    entries = [(number, *row) for number, row in enumerate(rows, 1)]
    batch = _key_batch([(100 * number, hashes) for number, hashes in enumerate(keys)])
    found = []
    for compiled, step in ((False, 1), (False, 3), (False, 100), (True, 1), (True, 100)):
        with within(compiled=compiled):
            join = EntryJoin(Listed(entries, 5, step))
        found.append(_rows(join.add(batch, 0)) + _rows(join.finish()))
    assert all(other == found[0] for other in found)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.lists(HASH, max_size=3), min_size=4, max_size=12),
    st.lists(st.tuples(st.integers(0, 30), PUT), max_size=3),
    st.sets(st.integers(0, 30), max_size=2),
    st.lists(st.integers(0, 12), max_size=2),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_entries_as_on_disk_say_the_same(
    keys: list[list[int]],
    more: list[tuple[int, tuple[int, ...]]],
    lost: set[int],
    rolled_back: list[int],
    cut: int,
    step: int,
) -> None:
    """Entries as on disk, in pieces; the records in two batches."""
    sound: list[tuple[int, ...]] = [
        (100 * number, value, 0, 10_000)
        for number, hashes in enumerate(keys)
        for value in hashes
        if number not in rolled_back
    ]
    rows = [row for at, row in enumerate(sound) if at not in lost]
    for at, row in more:
        rows.insert(at, row)
    entries = [(number, *row) for number, row in enumerate(rows, 1)]
    flags = [TRANSACTION_ROLLBACK if row in rolled_back else 0 for row in range(len(keys))]
    records = [(100 * number, hashes) for number, hashes in enumerate(keys)]
    batches = [
        _key_batch(records[:cut], flags[:cut]),
        _key_batch(records[cut:], flags[cut:]),
    ]
    end = 100 * len(keys)
    inside = [row for row in entries if row[1] < end]
    joins = [EntryJoin(Listed(inside, 5, 1))]
    with within(compiled=True):
        joins.append(EntryJoin(Listed(inside, 5)))
        joins.append(EntryJoin(Stored(entries, 10_000, end, step, compiled=True)))
    found = [[_rows(join.add(batch, 0)) for batch in batches] + [_rows(join.finish())] for join in joins]
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_entries_of_zeros_are_no_entries() -> None:
    records = [(0, [0]), *((100 * number, [1]) for number in range(1, 9))]
    entries = [_entry(1, 0, 0), *(_entry(number + 1, 100 * number, 1) for number in range(1, 9))]
    names = []
    for compiled in (False, True):
        with within(compiled=compiled):
            join = EntryJoin(Stored(entries, 10_000, 5000, 100, compiled=compiled))
        names.append([name for name, _ in _rows(join.add(_key_batch(records), 0)) + _rows(join.finish())])
    assert names == [["ENTRY_MISSING"], ["ENTRY_MISSING"]]


def test_more_mismatches_than_fit_are_counted() -> None:
    entries = [_entry(number, 100 * number, 99) for number in range(8)]
    batch = _key_batch([(100 * number, [11]) for number in range(8)])
    join = EntryJoin(Listed(entries, 5), limit=3)
    assert len(join.add(batch, 0)) == 3
    assert join.count(EntryCode.HASH) == 8


ENTRY_FIELDS = st.tuples(
    st.sampled_from([0, 5, -1, (1 << 31) - 1]),
    st.sampled_from([0, 1, 99, 100, 199, 200, -1, (1 << 63) - 1, -(1 << 63)]),
    st.sampled_from([0, 3, -7]),
    st.integers(0, 9),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(ENTRY_FIELDS, max_size=20), st.sampled_from([0, 100]))
def test_rows_of_entries(fields: list[tuple[int, int, int, int]], start: int) -> None:
    entries = np.array(fields, ENTRY.dtype())
    expected = [
        [7 + at, offset, key_hash, diff, 11]
        for at, (key_hash, offset, diff, _) in enumerate(fields)
        if start <= offset < 200 and (key_hash, offset, diff) != (0, 0, 0)
    ]
    for compiled in (False, True):
        room = np.empty((len(fields), 5), np.int64)
        assert put_rows(entries, 7, 11, start, 200, room, compiled=compiled).tolist() == expected
