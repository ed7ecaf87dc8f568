"""The index of a database against the log: by hashes of 64 bits, so that a row costs some 24 bytes.

The rows are read a second time only to name those that no record explains. Both sides are taken apart by the
batch; what is left for each row alone is its hash, by the secret of this process. Reference 11.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats.dtypes import Bytes, Flags, Longs
from rocketfsck.formats.rocks import AT, MARKS, TYPE_KEY, TYPE_TAG, TYPE_UNIQUE
from rocketfsck.reader.indexrows import IndexRows
from rocketfsck.scan.views.gather import hash_texts
from rocketfsck.store.model import Other
from rocketfsck.store.rocks.families import Content, OddRows, decode_row
from rocketfsck.store.rocks.reading import Rows, read_rows
from rocketfsck.verify.finding import Finding, Where

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
    parts: list[Longs] = field(default_factory=list)
    first_offset: int = 1 << 62
    last_offset: int = -1
    mark: int | None = None
    hashes: Longs = field(default_factory=lambda: np.zeros(0, np.int64))
    explained: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def take(self, rows: Rows, odd: OddRows) -> None:
        """Take rows of the database; those that cannot be decoded go to `odd`."""
        hashes, offsets = self._entries(rows, odd)
        if len(hashes):
            self.parts.append(hashes)
            self.first_offset = min(self.first_offset, int(offsets.min()))
            self.last_offset = max(self.last_offset, int(offsets.max()))

    def _entries(self, rows: Rows, odd: OddRows) -> tuple[Longs, Longs]:
        """Hash and physical offset of each entry; the mark is noted."""
        wanted = plain_rows(rows)
        for row, key, value in _pairs(rows, ~wanted):
            try:
                kind, found = decode_row(Content.INDEX, key, value)
            except FormatError as error:
                odd.add(rows.family, key, str(error))
                continue
            if kind != "mark":
                wanted[row] = True
            elif key == MARKS["default"][0]:
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

    def unexplained(self, rows: Rows) -> Longs:
        """The physical offsets of rows of the database that the log does not explain."""
        hashes, offsets = self._entries(rows, OddRows())
        at, found = self._find(hashes)
        found[found] = ~self.explained[at[found]]
        return offsets[found]

    def _find(self, hashes: Longs) -> tuple[Longs, Flags]:
        """Where these hashes are, and which of them are there."""
        order = np.argsort(hashes)  # neighbours are found side by side: a fourth of the time
        at = np.empty(len(hashes), np.int64)
        at[order] = np.searchsorted(self.hashes, hashes[order])
        found = at < len(self.hashes)
        found[found] = self.hashes[at[found]] == hashes[found]
        return at, found


def plain_rows(rows: Rows) -> Flags:
    """Which rows are entries of the index beyond doubt; the others are to be decoded one by one."""
    keys = np.frombuffer(rows.keys, np.uint8)
    starts, ends = rows.key_starts[:-1], rows.key_starts[1:]
    plain: Flags = (ends - starts >= _LEAST_SIZE) & (np.diff(rows.value_starts) == _LONG_SIZE)
    found = np.flatnonzero(plain)
    low, high = starts[found] + _LONG_SIZE, ends[found] - _LONG_SIZE - 1
    marks = np.append(np.flatnonzero(keys == AT[0]), len(keys) + _LEAST_SIZE)
    second = marks[np.searchsorted(marks, low + 1)]
    good = (keys[low] == AT[0]) & (keys[high] == AT[0]) & (second + 2 < high)
    low, high, second = low[good], high[good], second[good]
    kind = keys[second + 1]
    has_text = (kind == TYPE_KEY[0]) | (kind == TYPE_TAG[0])
    fourth = marks[np.searchsorted(marks, second + 3)]
    shaped = (keys[second + 2] == AT[0]) & ((kind == TYPE_UNIQUE[0]) | (has_text & (fourth < high)))
    plain[:] = False
    plain[found[good][shaped]] = True
    return plain


def _pairs(rows: Rows, wanted: Flags) -> Iterator[tuple[int, bytes, bytes]]:
    """Number, key and value of some rows."""
    keys, values = rows.key_starts, rows.value_starts
    for row in np.flatnonzero(wanted).tolist():
        yield row, rows.keys[keys[row] : keys[row + 1]], rows.values[values[row] : values[row + 1]]


def _hashed(rows: Rows, wanted: Flags, *, compiled: bool) -> tuple[Longs, Longs]:
    """The hashes of rows, and the physical offsets that their keys have."""
    numbers = np.flatnonzero(wanted)
    ends = rows.key_starts[1:][numbers]
    offsets = _longs(np.frombuffer(rows.keys, np.uint8), ends - _LONG_SIZE)
    times = _longs(np.frombuffer(rows.values, np.uint8), rows.value_starts[:-1][numbers])
    hashes = hash_texts(rows.keys, rows.key_starts, compiled=compiled)[numbers]
    return _with_values(hashes, times), offsets


def _longs(data: Bytes, places: Longs) -> Longs:
    found: Longs = data[places[:, None] + np.arange(_LONG_SIZE)].view(">i8").reshape(-1).astype(np.int64)
    return found


def _with_values(hashes: Longs, values: Longs) -> Longs:
    mixed: Longs = hashes ^ (values * _MIXER)
    return mixed


def dangling_rows(other: Other, index: Index, start: int) -> Iterator[Finding]:
    """The index rows that no record explains, those of expired ones left out: by physical offset."""
    found: dict[int, int] = {}
    for rows in read_rows(other, ["default"]):
        offsets = index.unexplained(rows)
        for offset, count in zip(*np.unique(offsets[offsets >= start], return_counts=True), strict=True):
            found[int(offset)] = found.get(int(offset), 0) + int(count)
        if len(found) >= NAMED_LIMIT:
            break
    for offset, count in sorted(found.items())[:NAMED_LIMIT]:
        where = Where(file=other.relative, physical_offset=offset)
        yield Finding(RuleName.INDEX_ROW_DANGLING, where, {"database": other.relative, "row_count": count})
