"""DLedger's own log against its index: every unit names an entry that is there and says the same.

    data  := entry* BLANK?            entry := magic size index term pos channel chainCrc bodyCrc bodyLen body
    index := unit*                    unit := magic pos size index term, at 32 * index

    XR032  a unit and what is at its pos             XR033  an entry, or the record in it, and its own place
    XR034  what only one of the two has              XR038  a term that falls
    XR039  fields of an entry that nobody writes     XR043  the files that say how far the group agreed

Heads of entries are gathered in blocks of units and compared by NumPy. The records are checked with the
commit log.
Reference 2.14; fault class H4.

The small files of a node of DLedger's: how far its group agreed, and in which term it votes.

    checkpoint := endIndex=<n> committedIndex=<n>     currterm := currTerm=<n> [voteLeader=<node>]

Java properties, each with the `.bak` of what was there before, which no version reads: it is for people.
Written from time to time and when the node stops: what they say may be older than the log, never newer. A
node that has one of the two has the other, too. Reference 2.14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats import dledger
from rocketfsck.formats.dtypes import DLEDGER_HEAD_DTYPE, DLEDGER_INDEX_DTYPE, RECORD_HEAD_DTYPE, Longs
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.reader.units import StreamReader
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.circumstances import parse_settings
from rocketfsck.store.model import MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tasks.task import Context, capped

MAX_SIZE = 1 << 16
NUMBERS = {"checkpoint": ("endIndex", "committedIndex"), "currterm": ("currTerm",)}
"""The numbers in each of the files."""


@dataclass(frozen=True, slots=True)
class LastEntry:
    """The last entry of a node's log, and the highest term before it."""

    index: int
    term: int


def check_state(store: Store, directory: str, last: LastEntry | None) -> Findings:
    """The small files in one node's directory. Raises StoreError for one that cannot be read."""
    found: dict[str, StoreFile] = {}
    for other in store.others:
        if other.kind is OtherKind.DLEDGER and other.relative.rpartition("/")[0] == directory:
            found.update((file.name, file) for file in other.files)
    known = [name for name in found if name.removesuffix(".bak") in NUMBERS]
    for name in sorted(known):
        yield from _check_file(found[name], name, last)
    for name in NUMBERS:
        if known and name not in found and last is not None:
            beside = f", but {name}.bak exists" if f"{name}.bak" in found else ""
            where = Where(f"{directory}/{name}")
            yield Finding(RuleName.DLEDGER_STATE, where, {"name": name, "reason": f"is missing{beside}"})


def _check_file(file: StoreFile, name: str, last: LastEntry | None) -> Findings:
    try:
        values = parse_settings(read_whole(file.path, MAX_SIZE))
    except ValueError as error:
        yield _finding(file, name, f"cannot be parsed: {error}")
        return
    found: dict[str, int] = {}
    kind = name.removesuffix(".bak")
    for key in NUMBERS[kind]:
        text = values.get(key)
        number = None if text is None else java_parse_long(text)
        if number is not None:
            found[key] = number
        elif text is not None:
            yield _finding(file, name, f"has a {key} that is not a number: {text!a}")
    if name == kind and last is not None and values.keys().isdisjoint(NUMBERS[kind]):
        yield _finding(file, name, f"has no {NUMBERS[kind][-1]}")
    for key, number in found.items():
        if kind == "checkpoint" and last is not None and number > last.index:
            yield _finding(
                file, name, f"says that {key} is {number}, but the log ends with entry {last.index}"
            )
        elif name == "currterm" and last is not None and number < last.term:  # its .bak has an earlier term
            yield _finding(
                file, name, f"says that {key} is {number}, but the log has entries of term {last.term}"
            )


def _finding(file: StoreFile, name: str, reason: str) -> Finding:
    where = Where(file.relative, 0, file.size)
    return Finding(RuleName.DLEDGER_STATE, where, {"name": name, "reason": reason})


BLOCK_COUNT = 1 << 14
WALK_LIMIT = 100_000
"""Entries after the last unit that are counted one by one."""

_NO_FILES = MappedFileQueue((), 0, ())
_HEADER = dledger.DLEDGER_ENTRY.packer(last="pos")

