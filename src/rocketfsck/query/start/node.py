"""DLedger's own recovery of a node's files: its cut, its index, and how far the group agreed.

    load -> order of files -> entries from the third last data file on -> index -> cut -> checkpoint

A broker calls it in place of the commit log's own recovery, and reads what is left. Where DLedger throws
or ends the process, the start is refused. Reference 2.14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from rocketfsck.common.wording import fill_numbers
from rocketfsck.formats.dledger import DEFAULT_INDEX_FILE_SIZE, ENTRY_HEADER_SIZE, INDEX_UNIT_SIZE
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query import nodes
from rocketfsck.query.start.load import LENGTH_REASON, NUMBER_REASON, LoadedFile, entries_of
from rocketfsck.query.start.model import FileChange, LogScan
from rocketfsck.query.start.queues import StartFailedError
from rocketfsck.query.start.read import LogWalker, Verdict
from rocketfsck.query.start.recover import BatchHandler, drain, truncate_files
from rocketfsck.reader.heads import head_at
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.store.model import OtherKind, Store
from rocketfsck.store.places.entries import EntryKind
from rocketfsck.store.reading import FileReader

ORDER_REASON = "DISK_ERROR check {what} file order failed before recovery"
TOO_SMALL_REASON = "[MONITOR]The processOffset is too small: {offset}"
COMMITTED_REASON = "DISK_ERROR no unit of the index is at the committed entry {index}"


@dataclass(slots=True)
class Node:
    """The files of one node, as its broker maps them; `directory` is its path below the store's root."""

    directory: str
    data: list[LoadedFile]
    index: list[LoadedFile]


@dataclass(frozen=True, slots=True)
class NodeStart:
    """What the recovery leaves: the scan, the last entry (None: no entry is left), and where it cut.

    `rewritten_from` is the first entry whose unit of the index is written again, None for none.
    `committed_offset` is the end of the last entry that the group agreed on, as checkpoint says; None where
    it says nothing that counts. `data` and `index` are the files that stay.
    """

    scan: LogScan
    last: nodes.SoundEntry | None
    rewritten_from: int | None
    committed_index: int | None
    committed_offset: int | None
    data: list[LoadedFile]
    index: list[LoadedFile]
    node: Node

    @property
    def last_timestamp(self) -> int | None:
        """The storeTimestamp of the last entry's record, None without one."""
        if self.last is None:
            return None
        file = next(file for file in self.data if file.start_offset <= self.last.pos < file.end_offset)
        with FileReader(file.path) as reader:
            head = head_at(reader, self.last.pos - file.start_offset + ENTRY_HEADER_SIZE)
        return None if head is None else head.store_timestamp

    def notes(self) -> list[str]:
        """What else becomes of the node, and what depends on the others of its group."""
        notes = []
        if self.rewritten_from is not None:
            notes.append(f"DLedger writes its index again from entry {self.rewritten_from} on")
        if self.last is None:
            notes.append("DLedger's log keeps no entry")
            return notes
        agreed = -1 if self.committed_index is None else self.committed_index
        if agreed < self.last.index:
            entries = fill_numbers("{first..last:entry}", first=agreed + 1, last=self.last.index)
            notes.append(
                f"checkpoint does not say that the group agreed on {entries}: the prediction "
                "assumes that the node leads and dispatches them; as a follower, the node may lose them"
            )
        return notes

    def changes(self) -> list[FileChange]:
        """Files of the index that come or go."""
        kept = {file.relative for file in self.index}
        why = "DLedger keeps no unit of this file"
        return [
            FileChange(file.relative, "deleted", file.size, why)
            for file in self.node.index
            if file.relative not in kept
        ] + [
            FileChange(file.relative, "created", file.size, "DLedger writes units of its index again")
            for file in self.index
            if file.is_new
        ]

    @property
    def confirm_offset(self) -> int:
        """DLedgerCommitLog.getMaxOffset before the node has a leader."""
        return self.committed_offset or self.data[0].start_offset


def load_node(store: Store) -> Node:
    """The files of the node whose data files are in the store's log. Raises StartFailedError."""
    (data,) = [other for other in store.others if other.kind is OtherKind.DLEDGER_DATA and other.files]
    directory = data.relative.rpartition("/")[0]
    node = store.root / directory
    files = _mapped_files(str(node / "data"), data.relative, store.geometry.commitlog_file_size)
    for file in files:
        file.in_entries = True
    return Node(
        directory, files, _mapped_files(str(node / "index"), f"{directory}/index", DEFAULT_INDEX_FILE_SIZE)
    )


def _mapped_files(directory: str, relative: str, size: int) -> list[LoadedFile]:
    files = []
    for entry in sorted(entries_of(directory), key=lambda entry: entry.name):
        name = f"{relative}/{entry.name}"
        if entry.size != size or entry.kind is EntryKind.DIRECTORY:
            raise StartFailedError(name, LENGTH_REASON.format(size=entry.size))
        start_offset = java_parse_long(entry.name)
        if start_offset is None:
            raise StartFailedError(name, NUMBER_REASON.format(name=entry.name))
        files.append(LoadedFile(entry.path, name, start_offset, size, size))
    return files


