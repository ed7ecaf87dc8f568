"""What is left over when the records of all commit log files have met the units of all queues.

    records without a unit: queue missing, queue behind, holes                      XR001 to XR003
    units without a record: behind the log, in a missing file, in damage, ghosts    XR004, XR005, XR010, XR011
    delays of the schedule topic's units, which no file says                        XR008, XR009

Neighbours with one cause are one finding. Reference 6.6, 9.3.

A commit log that lost its beginning, but not by expiry.

A broker that deletes commit log files goes through the queues and the index at once. What leads only to
before the new beginning of the log goes, too, but for the last file of each queue and of the index:

    consume queue file    its last unit is before the log
    index file            its endPhyOffset is before the log

So such a file tells that log files are gone which no broker deleted, if a later file of the same queue or of
the index leads into the log. Without a later one the queue or the index may be a copy from another time. The
log began no later than with the file that the earliest of them ends in.

A broker that stops before it comes to the queues leaves such files, too: in later versions (5.1.4) queues and
index have a task of their own, which runs every ten seconds, and in all versions one queue follows the other.
By then the broker has deleted few log files, all older than fileReservedTime. Nothing shows whether a file
expired just now or is missing, so nothing is found. Reference 1.2, 3.1, 4.1.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import first_names
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.reader.index import readable_headers
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader, is_light_queue, unit_offsets
from rocketfsck.scan.spans import group_bounds, subtract_spans
from rocketfsck.store.elsewhere import has_log_elsewhere, has_queues_elsewhere
from rocketfsck.store.model import ConsumeQueue, Store
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Findings, Where, queue_place, unit_place
from rocketfsck.verify.log.result import Ground, LogMap
from rocketfsck.verify.queues import unitranges
from rocketfsck.verify.queues.looseunits import DeletedQueues, LooseUnits, Missed
from rocketfsck.verify.queues.unitjoin import delay_levels_of
from rocketfsck.verify.store.misnamed import Misnamed
from rocketfsck.verify.tasks.task import Context, LogFacts, Results, capped

HOUR_MS = 3_600_000
EXPIRED_AT_ONCE = 20
"""Commit log files that a broker deletes before it comes to queues and index: deleteFileBatchMax, twice."""


def check_beginning(store: Store, logs: Results, gatherer: Gatherer) -> Findings:
    """One finding where log files are gone from the front; `logs` are the results of the log's files, and
    `gatherer` takes what units say of their messages. What cannot be read is passed over: another check says
    so."""
    start = store.commitlog.start_offset
    if not start or store.live.locked:  # a running broker goes through many queues for minutes
        return
    left = [end for queue in store.queues for end in _left_of_queue(queue, start)]
    ends = [(file.relative, header.end_physical_offset) for file, header in readable_headers(store.indexes)]
    if ends and ends[-1][1] >= start:
        left += [(name, end) for name, end in ends[:-1] if 0 < end < start]
    if not left:
        return
    size = store.commitlog.file_size
    former = min(end for _, end in left) // size * size
    if start - former <= EXPIRED_AT_ONCE * size and _are_over(store, logs):
        return
    for queue in store.queues:
        _count_lost(queue, former, start, gatherer)
    where = Where(store.commitlog.files[0].relative, 0, physical_offset=start)
    names = [name for name, _ in left]
    yield Finding(RuleName.LOG_BEGINNING_GONE, where, {"file_count": len(names), "files": first_names(names)})


def _are_over(store: Store, logs: Results) -> bool:
    """Whether files before the log were not written for fileReservedTime when the last record was stored."""
    facts = [fact for log in logs if log is not None for fact in log.facts if isinstance(fact, LogFacts)]
    first = next((fact.first_store_timestamp for fact in facts), None)
    last = next((fact.last_store_timestamp for fact in reversed(facts) if fact.record_count), None)
    return first is not None and last is not None and last - first >= store.settings.reserved_hours * HOUR_MS


def _left_of_queue(queue: ConsumeQueue, start: int) -> Iterator[tuple[str, int]]:
    """The first file of a queue and where its last unit leads to, if the log has nothing of that file and
    something of a later one."""
    if queue.kind != "file" or len(queue.files) < 2:
        return
    first = queue.files[0]
    try:
        with UnitReader(queue) as reader:
            last = reader.unit(((first.start_offset or 0) + first.size) // reader.unit_size - 1)
            if last is None or not last.is_message or last.physical_offset >= start:
                return
            after = reader.unit(reader.find_offset(start))
    except StoreError:
        return
    if after is not None and after.physical_offset >= start:
        yield first.relative, last.physical_offset


def _count_lost(queue: ConsumeQueue, former: int, start: int, gatherer: Gatherer) -> None:
    """Take the messages of a queue that were in the part of the log that is gone."""
    if queue.kind != "file" or not queue.files or is_light_queue(queue):
        return
    try:
        with UnitReader(queue) as reader:
            low, high = reader.find_offset(max(former, 1)), reader.find_offset(start)
            before = reader.unit(low - 1)  # the log's first record is where units without one lead, too
    except StoreError:
        return
    if before is not None and before.is_message and former == 0:
        low -= before.physical_offset == 0
    if low < high:
        gatherer.before_log(queue.topic, queue.queue_id, low, high, (former, start - 1))


Name = tuple[str, int]

REASONS = {
    unitranges.Missing.NOTHING: "the place of the unit is empty",
    unitranges.Missing.PRE_BLANK: "a pre-blank unit is in its place",
    unitranges.Missing.OTHER: "another unit is in its place",
    unitranges.Missing.BEFORE: "the queue begins later",
}
BEHIND = "the queue ends earlier"
JOINED_COUNT = 1 << 12
"""Ranges that are plain numbers at once."""


def merge_queues(
    context: Context,
    queues: Results,
    logs: Results,
    gatherer: Gatherer | None = None,
    misnamed: Sequence[Misnamed] = (),
    copies: Collection[str] = (),
    foreign: Collection[str] = (),
    doubled: Collection[str] = (),
) -> Findings:
    """Findings from the results of all queue and commit log tasks, both in store order.

    `gatherer` takes what they say of messages, all of it, however many are yielded. `misnamed` are the files
    of the log that have wrong names, `copies` those that have the records of others, `foreign` those of
    another store, `doubled` those that another file has at the same place, too.
    """
    if context.level == "quick":
        return
    gatherer = gatherer or Gatherer()
    extents = {extent.number: extent for result in queues if result is not None for extent in result.summary}
    misplaced = _spans_of(context.store, {file.relative for file in misnamed})
    gatherer.misplaced(misplaced.values())
    strange = _spans_of(context.store, foreign)
    gatherer.foreign(strange.values())
    copied = _spans_of(context.store, copies)
    gatherer.copied(copied.values())
    log_map = LogMap(context.store, logs, misnamed)
    if not misnamed:
        yield from check_beginning(context.store, logs, gatherer)
    away = _Away(log_map, misplaced, {**copied, **strange}, _spans_of(context.store, doubled).keys())
    missing = gatherer.seen(_missing_units(context, logs, extents, gatherer, away))
    yield from capped(missing, context.detail_limit)
    loose = gatherer.seen(_loose_units(context, log_map, logs, extents, gatherer, away))
    yield from capped(loose, context.detail_limit)
    yield from capped(_shifted_units(context, logs), context.detail_limit)
    yield from capped(_delays(context, logs), context.detail_limit)


@dataclass(frozen=True, slots=True)
class _Away:
    """Records that are not where they belong: files of the log by number, with the offsets of their names.

    `misplaced` files have records that no other has, `copies` those of others. The records of `doubled` ones
    are where they belong, and count for another file.
    """

    log_map: LogMap
    misplaced: Mapping[int, tuple[int, int]]
    copies: Mapping[int, tuple[int, int]]
    doubled: Collection[int] = ()

    def lacks(self, offset: int) -> bool:
        """Whether the log has no more what a broker wrote at a physical offset."""
        if any(start <= offset < end for start, end in self.copies.values()):
            return True
        return int(self.log_map.grounds(np.array([offset], np.int64))[0]) in _GROUNDS_OF_NOTHING


_GROUNDS_OF_NOTHING = frozenset({Ground.BEYOND, Ground.MISSING, Ground.MISNAMED})


def _spans_of(store: Store, names: Collection[str]) -> dict[int, tuple[int, int]]:
    """The files of the log with these names by number, with the offsets that their names state."""
    return {
        number: (file.start_offset, file.start_offset + file.size)
        for number, file in enumerate(store.commitlog.files)
        if file.relative in names and file.start_offset is not None
    }


def _missing_units(
    context: Context, logs: Results, extents: dict[int, Any], gatherer: Gatherer, away: _Away
) -> Findings:
    """Records whose unit is not there, by queue."""
    missed: dict[Name, list[Longs]] = {}
    placed: dict[Name, list[Longs]] = {}
    numbers: dict[Name, int] = {}
    for file_number, log in enumerate(logs):
        if log is None or not len(log.summary.units.missed) or file_number in away.copies:
            continue
        units = log.summary.units
        rows = units.missed[np.argsort(units.missed[:, 0], kind="stable")]
        bounds = group_bounds(rows[:, 0]).tolist()
        names = units.names(context.store, rows[bounds[:-1], 0].tolist())
        for name, (low, high) in zip(names, pairwise(bounds), strict=True):
            missed.setdefault(name, []).append(rows[low:high, 1:])
            if (
                away.misplaced and file_number not in away.misplaced
            ):  # these do not say in which order queues began
                placed.setdefault(name, []).append(rows[low:high, 1:])
            if units.numbers[rows[low, 0]] >= 0:
                numbers[name] = int(units.numbers[rows[low, 0]])
    found = _in_order(missed)
    placed_there = _in_order(placed) if away.misplaced else found
    yield from _judge_missed(context, found, placed_there, numbers, extents, gatherer, away)


def _in_order(parts: dict[Name, list[Longs]]) -> dict[Name, Longs]:
    """The rows of each queue in the log's order. Takes the parts away: there may be millions of rows."""
    found = {}
    for name in list(parts):
        rows = np.concatenate(parts.pop(name))
        rises = (rows[1:, 2] >= rows[:-1, 2]).all()
        found[name] = rows if rises else rows[np.argsort(rows[:, 2], kind="stable")]
    return found


