"""Queues in a database against the commit log, both ways, and against their own bounds. Reference 3.9.

The units were spilled to files of units (`store.rocks.spilling`), so that the checks of consume queue files
go through them; what those find is said here of the database's rows, which no repair of files must touch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.engine import LocalEngine
from rocketfsck.formats.consumequeue import UNIT_SIZE
from rocketfsck.reader.units import UnitReader
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import log_options
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import ConsumeQueue, Lifted, Store
from rocketfsck.store.reading import FileReader, read_at
from rocketfsck.store.rocks.families import CONFIG_V2
from rocketfsck.store.rocks.spilling import TIMES, Spill, SpilledQueue, consume_queues
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.queues.crossqueues import merge_queues
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.verify.tasks import task
from rocketfsck.verify.tasks.execute import execute, plan_units

DIFFERS: Set[RuleName] = {
    RuleName.UNIT_SIZE,
    RuleName.UNIT_TAGS_CODE,
    RuleName.UNIT_SHIFTED,
    RuleName.LIGHT_UNITS_SHIFTED,
    RuleName.UNIT_ORDER,
    RuleName.UNIT_INVALID,
}
WITHOUT_RECORD: Set[RuleName] = {
    RuleName.UNIT_BEYOND_LOG,
    RuleName.UNIT_GHOST,
    RuleName.UNIT_IN_MISSING_SEGMENT,
    RuleName.UNIT_OF_DAMAGED_RECORD,
}
WITHOUT_UNIT = frozenset({RuleName.RECORD_WITHOUT_UNIT, RuleName.QUEUE_MISSING})
MISSING = "missing"
TIME_LIMIT = 100
"""Units with a wrong time that are named, by database."""


def check_spill(
    context: task.Context, options: CheckOptions, spill: Spill, gatherer: Gatherer | None = None
) -> tuple[list[Finding | NotChecked], task.Known]:
    """The queues of a database against the log, and what is known of them afterwards; `gatherer` takes what
    they say of messages."""
    store = _store_of(context.store, spill)
    inner = replace(context, store=store, level="cross")
    plain = CheckOptions(level="cross", detail_limit=options.detail_limit)
    units = plan_units(inner)
    ran = execute(inner, plain, units, LocalEngine(1))
    known = task.gather(
        (fact for result in ran.results if result is not None for fact in result.facts),
        [file.relative for file in store.commitlog.files],
        ran.coverage.complete,
    )
    known = replace(known, queues={**known.queues, **_emptied(spill)})
    results = list(zip(ran.units, ran.results, strict=True))
    logs = [result for unit, result in results if isinstance(unit.task, task.LogFileTask)]
    queues = [result for unit, result in results if isinstance(unit.task, task.QueuesTask)]
    compared = sum(result.asked.get(RuleName.UNIT_SIZE, 0) for result in ran.results if result is not None)
    context.shared.ask(RuleName.ROW_DIFFERS, compared)
    context.shared.ask(RuleName.ROW_TIME, sum(queue.row_count for queue in spill.queues.values()))
    found = [finding for result in queues if result is not None for finding in result.findings]
    found += [finding for result in logs if result is not None for finding in result.findings]
    found += merge_queues(inner, queues, logs, gatherer)
    items: list[Finding | NotChecked] = [*ran.not_checked]
    items += _said_of_rows(spill, found, known, killed=_is_killed(context.store))
    items += _bounds(context.store, spill, known)
    items += _times(store, spill)
    return items, known


def _store_of(store: Store, spill: Spill) -> Store:
    """The log with the queues of the database, and nothing else but what tells which topics were deleted."""
    queues = tuple(consume_queues(spill, store.geometry.consumequeue_file_size))
    others = tuple(other for other in store.others if other.relative == CONFIG_V2)
    lifted = Lifted(frozenset({spill.database.relative}))
    return replace(store, queues=queues, ext_queues=(), indexes=(), others=others, strays=(), lifted=lifted)


def _emptied(spill: Spill) -> dict[tuple[str, int], task.QueueFacts]:
    """Queues without a row inside their bounds: brokers go on behind the greatest queue offset that was."""
    found = {}
    for name, queue in spill.queues.items():
        end = queue.end
        if not queue.row_count and end is not None:
            found[name] = task.QueueFacts(queue.topic, queue.queue_id, "file", end, end, None, -1, 0)
    return found


def _said_of_rows(spill: Spill, found: Iterable[Finding], known: task.Known, *, killed: bool) -> Findings:
    """The findings on units and records as findings on rows of the database."""
    database = spill.database.relative
    end = known.end_offset
    dispatched = spill.dispatched
    if dispatched is None:  # nothing was written yet, or the mark is lost, of which `_bounds` speaks
        dispatched = 0 if not _has_rows(spill) else end or 0
    unflushed: list[tuple[int, Finding]] = []
    for finding in found:
        where = finding.where
        place = replace(where, file=database, start=None, end=None, slot=None, entry=None)
        facts: Facts = {"database": database, "problem": RULES[finding.rule].slug, **finding.found}
        if finding.rule in DIFFERS:
            yield Finding(RuleName.ROW_DIFFERS, place, facts, finding.expected, finding.count)
        elif finding.rule in WITHOUT_RECORD:
            yield Finding(RuleName.ROW_WITHOUT_RECORD, place, facts, {}, finding.count)
        elif finding.rule in WITHOUT_UNIT:
            first = finding.found.get("first_physical_offset", where.physical_offset)
            if isinstance(first, int) and first < dispatched:
                place = replace(place, physical_offset=first)
                yield Finding(RuleName.RECORD_WITHOUT_ROW, place, facts, {}, finding.count)
            elif isinstance(first, int):
                unflushed.append((first, finding))
    if unflushed and killed:
        yield _not_flushed(database, unflushed)


def _not_flushed(database: str, found: Sequence[tuple[int, Finding]]) -> Finding:
    """One finding for all queues without the units of records after the mark."""
    first = min(offset for offset, _ in found)
    counts = [finding.found.get("record_count") for _, finding in found]
    facts: Facts = {
        "database": database,
        "queue_count": sum(finding.count for _, finding in found),
        "record_count": sum(count for count in counts if isinstance(count, int)),
    }
    return Finding(RuleName.ROWS_NOT_FLUSHED, Where(database, physical_offset=first), facts)


def _is_killed(store: Store) -> bool:
    """Whether a broker was killed: after an orderly stop a start dispatches all records from the mark on."""
    return store.abort is not None and not store.live.locked


def _has_rows(spill: Spill) -> bool:
    return any(queue.first is not None for queue in spill.queues.values())


def _bounds(store: Store, spill: Spill, known: task.Known) -> Findings:
    """The two rows of each queue against its units, and the mark against the log."""
    database = spill.database.relative
    log_start = store.commitlog.start_offset or 0
    for _, queue in sorted(spill.queues.items()):
        for name, value, reason in _bound_faults(queue, log_start):
            where = Where(database, topic=queue.topic, queue_id=queue.queue_id, queue_offset=value)
            shown = MISSING if value is None else value
            facts: Facts = {"database": database, "bound": name, "value": shown, "reason": reason}
            yield Finding(RuleName.QUEUE_BOUND, where, facts)
    end = known.end_offset
    mark = spill.dispatched
    fault: str | None = None
    if mark is None and _has_rows(spill):
        fault = "a start dispatches the whole log again"
    elif mark is not None and end is not None and known.complete and mark > end:
        fault = f"the log ends at {end}"
    elif mark is not None and mark < 0:
        fault = "the mark is negative"
    elif mark is not None and (last := _last_unit_end(spill)) > mark:
        fault = f"the queues have units of records up to {last}"
    if fault is not None:
        facts = {"database": database, "value": MISSING if mark is None else mark, "reason": fault}
        yield Finding(RuleName.DISPATCH_MARK, Where(database), facts)


def _bound_faults(queue: SpilledQueue, log_start: int) -> Iterator[tuple[str, int | None, str]]:
    """Name, value and fault of a queue's bounds."""
    if queue.greatest is None:
        if queue.first is not None:
            yield "greatest", None, "the queue has units"
        return
    greatest, other = queue.greatest, "the row says physicalOffset {}, but the unit says {}"
    if greatest.physical_offset < log_start:
        return  # all of it expired
    unit = _unit_at(queue, greatest.queue_offset)
    if unit is None:
        yield "greatest", greatest.queue_offset, "the queue has no unit at this offset"
    elif unit != greatest.physical_offset:
        yield "greatest", greatest.queue_offset, other.format(greatest.physical_offset, unit)
    least = queue.least
    if least is None or least.physical_offset < log_start:
        return  # brokers put it down late, and correct one that expired
    unit = _unit_at(queue, least.queue_offset)
    if least.queue_offset > greatest.queue_offset + 1:
        yield "least", least.queue_offset, f"the greatest queue offset is {greatest.queue_offset}"
    elif unit is not None and unit != least.physical_offset and least.physical_offset != log_start:
        yield "least", least.queue_offset, other.format(least.physical_offset, unit)
    elif queue.hidden_offset >= log_start:
        reason = f"units before this offset lead to records up to {queue.hidden_offset}"
        yield "least", least.queue_offset, reason


