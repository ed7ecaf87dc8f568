"""Two replicas of one log: what they share, where they part, what each has that the other lacks.

    sides     where each log begins, and where its live records end
    bytes     equal blocks of the common range are skipped at the speed of reading
    records   files with any difference are carved, and the records matched by physical offset and bytes

Bytes that differ outside of records (those after a BLANK) are not a difference: brokers do not copy them
exactly (reference 2.8). Fault catalogue, H1 and H2.

All three steps are kernels, so they run on any engine; what comes back is counted or bounded. Memory here
does not grow with the stores but for their lists of files and 8 bytes for each MiB that differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.errors import UsageError
from rocketfsck.progress import phase
from rocketfsck.repair.carve.carve import carved_rows
from rocketfsck.repair.compare.configs import (
    NO_CONFIGS,
    NO_REPLICATION,
    ConfigsCompared,
    Replication,
    compare_configs,
    compare_replication,
)
from rocketfsck.repair.compare.records import (
    SIDES,
    Chunk,
    Copy,
    Different,
    Group,
    GroupResult,
    Lack,
    Part,
    Unlike,
    chunks_of,
    compare_group,
    files_of,
    find_unlike_blocks,
    group_files,
    shared_parts,
)
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.areas import demand_listed
from rocketfsck.store.model import MappedFile, OtherKind, Store
from rocketfsck.store.reading import FileReader

__all__ = ["SIDES", "Comparison", "Copy", "Different", "Lack", "Side", "compare_stores", "describe_side"]

DIFFERENT_LIMIT = 1000
"""Records that are different on the two sides and listed one by one."""

WAVE_COUNT = 256
"""Groups that are given to the engine at once: each may tell of as many records as are still wanted."""


@dataclass(frozen=True, slots=True)
class Side:
    """One replica. Physical offsets: `start_offset` of its first file, `end_offset` after its last live
    record (equal where it has none). `last_timestamp` is the storeTimestamp of its last record, if known."""

    path: Path
    start_offset: int
    end_offset: int
    last_timestamp: int | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two replicas have in common and what not.

    `common` is the range of physical offsets that both hold, None if there is none. `equal_byte_count` bytes
    of it are the same; `unlike_byte_count` bytes differ, in records or outside of any. `different` are the
    first places where records differ in the common range, `different_count` all of them. `lacks` are by
    queue. `resume_offset` is where the shorter copy can go on from the other: everything common before it is
    the same; None without a common range. `replication` is what the replicas' own files say, `configs` how
    their consumer groups and topics differ, which does not count for `same`.
    """

    a: Side
    b: Side
    common: tuple[int, int] | None
    equal_byte_count: int
    unlike_byte_count: int
    different: tuple[Different, ...]
    different_count: int
    lacks: tuple[Lack, ...]
    resume_offset: int | None
    replication: Replication = NO_REPLICATION
    configs: ConfigsCompared = NO_CONFIGS

    @property
    def same(self) -> bool:
        """Whether both hold the same records, in the same entries where they have entries."""
        return not self.different_count and not self.lacks and self.replication.parting is None

    @property
    def first_divergence(self) -> Different | None:
        return self.different[0] if self.different else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument:
    """A `Comparison` as JSON says it; `further` are those of further stores, in the first one."""

    schema_version: Literal[1] = 1
    kind: Literal["rocketfsck.compare"] = "rocketfsck.compare"
    same: bool
    a: Side
    b: Side
    common: tuple[int, int] | None
    equal_byte_count: int
    unlike_byte_count: int
    resume_offset: int | None
    different_count: int
    first_different_offset: int | None
    different: tuple[Different, ...]
    lacks: tuple[Lack, ...]
    replication: Replication
    configs: ConfigsCompared
    further: tuple[ComparisonDocument, ...] = ()