def _judge_missed(
    context: Context,
    missed: Missed,
    placed: Missed,
    numbers: Mapping[Name, int],
    extents: dict[int, Any],
    gatherer: Gatherer,
    away: _Away,
) -> Findings:
    deleted = DeletedQueues(context.store, placed, away.lacks)
    for name in sorted(missed, key=lambda name: (name[0], name[1])):
        number = numbers.get(name)
        if number is None and has_queues_elsewhere(context.store):
            continue
        if number is None:
            former = missed[name] if deleted.has(name) else deleted.former(name)
            live = missed[name][~np.isin(missed[name][:, 2], former[:, 2])]
            if len(former):
                yield _of_queue(RuleName.QUEUE_DELETED, name, former)
            if len(live):
                yield _of_queue(RuleName.QUEUE_MISSING, name, live)
                gatherer.gaps(*name, live[:, 0], live[:, 1] + 1)
            continue
        if deleted.has(name):
            yield _of_queue(RuleName.QUEUE_DELETED, name, missed[name])
            continue
        extent = extents.get(number)
        end = extent.end if extent is not None else None
        known = end
        for low, high, first, last, count, reason in _joined(missed[name]):
            behind = reason == unitranges.Missing.NOTHING and end is not None and low >= end
            queue = context.store.queues[number]
            where = unit_place(queue, low, 1, first)
            if queue.kind == "batch":  # a batch unit's place says nothing of its queue offset
                place = queue_place(queue.topic, queue.queue_id, queue.kind)
                where = replace(place, physical_offset=first, queue_offset=low)
            facts: Facts = {
                "record_count": count,
                "last_queue_offset": high,
                "last_physical_offset": last,
                "reason": BEHIND if behind else REASONS[unitranges.Missing(reason)],
            }
            yield Finding(RuleName.RECORD_WITHOUT_UNIT, where, facts)
            if behind and queue.kind != "batch" and extent is not None and known is not None:
                # messages before this one whose records were in bytes of the log that are gone
                if 0 < low - known <= away.log_map.lost_size_before(first) // MIN_RECORD_SIZE:
                    gatherer.holes(*name, [(known, low)], extent.stale)
                known = max(known, high + 1)