def _unit_at(queue: SpilledQueue, queue_offset: int) -> int | None:
    """The physical offset of the unit at a queue offset; None where the database has none."""
    last = queue.last_inside
    if queue.directory is None or last is None or not queue.start <= queue_offset <= last:
        return None
    for path in sorted(queue.directory.iterdir(), reverse=True):
        pos = queue_offset * UNIT_SIZE - int(path.name)
        if pos >= 0:
            data = read_at(path, pos, 12)
            offset, size = int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big")
            return offset if size else None
    return None


def _last_unit_end(spill: Spill) -> int:
    """Behind the record of the last unit of any queue."""
    ends = (
        queue.greatest.physical_offset + 1
        for queue in spill.queues.values()
        if queue.greatest is not None and queue.last_inside == queue.greatest.queue_offset
    )
    return max((0, *ends))


def _times(store: Store, spill: Spill) -> Findings:
    """The times of the units against the storeTimestamps of their records."""
    queues = {
        name: np.memmap(f"{queue.directory}{TIMES}", ">i8", "r")
        for name, queue in spill.queues.items()
        if queue.directory is not None and queue.row_count
    }
    bases = {name: spill.queues[name].first_place for name in queues}
    places = {(queue.topic, queue.queue_id): queue for queue in store.queues}
    left, further = TIME_LIMIT, 0
    for found in _odd_times(store, queues, bases):
        if not left:
            further += 1
        elif _leads_to(places[found[0], found[1]], found[2], found[3]):
            left -= 1
            yield _time_finding(spill.database.relative, *found)
    if further:
        yield task.aggregate(RuleName.ROW_TIME, spill.database.relative, further)


