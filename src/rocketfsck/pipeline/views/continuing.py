"""Walks of commit log files that a process ended, for the part of the same file that it reads next.

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
from collections.abc import Hashable
from dataclasses import dataclass

from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
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
