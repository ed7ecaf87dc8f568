"""The walk over a part of a log file: batches of records, and damage, each where it begins.

A part is a range of file positions; what begins in it is its own. What comes before a record says what
the record is, and whether it is live, so the walk of a part begins with the file, or continues one that came
from there, and passes over the records in front of the part by their frames: parts are the
file, exactly, whatever is in it.

Walks of commit log files that a process ended, for the part of the same file that it reads next.

What a record is, and whether it is live, depends on all records in front of it: no part can prove by itself
that what looks like a record is not inside of a body. So a part walks the frames from the file's start on, or
from where this process has walked to: a state that was copied at the end of a batch gives the batches that a
whole walk has from there on. A process that reads all parts of a file walks it once, several processes once
each. States are kept in memory alone, and only for the very bytes: the file is the same, and unchanged.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.log.regions import Reason, Region, RegionKind
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads.pieces import PIECE_SIZE
from rocketfsck.store.places.urls import Location
from rocketfsck.store.reading import FileReader

FILE_COUNT = 8
WALK_COUNT = 4
"""Walks that are kept of one file: as many as threads may read it at once, about."""

MAX_NAME_SIZE = 1 << 22
"""Bytes of names of queues in a walk that is kept."""


@dataclass(frozen=True, slots=True)
class WalkedPart:
    """A walk that ended with a batch, at the file position `pos`, what it found live, and its queues.

    `base` is what its records counted their physicalOffset from.
    """

    pos: int
    base: int
    live: LiveScan
    table: QueueTable


def identity(reader: FileReader, base_offset: int, options: ScanOptions) -> Hashable | None:
    """What two walks must agree in for one to continue the other; None where none may.

    The records of DLedger's files lie in entries, whose ends a batch does not tell.
    """
    if options.in_entries:
        return None
    how = (base_offset, options.property_parser, options.file_size, options.index_tags)
    if reader.fileno() < 0:
        etag = reader.path.etag if isinstance(reader.path, Location) else ""
        return (str(reader.path), etag, reader.size, reader.mtime_ns, how) if etag else None
    status = os.fstat(reader.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, how


class Continuations:
    """What walks of this process left; each is given to one walk at a time. Safe to use by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._walks: OrderedDict[Hashable, list[WalkedPart]] = OrderedDict()

    def take(self, name: Hashable, pos: int) -> WalkedPart | None:
        """The walk of this file that came nearest to the position from the front, if there is one."""
        with self._lock:
            walks = self._walks.get(name, [])
            known = [walk for walk in walks if walk.pos <= pos]
            if not known:
                return None
            found = max(known, key=lambda walk: walk.pos)
            walks.remove(found)
            return found

    def keep(self, name: Hashable, walk: WalkedPart) -> None:
        """Let the next walk of the file have it."""
        if int(walk.table.counts[1]) > MAX_NAME_SIZE:
            return
        with self._lock:
            walks = self._walks.setdefault(name, [])
            walks.append(walk)
            walks.sort(key=lambda one: one.pos)
            del walks[:-WALK_COUNT]
            self._walks.move_to_end(name)
            while len(self._walks) > FILE_COUNT:
                self._walks.popitem(last=False)

    def forget(self) -> None:
        """Keep none of those so far."""
        with self._lock:
            self._walks.clear()


continuations = Continuations()


def _in_child() -> None:
    """The lock may have been held when the process was forked."""
    global continuations
    continuations = Continuations()


os.register_at_fork(after_in_child=_in_child)


DAMAGE = frozenset({RegionKind.MALFORMED, RegionKind.DAMAGED, RegionKind.TORN})
"""Regions that hold no record where one should be."""


NEAR_SIZE = PIECE_SIZE
"""Bytes in front of the end of a part in which its walk is kept: batches are no longer than that."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """File positions that hold no record where one should be, and why; `is_live`: in front of live records.

    Zeros between records are damage, those after the last are not.
    """

    start: int
    end: int
    kind: str
    reason: str
    is_live: bool = True


class PartWalk:
    """One walk; `live_end` is where the live records end, as far as it is known by now.

    `known` is a walk of the same file, by the same options, that this one continues; `walked` is what the
    next one can continue, of this walk or the known one.
    """

    __slots__ = (
        "_from",
        "_live",
        "_pending",
        "base_offset",
        "end",
        "options",
        "reader",
        "start",
        "table",
        "walked",
    )

    def __init__(
        self,
        reader: FileReader,
        base_offset: int,
        options: ScanOptions,
        start: int,
        end: int,
        known: WalkedPart | None = None,
    ) -> None:
        self.reader = reader
        self.base_offset = base_offset
        self.options = options
        self.start = start
        self.end = end
        self.walked = known
        self._from = (0, None) if known is None else (known.pos, known.base)
        self.table = QueueTable() if known is None else known.table
        self._live = LiveScan() if known is None else known.live.copy()
        self._pending: list[Region] = []

    @property
    def live_end(self) -> int:
        """Records that begin before this position are live."""
        stale_pos = self._live.stale_pos
        return (1 << 63) - 1 if stale_pos is None else stale_pos

    def items(self, *, live_only: bool) -> Iterator[RecordBatch | DamagedRange]:
        """Yield batches that hold records of the part, maybe others with them, and the part's damage.

        Batches are reused. Raises StoreError when bytes cannot be read.
        """
        found = self._live.walk(
            self.reader,
            self.base_offset,
            self.options,
            self.table,
            past_end=not live_only,
            start=self._from[0],
            start_base=self._from[1],
        )
        for item in found:
            if isinstance(item, Region):
                if item.kind is RegionKind.BLANK:
                    yield from self._settle(in_front=True)
                if item.start < self.end and (item.kind in DAMAGE or item.kind is RegionKind.ZERO):
                    self._pending.append(item)
                elif item.start >= self.end and not self._pending:
                    return
                if item.reason is Reason.BLANK_SIZE and item.kind is RegionKind.BLANK:
                    yield from self._own(item)
                continue
            first, last = int(item["pos"][0]), int(item["pos"][-1])
            yield from self._settle(in_front=first < self.live_end)
            if first >= self.end:
                return
            self._keep(item)
            if last >= self.start:
                yield item
        if live_only:
            self._pending = [region for region in self._pending if region.start < self.live_end]
        yield from self._settle(in_front=False)

    def _keep(self, batch: RecordBatch) -> None:
        """Copy the state at the end of a batch that is one of the last of the part."""
        last = batch.record_count - 1
        pos = int(batch["pos"][last])
        end = pos + int(batch["total_size"][last])
        if self._live.stale_pos is None and end <= self.end < end + NEAR_SIZE:
            base = int(batch["physical_offset"][last]) - pos
            self.walked = WalkedPart(end, base, self._live.copy(), self.table)

    def _settle(self, *, in_front: bool) -> Iterator[DamagedRange]:
        """What was met since the last record is damage, zeros too if live records come after them."""
        for region in self._pending:
            if region.kind in DAMAGE or in_front:
                yield from self._own(region)
        self._pending = []

    def _own(self, region: Region) -> Iterator[DamagedRange]:
        if self.start <= region.start < self.end:
            is_live = region.start < self.live_end
            yield DamagedRange(region.start, region.end, region.kind.value, region.reason.value, is_live)