REASONS = (
    "",
    "the unit names entry {found} at the place of entry {expected}",
    "no data file holds that place",
    "no entry starts there",
    "an entry of index {found} starts there",
    "the entry has term {found}, but the unit says {expected}",
    "the entry has size {found}, but the unit says {expected}",
    "the previous entry ends at {expected}",
)
EMPTY = "the unit is empty, although later units are not"
UNUSED_FIELDS = ("channel", "chainCrc", "bodyCrc")
NUMBER, NO_FILE, NO_ENTRY, INDEX, TERM, SIZE, GAP = range(1, 8)

Rows = NDArray[Any]


def check_dledger(context: Context) -> Items:
    """Every DLedger store next to the commit log, above the level quick."""
    if context.level == "quick":
        return
    for name, data, index in _pairs(context.store):
        try:
            with StreamReader(data) as log, StreamReader(index) as units:
                walk = _EntryWalk(name, log, units)
                yield from capped(walk.run(), context.detail_limit)
            context.shared.ask(RuleName.DLEDGER_UNUSED_FIELD, walk.entry_count)
            last = LastEntry(walk.last_number, walk.last_term) if walk.last_number >= 0 else None
            yield from check_state(context.store, name, last)
        except StoreError as error:
            yield NotChecked(error.path or name, str(error), operational=True)


def _pairs(store: Store) -> Iterator[tuple[str, MappedFileQueue, MappedFileQueue]]:
    """The data and index files of each DLedger directory, with its name."""
    kinds = (OtherKind.DLEDGER_DATA, OtherKind.DLEDGER_INDEX)
    parts: dict[str, dict[OtherKind, MappedFileQueue]] = {}
    for other in store.others:
        if other.kind in kinds and other.mapped_files is not None:
            name = other.relative.rpartition("/")[0]
            parts.setdefault(name, {})[other.kind] = other.mapped_files
    for name, found in sorted(parts.items()):
        data, index = (found.get(kind, _NO_FILES) for kind in kinds)
        yield name, data, index