def _leads_to(queue: ConsumeQueue, index: int, offset: int) -> bool:
    """Whether the unit at an index leads to a physical offset: one of a queue that began again does not lead
    to the record that had its number before."""
    with UnitReader(queue) as reader:
        unit = reader.unit(index)
    return unit is not None and unit.physical_offset == offset


def _odd_times(
    store: Store, queues: Mapping[tuple[str, int], np.ndarray], bases: Mapping[tuple[str, int], int]
) -> Iterator[tuple[str, int, int, int, int, int]]:
    """Units whose time is not their record's: queue, queue offset, physical offset, and both times."""
    for file in store.commitlog.files:
        table = QueueTable()
        with FileReader(file.path) as reader:
            options = log_options(store, file, read_bodies=False)
            batches = scan_log_file(reader, file.start_offset or 0, options, table)
            for batch in batches:
                if isinstance(batch, RecordBatch):
                    yield from _odd_in_batch(batch, file.start_offset or 0, table, queues, bases)


def _odd_in_batch(
    batch: RecordBatch,
    base_offset: int,
    table: QueueTable,
    queues: Mapping[tuple[str, int], np.ndarray],
    bases: Mapping[tuple[str, int], int],
) -> Iterator[tuple[str, int, int, int, int, int]]:
    rows = batch["queue_index"]
    for row in np.unique(rows):
        topic, queue_id = table.names[int(row)]
        name = (topic.decode("utf-8", "surrogateescape"), queue_id)
        if name not in queues:
            continue
        times, mine = queues[name], np.flatnonzero(rows == row)
        places = batch["queue_offset"][mine] - bases[name]
        inside = (places >= 0) & (places < len(times))
        mine, places = mine[inside], places[inside]
        stored = batch["store_timestamp"][mine]
        stated = times[places].astype(np.int64)
        for at in np.flatnonzero((stated != stored) & (stated != 0)).tolist():
            place = int(places[at]) + bases[name]
            offset = base_offset + int(batch["pos"][mine[at]])
            yield (*name, place, offset, int(stated[at]), int(stored[at]))


def _time_finding(
    database: str, topic: str, queue_id: int, place: int, offset: int, stated: int, stored: int
) -> Finding:
    where = Where(database, physical_offset=offset, topic=topic, queue_id=queue_id, queue_offset=place)
    return Finding(RuleName.ROW_TIME, where, {"database": database, "value": stated}, {"value": stored})