def _of_queue(rule: RuleName, name: Name, rows: Longs) -> Finding:
    """The finding about all records without a unit of a queue."""
    count, first = int(rows[:, 4].sum()), int(rows[:, 2].min())
    return Finding(rule, queue_place(*name), {"record_count": count, "first_physical_offset": first})


def _shifted_units(context: Context, logs: Results) -> Findings:
    """Units of light queues that are not at their places, by queue."""
    runs: dict[int, list[list[int]]] = {}
    skipped: dict[str, int] = {}
    for log in logs:
        if log is None:
            continue
        for name, count in log.summary.skipped.items():
            skipped[name] = skipped.get(name, 0) + count
        units = log.summary.units
        for run in units.shifted.tolist():
            runs.setdefault(int(units.numbers[run[0]]), []).append(run)
    for number, rows in sorted(runs.items()):
        queue = context.store.queues[number]
        yield from unitranges.judge_shifted(context.store, number, rows, skipped.get(queue.topic, 0))


def _joined(rows: Longs) -> Iterator[list[int]]:
    """Missed ranges of one queue, in the log's order, neighbours with one reason as one."""
    apart = (rows[1:, 5] != rows[:-1, 5]) | (rows[1:, 0] != rows[:-1, 1] + 1)
    bounds = np.concatenate(([0], np.flatnonzero(apart) + 1, [len(rows)]))
    starts, ends = bounds[:-1], bounds[1:] - 1
    counts = np.add.reduceat(rows[:, 4], starts)
    columns = rows[starts, 0], rows[ends, 1], rows[starts, 2], rows[ends, 3], counts, rows[starts, 5]
    for low in range(0, len(starts), JOINED_COUNT):
        yield from np.column_stack([column[low : low + JOINED_COUNT] for column in columns]).tolist()