@dataclass(slots=True)
class _EntryWalk:
    """One pass over the units of a store: `last_number` is the last sound one, `next_pos` its entry's end."""

    name: str
    log: StreamReader
    units: StreamReader
    first_index: int | None = None
    next_pos: int | None = None
    last_number: int = -1
    last_term: int = 0
    entry_count: int = 0

    def run(self) -> Findings:
        before: int | None = None
        for number, rows in self._blocks():
            if self.first_index is None:
                self.first_index = int(rows["index"][0])
            pos, size = rows["pos"].astype(np.int64), rows["size"].astype(np.int64)
            expired = (pos >= 0) & (size > 0) & (pos <= self.log.start - size)
            previous = np.concatenate(([number[0] - 1 if before is None else before], number[:-1]))
            before = int(number[-1])
            for row in np.flatnonzero((number - previous > 1) & ~expired).tolist():
                first = int(previous[row]) + 1
                facts: Facts = {"index": first, "pos": 0, "reason": EMPTY}
                where, count = self._unit(first), int(number[row]) - first
                yield Finding(RuleName.DLEDGER_INDEX_ENTRY, where, facts, count=count)
            kept = np.flatnonzero(~expired)
            if len(kept):
                yield from self._block(number[kept], rows[kept])
        yield from self._range()

    def _blocks(self) -> Iterator[tuple[Longs, Rows]]:
        """The units in use in blocks, each with their numbers: their places in units."""
        for first, last in self._with_data():
            for start in range(first, last, BLOCK_COUNT):
                count = min(BLOCK_COUNT, last - start)
                data = self.units.read(start * dledger.INDEX_UNIT_SIZE, count * dledger.INDEX_UNIT_SIZE)
                rows = np.frombuffer(data, DLEDGER_INDEX_DTYPE)
                used = np.flatnonzero(rows["magic"] != 0)
                if len(used):
                    yield used + start, rows[used]

    def _with_data(self) -> Iterator[tuple[int, int]]:
        """The numbers of the units outside of holes, in half-open ranges, ascending."""
        first, last = self.units.start // dledger.INDEX_UNIT_SIZE, self.units.end // dledger.INDEX_UNIT_SIZE
        for number, file in enumerate(self.units.files):
            base = file.start_offset or 0
            for low, high in self.units.reader(number).data_extents():
                least = max(first, (base + low) // dledger.INDEX_UNIT_SIZE)
                most = min(last, -(-(base + high) // dledger.INDEX_UNIT_SIZE))
                if least < most:
                    yield least, most
                    first = most

    def _block(self, number: Longs, rows: Rows) -> Findings:
        pos = rows["pos"].astype(np.int64)
        found_heads = self.log.gather(pos, DLEDGER_HEAD_DTYPE)
        heads = found_heads["entry"]
        inside = (pos >= self.log.start) & (pos <= self.log.end - dledger.ENTRY_HEADER_SIZE)
        magic = heads["magic"]
        entry = (magic >= dledger.MAGIC_NORMAL) & (magic <= dledger.MAGIC_CONFIG_CHANGE)
        entry &= heads["size"] == heads["bodyLen"].astype(np.int64) + dledger.ENTRY_HEADER_SIZE
        tests: tuple[tuple[int, NDArray[np.bool_], Rows, Rows], ...] = (
            (NUMBER, rows["index"] == number, rows["index"], number),
            (NO_FILE, inside, pos, pos),
            (NO_ENTRY, entry, pos, pos),
            (INDEX, heads["index"] == rows["index"], heads["index"], rows["index"]),
            (TERM, heads["term"] == rows["term"], heads["term"], rows["term"]),
            (SIZE, heads["size"] == rows["size"], heads["size"], rows["size"]),
        )
        reason = np.zeros(len(rows), np.int64)
        found, expected = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        for code, sound, have, want in tests:
            bad = np.flatnonzero(~sound & (reason == 0))
            reason[bad], found[bad], expected[bad] = code, have[bad], want[bad]
        self._join(number, reason, expected, pos, rows["size"].astype(np.int64))
        for low, high in pairwise(group_bounds(reason).tolist()):
            if reason[low]:
                text = REASONS[int(reason[low])].format(found=int(found[low]), expected=int(expected[low]))
                index, place = int(number[low]), int(pos[low])
                facts: Facts = {"index": index, "pos": place, "reason": text}
                where = self._unit(index, place)
                yield Finding(RuleName.DLEDGER_INDEX_ENTRY, where, facts, count=high - low)
        sound = (reason == 0) | (reason == GAP)
        yield from self._places(number, found_heads, pos, sound)
        yield from self._headers(number[sound], heads[sound], pos[sound])

    def _join(self, number: Longs, reason: Longs, expected: Longs, pos: Longs, size: Longs) -> None:
        """Mark the units whose entries do not begin where those in front of them end."""
        good = np.flatnonzero(reason == 0)
        if not len(good):
            return
        ends = pos[good] + size[good]
        before = np.concatenate(([pos[good[0]] if self.next_pos is None else self.next_pos], ends[:-1]))
        follows = number[good] == np.concatenate(([self.last_number], number[good[:-1]])) + 1
        for at in np.flatnonzero(follows & (pos[good] != before)).tolist():
            row = int(good[at])
            if self._after_blank(int(before[at])) != int(pos[row]):
                reason[row], expected[row] = GAP, int(before[at])
        self.next_pos, self.last_number = int(ends[-1]), int(number[good[-1]])

    def _after_blank(self, pos: int) -> int:
        """Where the next entry can begin if one ends at `pos`: there, or at the start of the next file."""
        head = self._header(pos)
        following = [start for start in self.log.starts if start > pos]
        if head is not None and head[0] == dledger.MAGIC_BLANK and following:
            return min(following)
        return pos

    def _places(self, number: Longs, heads: Rows, pos: Longs, sound: NDArray[np.bool_]) -> Findings:
        """Entries, and the records in them, that say that they are elsewhere."""
        entry, record, place = heads["entry"], heads["record"], pos + dledger.ENTRY_HEADER_SIZE
        wrong = (record["magicCode"] == MAGIC_V1) | (record["magicCode"] == MAGIC_V2)
        wrong &= (entry["magic"] == dledger.MAGIC_NORMAL) & (entry["bodyLen"] >= RECORD_HEAD_DTYPE.itemsize)
        wrong &= record["physicalOffset"] != place
        checks = (
            ("entry", entry["pos"] != pos, entry["pos"], pos),
            ("record", wrong, record["physicalOffset"], place),
        )
        for what, elsewhere, stated, right in checks:
            for row in np.flatnonzero(elsewhere & sound).tolist():
                facts: Facts = {"what": what, "index": int(number[row]), "stated_pos": int(stated[row])}
                where = self._entry(int(pos[row]))
                yield Finding(RuleName.DLEDGER_ENTRY_PLACE, where, facts, {"pos": int(right[row])})

    def _headers(self, number: Longs, heads: Rows, pos: Longs) -> Findings:
        """Terms that fall, and what is in the fields that nobody writes."""
        if not len(number):
            return
        self.entry_count += len(number)
        term = heads["term"].astype(np.int64)
        before = np.maximum.accumulate(np.concatenate(([self.last_term], term)))
        self.last_term = int(before[-1])
        for row in np.flatnonzero(term < before[:-1]).tolist():
            facts: Facts = {"index": int(number[row]), "term": int(term[row]), "before": int(before[row])}
            yield Finding(RuleName.DLEDGER_TERM, self._entry(int(pos[row])), facts)
        for name in UNUSED_FIELDS:
            for row in np.flatnonzero(heads[name] != 0).tolist():
                facts = {"field": name, "index": int(number[row]), "value": int(heads[name][row])}
                yield Finding(RuleName.DLEDGER_UNUSED_FIELD, self._entry(int(pos[row])), facts)

    def _range(self) -> Findings:
        """Entries before the first unit and after the last one."""
        head = self._header(self.log.start)
        first = head[2] if head is not None and _is_entry(head) and head[4] == self.log.start else None
        if first is not None and self.first_index is not None and self.first_index > first:
            facts: Facts = {"side": "before the start", "entry_count": self.first_index - first}
            yield Finding(RuleName.DLEDGER_RANGE, self._entry(self.log.start), {**facts, "index": first})
        pos = self.log.start if self.next_pos is None else self.next_pos
        start, index, count = pos, 0, 0
        while count < WALK_LIMIT:
            pos = self._after_blank(pos)
            head = self._header(pos)
            if head is None or not _is_entry(head) or head[4] != pos:
                break
            if not count:
                start, index = pos, head[2]
            count += 1
            pos += head[1]
            self.last_number, self.last_term = head[2], max(self.last_term, head[3])
        if count:
            facts = {"side": "after the end", "entry_count": count, "index": index}
            yield Finding(RuleName.DLEDGER_RANGE, self._entry(start), facts)

    def _header(self, pos: int) -> tuple[int, int, int, int, int] | None:
        """The header (magic, size, index, term, pos) at a place of the log; None where no file holds one."""
        if not self.log.start <= pos <= self.log.end - 8:
            return None
        magic, size, index, term, stated = _HEADER.unpack(bytes(self.log.read(pos, _HEADER.size)))
        return magic, size, index, term, stated

    def _unit(self, number: int, pos: int | None = None) -> Where:
        start = number * dledger.INDEX_UNIT_SIZE
        file = self.units.files[max(self.units.last_from(start), 0)]
        start -= file.start_offset or 0
        return Where(file.relative, start, start + dledger.INDEX_UNIT_SIZE, pos)

    def _entry(self, pos: int) -> Where:
        file = self.log.files[max(self.log.last_from(pos), 0)]
        start = pos - (file.start_offset or 0)
        return Where(file.relative, start, start + dledger.ENTRY_HEADER_SIZE, pos)


def _is_entry(head: tuple[int, int, int, int, int]) -> bool:
    is_known = dledger.MAGIC_NORMAL <= head[0] <= dledger.MAGIC_CONFIG_CHANGE
    return is_known and head[1] >= dledger.ENTRY_HEADER_SIZE
