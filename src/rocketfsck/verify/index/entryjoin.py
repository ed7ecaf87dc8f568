"""Keys of one commit log file's records against the index entries that point into it.

The merge is `scan.join.keyjoin.EntryJoin`; here its mismatches become findings and, where only other files
tell what they mean, ranges for `crossindex`. Reference 4.5, 9.4 I9 and I12 to I14.

Index entries for tags: which records have theirs, and what it means where some have none.

Brokers from 5.4.0 on put one more entry for a record with tags. A store that was upgraded has records
without: all before the first one with its entry, or many in a row where an older broker ran in
between. A few records without, among others that have theirs, have lost them. Reference 4.5.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.reader.records import LogReader
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.join.keyjoin import EntryCode, EntryJoin, Mismatches
from rocketfsck.scan.spans import find_span, group_bounds
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import LogEntryFeed, entry_place, split_number
from rocketfsck.verify.index.strangeentries import Strange, StrangeEntries
from rocketfsck.verify.log.regions import DAMAGED, STALE, BadRanges, LiveRows
from rocketfsck.verify.tasks.task import Collector, Context, Results, aggregate

LEAST_RECORDS = 8
"""So many neighbours without the entry are an older broker's work; fewer have lost it."""
MAX_RUNS = 1 << 16
MET, FIRST, LAST, COUNT = range(4)
WIDTH = 4


class TagRuns:
    """Takes the records with tags of one commit log file, batch by batch, and keeps them as runs.

    A row of the table: 1 if the records have their entry, physical offset of the first and the last record,
    how many they are. Once there are too many runs the last one continues whatever follows: hostile files
    only.
    """

    def __init__(self) -> None:
        self._rows: list[list[int]] = []

    def add(self, physical: Longs, met: Flags) -> None:
        """Take records at these physical offsets, in order; `met` says which of them have their entry."""
        if not len(physical):
            return
        edges = np.flatnonzero(np.diff(met.view(np.int8))) + 1
        bounds = [0, *edges.tolist(), len(met)]
        for low, high in pairwise(bounds):
            row = [int(met[low]), int(physical[low]), int(physical[high - 1]), high - low]
            last = self._rows[-1] if self._rows else None
            if last is not None and (last[MET] == row[MET] or len(self._rows) >= MAX_RUNS):
                last[LAST], last[COUNT] = row[LAST], last[COUNT] + row[COUNT]
            else:
                self._rows.append(row)

    def table(self) -> Longs:
        """The runs, one row each."""
        return np.array(self._rows, np.int64).reshape(-1, WIDTH)


@dataclass(slots=True)
class _TagRun:
    file: str
    pos: int
    met: bool
    first: int
    last: int
    count: int


def judge_tags(context: Context, logs: Results) -> Findings:
    """What the runs of all commit log files, in store order, say together."""
    store = context.store
    if not store.indexes:
        return  # then no record has an entry
    runs: list[_TagRun] = []
    for file, log in zip(store.commitlog.files, logs, strict=True):
        if log is None:
            continue
        base = log.summary.start_offset
        for met, first, last, count in log.summary.entries.tags.tolist():
            if runs and runs[-1].met == bool(met):
                runs[-1].last, runs[-1].count = last, runs[-1].count + count
            else:
                runs.append(_TagRun(file.relative, first - base, bool(met), first, last, count))
    began = next((number for number, run in enumerate(runs) if run.met), len(runs))
    without = ((number, run) for number, run in enumerate(runs) if not run.met)
    older = [run for number, run in without if number < began or run.count >= LEAST_RECORDS]
    if older:
        found = {
            "record_count": sum(run.count for run in older),
            "first_physical_offset": older[0].first,
            "last_physical_offset": older[-1].last,
        }
        yield Finding(RuleName.TAGS_OF_OLDER_BROKER, Where("index"), found)
    for run in runs[began:]:
        if not run.met and run.count < LEAST_RECORDS:
            place = Where(run.file, run.pos, physical_offset=run.first)
            facts = {"record_count": run.count, "last_physical_offset": run.last}
            yield Finding(RuleName.TAGS_UNINDEXED, place, facts, count=run.count)


MAX_UNINDEXED = 1 << 14
MAX_LOOSE = 1 << 16
LOOK_LIMIT = 2000
"""Entries out of order whose place in the log is read, per commit log file."""


BEYOND, IN_DAMAGE, NOWHERE = 1, 2, 3
"""Where entries without a record point to: behind the log's end, into damaged bytes, into the middle."""


@dataclass(frozen=True, slots=True)
class EntryRanges:
    """What the index says of one commit log file.

    `unindexed` has rows (first physical offset, last one, record count, key count) of neighbouring records
    without any entry; `loose` rows (place in `Store.indexes`, BEYOND/IN_DAMAGE/NOWHERE, first entry, first
    offset, last offset, entry count). `first_keyed`/`last_keyed` are the physical offsets of the first and
    last record with keys, -1 without; `keyed_count` how many have keys or indexed tags. `tags` are runs of
    records with indexed tags. `strange` are entries of records, but of none of their keys.
    """

    unindexed: Longs
    loose: Longs
    first_keyed: int
    last_keyed: int
    keyed_count: int
    tags: Longs
    strange: Strange
    not_kept_count: int = 0