def comparison_document(comparison: Comparison, *further: Comparison) -> ComparisonDocument:
    """The document of a comparison, with those of further ones in it."""
    first = comparison.first_divergence
    return ComparisonDocument(
        same=comparison.same,
        first_different_offset=None if first is None else first.physical_offset,
        further=tuple(map(comparison_document, further)),
        **{item.name: getattr(comparison, item.name) for item in fields(comparison)},
    )


def compare_stores(
    a: Store, b: Store, *, engine: Engine | None = None, sides: tuple[Side, Side] | None = None
) -> Comparison:
    """Compare two stores, on any engine (default: all cores); the result is the same on each.

    `sides`: both, where they are described already. Raises StoreError if something cannot be read, UsageError
    without commit logs.
    """
    engine = engine or LocalEngine()
    if sides is None:
        with phase("finding the ends of the commit logs"):
            sides = describe_sides(a, b, engine)
    groups, unlike_byte_count = group_stores(a, b, sides, engine)
    low, high = groups[0].common
    shared = [part for group in groups for part in group.shared]
    different: list[Different] = []
    lacks: dict[tuple[str, bytes, int], Lack] = {}
    place_count, first_place = 0, None
    for result in _compare_groups(groups, engine, different):
        place_count += result.place_count
        first_place = result.first_place if first_place is None else first_place
        for lack in result.lacks:
            key = (lack.side, lack.topic, lack.queue_id)
            lacks[key] = _joined(lacks[key], lack) if key in lacks else lack
    replication = compare_replication(
        a,
        b,
        (sides[0].end_offset, sides[1].end_offset),
        next((int(group.unlike[0]) for group in groups if len(group.unlike)), None),
    )
    parting = replication.parting
    if parting is not None:  # the header of an entry is in front of its record
        first_place = min(parting.physical_offset, high if first_place is None else first_place)
    return Comparison(
        a=sides[0],
        b=sides[1],
        common=(low, high) if low < high else None,
        equal_byte_count=sum(end - start for start, end in shared) - unlike_byte_count,
        unlike_byte_count=unlike_byte_count,
        different=tuple(different),
        different_count=place_count,
        lacks=tuple(lacks[key] for key in sorted(lacks)),
        resume_offset=_resume(low, high, shared, first_place),
        replication=replication,
        configs=compare_configs(a, b),
    )


def describe_sides(a: Store, b: Store, engine: Engine) -> tuple[Side, Side]:
    """Where both logs begin and end.

    Raises UsageError where one has no commit log, and StoreError, also for a log that could not be listed in
    full: what cannot be seen is not missing.
    """
    require_logs(a, b)
    found = {outcome.index: outcome.result for outcome in engine.run(describe_side, [a, b])}
    first, second = found[0], found[1]
    assert first is not None and second is not None
    return first, second


def require_logs(*stores: Store) -> None:
    """Raises UsageError where a store has no commit log file of its own, with what it has instead.

    Raises StoreError for a log that could not be listed in full.
    """
    for store in stores:
        demand_listed(store, {"commitlog"})
        if not any(file.start_offset is not None for file in store.commitlog.files):
            dledger = any(other.kind is OtherKind.DLEDGER_DATA for other in store.others)
            why = "; which files belong to DLedger's log is uncertain" if dledger else ""
            raise UsageError(f"{store.root}: no commit log to compare{why}")


def refuse_entries(*stores: Store) -> None:
    """Raises UsageError for a log of DLedger's: what heals one copies no entries."""
    for store in stores:
        if store.has_entries:
            raise UsageError(f"{store.root}: the log belongs to DLedger; compare works without --heal")


def describe_side(store: Store) -> Side:
    """Where a store's log begins and where its live records end. Raises StoreError, UsageError."""
    require_logs(store)
    files = store.commitlog.files
    start = min(file.start_offset for file in files if file.start_offset is not None)
    for index in range(len(files) - 1, -1, -1):
        begins = files[index].start_offset
        if begins is None:
            continue
        end = _live_end_offset(store, files[index])
        if end > begins:
            return Side(store.root, start, end, _last_timestamp(files[index], end))
    return Side(store.root, start, start, None)