def recover_node(store: Store, node: Node) -> NodeStart:
    """DLedgerMmapFileStore.recover. Raises StartFailedError where it throws, StoreError for what fails."""
    for what, files in (("data", node.data), ("index", node.index)):
        for before, file in pairwise(files):
            if file.start_offset - before.start_offset != file.size:
                raise StartFailedError(file.relative, ORDER_REASON.format(what=what))
    units = nodes.UnitsOnDisk(node.index)
    walk = nodes.EntryWalk(node.data, units, nodes.first_file(node.data, units))
    scan = walk.run()
    last_file = node.data[-1]
    if last_file.start_offset - scan.stop_offset > last_file.size:
        raise StartFailedError(last_file.relative, TOO_SMALL_REASON.format(offset=scan.stop_offset))
    index = _kept_index(node, walk)
    committed = _committed(store, node, walk, index)
    return NodeStart(
        scan,
        walk.last,
        walk.rewritten_from,
        *committed,
        data=truncate_files(node.data, scan.stop_offset),
        index=index,
        node=node,
    )


def _kept_index(node: Node, walk: nodes.EntryWalk) -> list[LoadedFile]:
    """The index files that stay, with their ends; one that the recovery makes is among them."""
    end = 0 if walk.last is None else (walk.last.index + 1) * INDEX_UNIT_SIZE
    files = node.index
    if walk.rewritten_from is not None:
        at = walk.rewritten_from * INDEX_UNIT_SIZE
        files = truncate_files(list(files), at)
        wrote = files[-1].start_offset + files[-1].wrote_pos if files else -1
        if wrote != at:  # no file holds the place: all of them go, and one is made that does
            files = [_new_index(node, at)]
        while files[-1].end_offset < end:
            files.append(_new_index(node, files[-1].end_offset))
    if walk.last is not None:
        begin = _first_index(node) * INDEX_UNIT_SIZE
        files = [file for file in files if file.start_offset > begin or file.end_offset > begin]
    return truncate_files(files, end)


def _new_index(node: Node, offset: int) -> LoadedFile:
    start = offset - offset % DEFAULT_INDEX_FILE_SIZE
    name = f"{node.directory}/index/{start:020d}"
    return LoadedFile("", name, start, DEFAULT_INDEX_FILE_SIZE, DEFAULT_INDEX_FILE_SIZE, is_new=True)


def _committed(
    store: Store, node: Node, walk: nodes.EntryWalk, kept: Sequence[LoadedFile]
) -> tuple[int | None, int | None]:
    """The last entry that the group agreed on, and where it ends. Raises StartFailedError."""
    stated = _stated_committed(store, node)
    if stated is None or walk.last is None or stated < _first_index(node):
        return None, None
    index = min(stated, walk.last.index)
    if index == walk.last.index:
        return index, walk.last.pos + walk.last.size
    with nodes.UnitsOnDisk(node.index) as units:
        unit = units.at(index)
    if walk.rewritten_from is not None and index >= walk.rewritten_from:
        entries = chain.from_iterable(map(nodes.entries_in, node.data[walk.first :]))
        unit = next((entry.unit for entry in entries if entry.index == index), None)
    if unit is None or not kept or index * INDEX_UNIT_SIZE < kept[0].start_offset:
        raise StartFailedError(f"{node.directory}/checkpoint", COMMITTED_REASON.format(index=index))
    _, pos, size, _, _ = nodes.UNIT.unpack(unit)
    return index, pos + size


def _first_index(node: Node) -> int:
    """The number in the first entry of the log, whatever is there: ledgerBeginIndex."""
    with FileReader(node.data[0].path) as reader:
        return int(nodes.HEADER.unpack(reader.read(0, ENTRY_HEADER_SIZE))[2])


def _stated_committed(store: Store, node: Node) -> int | None:
    """The committedIndex in checkpoint; None where nothing is read of it. Raises StartFailedError."""
    name = f"{node.directory}/checkpoint"
    text = nodes.values_of(store, name).get("committedIndex", "").strip()
    if not text:
        return None
    stated = java_parse_long(text)
    if stated is None:
        raise StartFailedError(name, NUMBER_REASON.format(name=text))
    return None if stated < 0 else stated


def dispatch_entries(files: Sequence[LoadedFile], first: int, walker: LogWalker, handle: BatchHandler) -> int:
    """Hand on what is in data files from number `first` on, even after the cut (5.2.0+, abnormal recovery).

    Returns where the broker takes the log to end: it counts the records, and not the headers of entries.
    """
    size = 0

    def count(batch: RecordBatch, file: LoadedFile) -> None:
        nonlocal size
        size += int(batch["total_size"].sum())
        handle(batch, file)

    for file in files[first:]:
        size = 0
        with FileReader(file.path) as reader:
            ending = drain(walker, reader, 0, file.size, file, count)
        if ending.judged is None or ending.judged.verdict is not Verdict.BLANK:
            break
    return file.start_offset + size
