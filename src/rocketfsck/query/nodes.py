"""A node of DLedger's: how far its entries go, and what its own small files say.

    entries      dledger-<selfId>/data          the first and the last sound entry
    state        dledger-<selfId>/checkpoint    up to which entry the group agreed
                 dledger-<selfId>/currterm      the node's term, and whom it voted for

Reference 2.14.

The entries of DLedger's log and the units of its index, as DLedger's recovery goes through them.

    walk := the entries from a file on, each the next one of a term that does not fall, until one is not

Reference 2.14.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rocketfsck.formats import dledger
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.start.model import LogScan
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.store.circumstances import parse_settings
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import Closing, FileReader, read_whole

FIRST_REASON = "the first entry that DLedger recovers has the number {index}"
LEAST_SIZE = 44
"""DLedgerEntry.HEADER_SIZE: an entry has more bytes than that."""

HEADER = dledger.DLEDGER_ENTRY.packer()
UNIT = dledger.DLEDGER_INDEX.packer()

_WINDOW_SIZE = 1 << 16
_INT = struct.Struct(">i")
_MAX_INDEX = (1 << 63) // dledger.INDEX_UNIT_SIZE - 1


@dataclass(frozen=True, slots=True)
class SoundEntry:
    """A sound entry: `pos` in the log, and what its header says."""

    pos: int
    size: int
    index: int
    term: int

    @property
    def unit(self) -> bytes:
        """The entry's unit of the index."""
        return bytes(UNIT.pack(dledger.MAGIC_NORMAL, self.pos, self.size, self.index, self.term))


class Window(Closing):
    """Bytes of files by position, read ahead a little."""

    def __init__(self, file: LoadedFile) -> None:
        self.size = file.size
        self._reader = FileReader(file.path)
        self._start = 0
        self._data = b""

    def at(self, pos: int, size: int) -> bytes | None:
        """`size` bytes at a position; None where the file ends before."""
        if pos < 0 or pos + size > self.size:
            return None
        at = pos - self._start
        if at < 0 or at + size > len(self._data):
            self._start, at = pos, 0
            self._data = bytes(self._reader.read_upto(pos, max(size, _WINDOW_SIZE)))
        return self._data[at : at + size]

    def close(self) -> None:
        self._reader.close()


class UnitsOnDisk(Closing):
    """The units of the index on disk by the number of their entry."""

    def __init__(self, files: Sequence[LoadedFile]) -> None:
        self.files = files
        self._number = -1
        self._window: Window | None = None

    def at(self, index: int) -> bytes | None:
        """The unit's bytes; None where no file holds its place."""
        if not self.files:
            return None
        size = self.files[0].size
        number = index * dledger.INDEX_UNIT_SIZE // size - self.files[0].start_offset // size
        if not 0 <= number < len(self.files):
            return None
        if number != self._number:
            self.close()
            self._number, self._window = number, Window(self.files[number])
        assert self._window is not None
        return self._window.at(index * dledger.INDEX_UNIT_SIZE % size, dledger.INDEX_UNIT_SIZE)

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
        self._number, self._window = -1, None


def read_entry(window: Window, pos: int, start_offset: int) -> SoundEntry | int | None:
    """The entry at a file position; MAGIC_BLANK for the end of the file's entries; None for neither."""
    word = window.at(pos, _INT.size)
    if word is None:
        return None
    if _INT.unpack(word)[0] == dledger.MAGIC_BLANK:
        return dledger.MAGIC_BLANK
    header = window.at(pos, dledger.ENTRY_HEADER_SIZE)
    if header is None:
        return None
    magic, size, index, term, stated, _, _, _, body_size = HEADER.unpack(header)
    sound = (
        magic == dledger.MAGIC_NORMAL
        and stated == start_offset + pos
        and body_size + dledger.ENTRY_HEADER_SIZE == size
        and LEAST_SIZE < size <= window.size - pos
    )
    return SoundEntry(stated, size, index, term) if sound else None


def first_file(files: Sequence[LoadedFile], units: UnitsOnDisk) -> int:
    """The number of the file that the recovery begins with: its first entry and the unit of it agree."""
    for number in range(max(len(files) - 3, 0), -1, -1):
        with FileReader(files[number].path) as reader:
            header = reader.read_upto(0, dledger.ENTRY_HEADER_SIZE)
        if len(header) < dledger.ENTRY_HEADER_SIZE:
            continue
        magic, size, index, term, stated, _, _, _, body_size = HEADER.unpack(header)
        sound = (
            magic >= dledger.MAGIC_NORMAL
            and size > LEAST_SIZE
            and size == body_size + dledger.ENTRY_HEADER_SIZE
        )
        here = stated == files[number].start_offset
        if sound and here and units.at(index) == UNIT.pack(magic, stated, size, index, term):
            return number
    return 0