def _live_end_offset(store: Store, file: MappedFile) -> int:
    """The physical offset after the last live record of a file; the file's own start where it has none."""
    base, scan = file.start_offset or 0, LiveScan()
    with FileReader(file.location) as reader:
        options = log_options(store, file, read_bodies=False)
        for _ in scan.batches(reader, base, options, QueueTable()):
            pass
    return base + scan.end_pos


def _last_timestamp(file: MappedFile, end: int) -> int | None:
    found = None
    with FileReader(file.location) as reader:
        for rows, _ in carved_rows(reader, new_batch(), QueueTable()):
            live = np.flatnonzero(rows["pos"] + (file.start_offset or 0) < end)
            if len(live):
                found = int(rows["store_timestamp"][live[-1]])
    return found


def group_stores(a: Store, b: Store, sides: Sequence[Side], engine: Engine) -> tuple[list[Group], int]:
    """The files of two stores in groups, their bytes compared; and how many bytes differ. StoreError."""
    common = (max(side.start_offset for side in sides), min(side.end_offset for side in sides))
    listed = group_files(files_of(a), files_of(b))
    shared = [shared_parts(*files, *common) for files in listed]
    chunks = [
        chunk
        for number, (files, parts) in enumerate(zip(listed, shared, strict=True))
        for chunk in chunks_of(*files, parts, number)
    ]
    found = _compare_bytes(chunks, engine)
    starts: list[list[int]] = [[] for _ in listed]
    for chunk, unlike in zip(chunks, found, strict=True):
        starts[chunk.group].extend(unlike.starts.tolist())
    ends = (sides[0].end_offset, sides[1].end_offset)
    groups = [
        Group(files, tuple(parts), np.array(unlike_starts, np.int64), ends, common)
        for files, parts, unlike_starts in zip(listed, shared, starts, strict=True)
    ]
    return groups or [Group(((), ()), (), np.empty(0, np.int64), ends, common)], sum(
        unlike.size for unlike in found
    )


def _compare_bytes(chunks: Sequence[Chunk], engine: Engine) -> list[Unlike]:
    total, done = sum(chunk.end - chunk.start for chunk in chunks), 0
    found: list[Unlike | None] = [None] * len(chunks)
    with phase("comparing the commit logs", total) as at:
        for outcome in engine.run(find_unlike_blocks, chunks):
            found[outcome.index] = outcome.result
            done += outcome.task.end - outcome.task.start
            at.at(done)
    return [unlike for unlike in found if unlike is not None]


def _compare_groups(
    groups: Sequence[Group], engine: Engine, different: list[Different]
) -> Iterable[GroupResult]:
    """The results of the groups that are not the same, in order; `different` gets the first places."""
    open_groups = [group for group in groups if group.differs(0) or group.differs(1)]
    for start in range(0, len(open_groups), WAVE_COUNT):
        wanted = DIFFERENT_LIMIT - len(different)
        wave = [replace(group, limit=wanted) for group in open_groups[start : start + WAVE_COUNT]]
        with phase("comparing the records"):
            results = {outcome.index: outcome.result for outcome in engine.run(compare_group, wave)}
        for index in range(len(wave)):
            result = results[index]
            assert result is not None
            different.extend(result.different[: DIFFERENT_LIMIT - len(different)])
            yield result


def _joined(one: Lack, other: Lack) -> Lack:
    return replace(
        one,
        record_count=one.record_count + other.record_count,
        first_queue_offset=min(one.first_queue_offset, other.first_queue_offset),
        last_queue_offset=max(one.last_queue_offset, other.last_queue_offset),
    )


def _resume(low: int, high: int, shared: Iterable[Part], first_place: int | None) -> int | None:
    """The end of what is the same without a break from the common start on."""
    if low >= high:
        return None
    reached = low
    for start, end in shared:
        if start > reached:
            break
        reached = max(reached, end)
    return reached if first_place is None else min(reached, first_place)
