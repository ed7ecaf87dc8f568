"""One pass over the commit log that feeds whoever builds from it: queues, index, or both.

Files come in the order of their names, records in the order of the log, stale tails left out (fault
catalogue, C3); behind damage the walk goes on at the next sound record (C2). Memory: the buffers of the scan
(some 50 MiB), and what the takers say of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rocketfsck.repair.build.queuestates import RawNames
from rocketfsck.scan.build_plain import Longs
from rocketfsck.scan.buildrows import KeyRows, key_rows, unit_rows
from rocketfsck.scan.jit import compiled_wanted
from rocketfsck.scan.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.unitjoin import delay_levels_of

Progress = Callable[[int, int], None]
"""Told how many bytes of the commit log are done, and of how many."""


class UnitTaker(Protocol):
    """Whoever wants the dispatches of the log."""

    def take_units(self, rows: Longs, table: int, raw_names: RawNames, name_count: int) -> None:
        """Take rows (`buildrows.unit_rows`) whose queues are rows of a table of names, known as `table`."""


class KeyTaker(Protocol):
    """Whoever wants the records and their keys."""

    def take_keys(self, rows: KeyRows) -> None:
        """Take records and their keys."""


@dataclass(frozen=True, slots=True)
class LogWalked:
    """What was read: live records, bytes of the files, records whose queue found no room in the table."""

    record_count: int
    byte_count: int
    end_offset: int
    damaged_files: tuple[str, ...]
    unfollowed_count: int


def log_is_large(store: Store) -> bool:
    """Whether compiled kernels are worth their start for this log."""
    return compiled_wanted(sum(file.allocated_size for file in store.commitlog.files))


def walk_log(
    store: Store,
    *,
    units: Sequence[UnitTaker] = (),
    keys: Sequence[KeyTaker] = (),
    compiled: bool,
    progress: Progress | None = None,
) -> LogWalked:
    """Feed every live record to the takers. Raises StoreError where the log cannot be read."""
    options = ScanOptions(False, store.dialect.property_parser, store.geometry.commitlog_file_size)
    levels = delay_levels_of(store)
    table = QueueTable()
    total = store.commitlog.size
    collect = unit_rows
    if compiled:
        from rocketfsck.scan import kernels_build

        collect = kernels_build.unit_rows
    record_count, done, end_offset = 0, 0, 0
    damaged = []
    for file in store.commitlog.files:
        base = file.start_offset or 0
        live = LiveScan()
        with FileReader(file.path) as reader:
            for batch in live.batches(reader, base, options, table, compiled=compiled):
                record_count += batch.record_count
                if units:
                    found = collect(batch, base, levels)
                    for unit_taker in units:
                        unit_taker.take_units(found, 0, table.names, len(table))
                if keys:
                    put = key_rows(batch, base)
                    for key_taker in keys:
                        key_taker.take_keys(put)
                if progress is not None:
                    progress(done + live.end_pos, total)
        if live.damaged:
            damaged.append(file.relative)
        if live.end_pos:
            end_offset = base + live.end_pos
        done += file.size
    if progress is not None:
        progress(total, total)
    return LogWalked(record_count, done, end_offset, tuple(damaged), table.turned_away_count)