class EntryWalk:
    """The entries from a file on, as far as they follow each other."""

    def __init__(self, files: Sequence[LoadedFile], units: UnitsOnDisk, first: int) -> None:
        self.files = files
        self.units = units
        self.first = first
        self.last: SoundEntry | None = None
        self.rewritten_from: int | None = None

    def run(self) -> LogScan:
        """Go through the files; `last` and `rewritten_from` are known afterwards."""
        read_size = 0
        with self.units:
            for number in range(self.first, len(self.files)):
                file = self.files[number]
                pos, blank = self._file(file)
                read_size += pos
                stop_offset = file.start_offset + (file.size if blank else pos)
                if not blank:
                    break
        start = self.files[self.first]
        stop = "blank" if blank else "invalid"
        count = number - self.first + 1
        return LogScan(start.relative, start.start_offset, stop_offset, stop, count, read_size)

    def _file(self, file: LoadedFile) -> tuple[int, bool]:
        """Where the entries of a file end, and whether a blank is there."""
        pos = 0
        with Window(file) as window:
            while isinstance(entry := read_entry(window, pos, file.start_offset), SoundEntry):
                if not self._follows(entry):
                    return pos, False
                if self.rewritten_from is None and self.units.at(entry.index) != entry.unit:
                    self.rewritten_from = entry.index
                self.last = entry
                pos += entry.size
        return pos, entry is not None

    def _follows(self, entry: SoundEntry) -> bool:
        if self.last is not None:
            return entry.index == self.last.index + 1 and entry.term >= self.last.term
        if entry.term >= -1 and not 0 <= entry.index <= _MAX_INDEX:
            raise NotCoveredError((FIRST_REASON.format(index=entry.index),), path="")
        return entry.term >= -1


STATE_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class NodeState:
    """The numbers in a node's checkpoint and currterm; None: none there."""

    directory: str
    committed_index: int | None
    current_term: int | None
    voted_for: str | None


@dataclass(frozen=True, slots=True)
class NodeSide:
    """A node of DLedger's: its entries, and its state as in `NodeState`.

    `end_offset` is the offset after its last sound entry.
    """

    directory: str
    first_index: int | None
    last_index: int | None
    last_term: int | None
    end_offset: int
    committed_index: int | None
    current_term: int | None
    voted_for: str | None


def data_files(store: Store) -> tuple[MappedFile, ...]:
    """The files of the log that hold entries of DLedger's, in order; () where the log is plain."""
    return tuple(file for file in store.commitlog.files if file.in_entries)


def entries_in(file: LoadedFile) -> Iterator[SoundEntry]:
    """The sound entries at the beginning of a file. Raises StoreError."""
    pos = 0
    with Window(file) as window:
        while isinstance(entry := read_entry(window, pos, file.start_offset), SoundEntry):
            yield entry
            pos += entry.size


def node_side(store: Store) -> NodeSide | None:
    """How far the entries of a store's node go; None where its log is plain. Raises StoreError."""
    files, state = data_files(store), node_state(store)
    if state is None:
        return None
    first = next(entries_in(LoadedFile.of(files[0])), None)
    lasts = (deque(entries_in(LoadedFile.of(file)), 1) for file in reversed(files))
    last = next((entry for found in lasts for entry in found), None)
    ends: tuple[int | None, int | None, int] = None, None, files[0].start_offset or 0
    if last is not None:
        ends = last.index, last.term, last.pos + last.size
    agreed = state.committed_index, state.current_term, state.voted_for
    return NodeSide(state.directory, None if first is None else first.index, *ends, *agreed)


def node_state(store: Store) -> NodeState | None:
    """What checkpoint and currterm of a store's node say; None where its log is plain. Raises StoreError."""
    files = data_files(store)
    if not files:
        return None
    directory = files[0].relative.rpartition("/data/")[0]
    checkpoint, term = (values_of(store, f"{directory}/{name}") for name in ("checkpoint", "currterm"))
    return NodeState(
        directory,
        _number(checkpoint, "committedIndex"),
        _number(term, "currTerm"),
        term.get("voteLeader") or None,
    )


def values_of(store: Store, name: str) -> dict[str, str]:
    """What a small file of a node says, by its path; nothing where it is missing, or is not such a file."""
    for other in store.others:
        for file in other.files:
            if file.relative == name:
                try:
                    return parse_settings(read_whole(file.path, STATE_SIZE))
                except ValueError:
                    return {}
    return {}


def _number(values: dict[str, str], key: str) -> int | None:
    return java_parse_long(values.get(key, "").strip())