class KeyJoin:
    """Takes every batch in log order; `finish` gives what came of it."""

    def __init__(self, store: Store, feed: LogEntryFeed, collector: Collector, *, relative: str) -> None:
        self._store = store
        self._join = EntryJoin(feed)
        self._collector = collector
        self._relative = relative
        self._unindexed: list[list[int]] = []
        self._strange = StrangeEntries(store)
        self._tags = TagRuns()
        self._open = False
        self._loose: list[tuple[int, int]] = []  # feed number of the first, count
        self._not_kept = 0
        self._looks = 0
        self.first_keyed = self.last_keyed = -1
        self.keyed_count = 0

    def add(self, batch: RecordBatch, rows: LiveRows) -> None:
        """Merge a batch; `rows` are the same."""
        found = self._join.add(batch, rows.base_offset)
        tagged, untagged = self._join.tagged, self._join.untagged
        required = np.where(rows.in_index, rows["key_count"], 0) - tagged
        keyed = np.flatnonzero(required > 0)
        missing = np.zeros(rows.count, np.int64)
        other = np.zeros(rows.count, np.int64)
        regular, sound_rows = self._strange.take(found, rows)
        for number in np.flatnonzero(~regular).tolist():
            self._mismatch(found, number, rows, required, missing, other)
        missing[sound_rows] = other[sound_rows] = 0
        self.keyed_count += int(np.count_nonzero((required > 0) | tagged))
        entry_count = int(required[keyed].sum())
        for rule in (RuleName.ENTRY_KEY, RuleName.ENTRY_TIME):
            self._collector.ask(rule, entry_count)
        if len(keyed):
            physical = rows.physical
            self._note(int(physical[keyed[0]]), int(physical[keyed[-1]]))
            self._runs(rows, keyed, required[keyed], tagged[keyed], missing, other)
        if tagged.any():
            chosen = tagged & (missing == 0) & (other == 0)
            self._tags.add(rows.physical[chosen], ~untagged[chosen])

    def _note(self, first: int, last: int) -> None:
        """Note where the first and the last record with keys are."""
        if self.first_keyed < 0:
            self.first_keyed = first
        self.last_keyed = last

    def _mismatch(
        self, found: Mismatches, number: int, rows: LiveRows, required: Longs, missing: Longs, other: Longs
    ) -> None:
        code = int(found.code[number])
        first, end, count = int(found.number[number]), int(found.number_end[number]), int(found.count[number])
        if code == EntryCode.ENTRY_MISSING:
            keys = required[first:end]
            if end - first == 1:
                missing[first] += count
            else:  # a run of records; only its first and last may have entries for some keys
                missing[first:end] = keys
                surplus = max(int(keys.sum()) - count, 0)
                of_first = min(surplus, self._entry_count_at(int(rows.physical[first]))) if surplus else 0
                missing[first] -= of_first
                missing[end - 1] -= surplus - of_first
            return
        row, offset = int(found.row[number]), int(found.offset[number])
        if code == EntryCode.ORDER and self._starts_record(offset):
            return  # IX016 says so
        if code in (EntryCode.RECORD_MISSING, EntryCode.ORDER):
            self._loosen(first, count)
            return
        index, entry = split_number(first)
        where = entry_place(
            self._store.indexes[index].relative, self._store.geometry.slot_count, entry, end - first, offset
        )
        if code == EntryCode.HASH or code == EntryCode.EXTRA:
            other[row] += count
            expected = {"hash": int(found.expected[number])} if code == EntryCode.HASH else {}
            self._collector.find(
                RuleName.ENTRY_KEY, where, {"hash": int(found.found[number])}, expected, count=count
            )
        elif code == EntryCode.DUPLICATE:
            facts = {"entry_count": count, "first_physical_offset": offset}
            self._collector.find(RuleName.ENTRY_DUPLICATE, where, facts)
        elif code == EntryCode.TIME_DIFF:
            self._time(found, number, index, entry, count, offset)

    def _time(self, found: Mismatches, number: int, index: int, entry: int, count: int, offset: int) -> None:
        """Entry 1 is counted from another begin (IX023 looks at it)."""
        if entry == 1:
            entry, count = entry + 1, count - 1
        if count > 0:
            self._collector.find(
                RuleName.ENTRY_TIME,
                entry_place(
                    self._store.indexes[index].relative, self._store.geometry.slot_count, entry, count, offset
                ),
                {"value": int(found.found[number])},
                {"value": int(found.expected[number])},
                count=count,
            )

    def _runs(
        self, rows: LiveRows, keyed: Longs, counts: Longs, tagged: Flags, missing: Longs, other: Longs
    ) -> None:
        """Keyed records without any entry as runs; those with some entries as findings.

        `counts` are how many keys each of them has, without its tags.
        """
        if not missing.any() and not other.any():
            self._open = False
            return
        missing, other = missing[keyed], other[keyed]
        none = (missing >= counts) & (other == 0)
        # A record whose entries all belong to another one, next to records without any, has none either.
        beside = np.zeros(len(none), np.bool_)
        beside[1:] |= none[:-1]
        beside[:-1] |= none[1:]
        none |= beside & (missing + other >= counts)
        part = np.flatnonzero((missing > 0) & ~none & (other == 0))
        for at in part[:1000].tolist():
            row = int(keyed[at])
            facts = {"missing_count": int(missing[at]), "key_count": int(counts[at])}
            self._collector.find(RuleName.KEY_UNINDEXED, rows.place(row), facts)
        if len(part) > 1000:
            self._collector.add(aggregate(RuleName.KEY_UNINDEXED, self._relative, len(part) - 1000))
        physical = rows.physical
        edges = np.flatnonzero(np.diff(np.concatenate(([0], none.view(np.int8), [0]))))
        for low, high in zip(edges[0::2].tolist(), edges[1::2].tolist(), strict=True):
            first, last = int(physical[keyed[low]]), int(physical[keyed[high - 1]])
            keys = int(counts[low:high].sum() + tagged[low:high].sum())
            if low == 0 and self._open:
                run = self._unindexed[-1]
                run[1], run[2], run[3] = last, run[2] + high - low, run[3] + keys
            elif len(self._unindexed) < MAX_UNINDEXED:
                self._unindexed.append([first, last, high - low, keys])
            else:
                self._not_kept += high - low
        self._open = bool(none[-1]) and len(self._unindexed) < MAX_UNINDEXED

    def _entry_count_at(self, offset: int) -> int:
        """How many entries point to an offset of the log, as far as a binary search tells."""
        count = 0
        for index in self._store.indexes:
            with IndexReader(index, self._store.geometry) as reader:
                bounds = [reader.find_offset(place, reader.used_entry) for place in (offset, offset + 1)]
                if bounds[0] is not None and bounds[1] is not None:
                    count += bounds[1] - bounds[0]
        return count

    def _starts_record(self, offset: int) -> bool:
        """Whether a record starts at an offset that an entry out of order points to."""
        self._looks += 1
        if self._looks > LOOK_LIMIT:
            return False
        with LogReader(self._store.commitlog) as log:
            return log.head(offset) is not None

    def _loosen(self, number: int, count: int) -> None:
        if len(self._loose) < MAX_LOOSE:
            self._loose.append((number, count))
        else:
            self._not_kept += count

    def finish(self, bad: BadRanges, base_offset: int, live_end: int) -> EntryRanges:
        """The rest of the entries; `bad` and `live_end` are file positions."""
        found = self._join.finish()
        for number in range(len(found)):
            self._loosen(int(found.number[number]), int(found.count[number]))
        return EntryRanges(
            np.array(self._unindexed, np.int64).reshape(-1, 4),
            self._loose_rows(bad, base_offset, live_end),
            self.first_keyed,
            self.last_keyed,
            self.keyed_count,
            self._tags.table(),
            self._strange.finish(self._join.count(EntryCode.HASH) + self._join.count(EntryCode.EXTRA)),
            self._not_kept,
        )

    def _loose_rows(self, bad: BadRanges, base_offset: int, live_end: int) -> Longs:
        """Entries that met no record, by index file and by what is at the place that they point to."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, count in self._loose:
            index, entry = split_number(number)
            with IndexReader(self._store.indexes[index], self._store.geometry) as reader:
                for first in range(entry, entry + count, BLOCK_COUNT):
                    block = reader.entries(first, min(BLOCK_COUNT, entry + count - first))
                    offset = block["phyOffset"].astype(np.int64)
                    kinds = _kinds(offset - base_offset, bad, live_end)
                    bounds = group_bounds(kinds).tolist()
                    for low, high in itertools.pairwise(bounds):
                        least, most = int(offset[low:high].min()), int(offset[low:high].max())
                        group = groups.setdefault((index, int(kinds[low])), [first + low, least, most, 0])
                        group[1], group[2] = min(group[1], least), max(group[2], most)
                        group[3] += high - low
        return np.array([(*key, *values) for key, values in sorted(groups.items())], np.int64).reshape(-1, 6)


def _kinds(pos: Longs, bad: BadRanges, live_end: int) -> Longs:
    """BEYOND, IN_DAMAGE or NOWHERE for file positions where no live record starts."""
    kinds = np.full(len(pos), NOWHERE, np.int64)
    kinds[pos >= live_end] = BEYOND
    span = find_span(pos, bad.start, bad.end)
    if len(bad.code):
        code = np.where(span >= 0, bad.code[np.maximum(span, 0)], 0)
        kinds[code == STALE] = BEYOND
        kinds[code == DAMAGED] = IN_DAMAGE
    return kinds