def _loose_units(
    context: Context, log_map: LogMap, logs: Results, extents: dict[int, Any], gatherer: Gatherer, away: _Away
) -> Findings:
    """Units that met no record, queue by queue."""
    matched = unitranges.MatchedUnits(len(context.store.queues))
    light = np.array([is_light_queue(queue) for queue in context.store.queues], np.bool_)
    for file_number, log in enumerate(logs):
        if log is None:
            continue
        units = log.summary.units
        matched.add(units)
        if file_number in away.doubled:
            continue
        if file_number not in away.misplaced and file_number not in away.copies:
            gatherer.served(_matched_count(units, light))
            continue
        for row, start, end in units.matched.tolist():
            number = int(units.numbers[row])
            if not light[number]:
                queue = context.store.queues[number]
                is_copy = file_number in away.copies
                gatherer.served_others(queue.topic, queue.queue_id, start, end, is_copy=is_copy)
    queues = unitranges.own_first((number, context.store.queues[number]) for number in extents)
    once = unitranges.CountedOnce(is_needed=bool(light.any()))
    if not context.store.commitlog.files:
        if not has_log_elsewhere(context.store):
            _count_without_log(queues, extents, gatherer, once)
        return
    with LogReader(context.store.commitlog) as log_reader:
        for number, queue in queues:
            extent = extents[number]
            first = extent.start if log_map.is_misnamed_in_front else extent.live_start
            if not extent.stale and matched.has(number, first, extent.end):
                continue
            starts, ends = matched.spans(number)
            left = subtract_spans(first, extent.end, starts, ends)
            left += [span for span in extent.stale if span[0] >= extent.end]
            if left:
                loose = LooseUnits(queue, log_map, log_reader, once)
                yield from loose.judge(left)
                if not is_light_queue(queue):  # a number that a light queue lacks is not a message of its own
                    gatherer.holes(queue.topic, queue.queue_id, left, loose.units)


def _count_without_log(
    queues: Sequence[tuple[int, ConsumeQueue]],
    extents: Mapping[int, Any],
    gatherer: Gatherer,
    once: unitranges.CountedOnce,
) -> None:
    """All units of a store whose log is gone."""
    for number, queue in queues:
        start, end = extents[number].start, extents[number].end
        copy_count = _copy_count(queue, start, end, once) if once.is_needed else 0
        gatherer.without_log(queue.topic, queue.queue_id, start, end, copy_count)


def _copy_count(queue: ConsumeQueue, start: int, end: int, once: unitranges.CountedOnce) -> int:
    """How many messages of a queue that has lost all were counted before it."""
    with UnitReader(queue) as reader:
        copies = (once.copies(queue, offsets) for offsets in unit_offsets(reader, start, end))
        return sum(int(np.count_nonzero(flags)) for flags in copies)


def _matched_count(units: unitranges.UnitRanges, light: Flags) -> int:
    """The units that met their records, of all queues but the light ones: those list records of others."""
    rows = units.matched
    own = ~light[units.numbers[rows[:, 0]].astype(np.int64)]
    return int(np.sum((rows[:, 2] - rows[:, 1])[own]))


def _delays(context: Context, logs: Results) -> Findings:
    """The delays that the units of each level have, against the list given or the default one."""
    levels = delay_levels_of(context.store)
    given = context.store.delay_levels_source == "given"
    seen: dict[int, dict[int, list[int]]] = {}
    for log in logs:
        if log is None:
            continue
        for level, wait, count, number, index, offset in log.summary.units.delays.tolist():
            known = seen.setdefault(level, {}).setdefault(wait, [0, number, index, offset])
            known[0] += count
    for level, waits in sorted(seen.items()):
        usual = levels.get(min(level, max(levels, default=0)), 1000)
        agreed = usual
        if usual not in waits and not given:
            agreed = max(waits, key=lambda wait: waits[wait][0])
            _, number, index, _ = waits[agreed]
            queue = context.store.queues[number]
            where, found = unit_place(queue, index), {"level": level, "delay_ms": agreed}
            yield Finding(RuleName.DELAY_LEVELS_INFERRED, where, found, {"delay_ms": usual})
        for wait, (count, number, index, offset) in sorted(waits.items()):
            if wait != agreed:
                where = unit_place(context.store.queues[number], index, 1, offset)
                facts: Facts = {"level": level, "delay_ms": wait, "tags_code": f"storeTimestamp + {wait}"}
                wanted: Facts = {"delay_ms": agreed, "tags_code": f"storeTimestamp + {agreed}"}
                yield Finding(RuleName.UNIT_TAGS_CODE, where, facts, wanted, count=count)
