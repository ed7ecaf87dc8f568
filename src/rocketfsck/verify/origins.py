"""Which copy of a store its parts come from: files that are older than the others, or of another store.

    queues end together before the log       XR045   copied earlier than the log
    log ends before the time of a flush      XR046   copied earlier than the rest, or writes of it were lost
    file of the log ends, the log continues  XR047   copied while it was filled
    records of a file, and other units       XR048   the file is another store's
    no unit, no entry leads to a record      XR049, XR050, XR051   index, queues or log are another store's

People restore one directory of a backup, copy a store while a broker writes to it, and mix files of two
brokers. What is damaged by that has findings of its own; these say what happened. Reference 6.4, 6.6, 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.reader.configs import read_checkpoint
from rocketfsck.reader.records import LogReader
from rocketfsck.reader.units import UnitReader
from rocketfsck.store.elsewhere import has_log_elsewhere, has_queues_elsewhere
from rocketfsck.store.model import Store
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import index_facts
from rocketfsck.verify.log.result import FILLER, RECORDS, ZERO
from rocketfsck.verify.queues.unitranges import Missing
from rocketfsck.verify.tasks.task import Context, Known, LogFacts, Results, TaskResult

GAP_MS = 10_000
"""Times that differ by less may be those of one moment: a power cut takes some seconds."""
LEAST_COUNT = 10
"""Records, units or entries from which on agreement is more than chance."""
FEW, MANY = 0.05, 0.9
"""Parts of one store agree in more than MANY of the places, parts of two stores in less than FEW."""
LOOKS = 4096
"""Units that are read of a queue to see where they lead."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the records of one commit log file agree with the queues and with the index.

    `met_count` records have their unit, `other_count` another one in its place, `further_count` none. Of
    `keyed_count` records with keys `indexed_count` have an entry.
    """

    met_count: int
    other_count: int
    further_count: int
    keyed_count: int
    indexed_count: int

    @property
    def record_count(self) -> int:
        """All records that want a unit."""
        return self.met_count + self.other_count + self.further_count

    @property
    def is_of_other_queues(self) -> bool:
        """Whether nearly no record has its unit, and units that are there are others'."""
        total = self.record_count
        enough = self.other_count >= max(LEAST_COUNT, total * FEW)
        return enough and self.met_count <= total * FEW

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(*(getattr(self, name) + getattr(other, name) for name in Agreement.__slots__))


def agreement_of(log: TaskResult) -> Agreement:
    """The agreement of a file, from what its check found (`LogSummary`)."""
    units, entries = log.summary.units, log.summary.entries
    missed = units.missed
    other = missed[:, 6] == Missing.OTHER
    unindexed = int(entries.unindexed[:, 2].sum())
    return Agreement(
        int((units.matched[:, 2] - units.matched[:, 1]).sum()),
        int(missed[other, 5].sum()),
        int(missed[~other, 5].sum()),
        entries.keyed_count,
        entries.keyed_count - unindexed,
    )


_NONE = Agreement(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Parts:
    """How far the log agrees with the queues and with the index.

    `by_file` is in the order of the log's files, empty where not all of them are known; `total` is the sum.
    The index has `entry_count` entries. `foreign` are the files of the log that are another store's.
    """

    by_file: tuple[Agreement, ...] = ()
    total: Agreement = _NONE
    entry_count: int = 0
    foreign: frozenset[str] = frozenset()

    @property
    def is_unknown_to_index(self) -> bool:
        """Whether there is an index, and nearly no record with keys is in it."""
        total = self.total
        enough = total.keyed_count >= LEAST_COUNT and self.entry_count >= total.keyed_count / 2
        return enough and total.indexed_count <= total.keyed_count * FEW

    @property
    def is_foreign_log(self) -> bool:
        """Whether neither queues nor index know the log."""
        return self.total.is_of_other_queues and self.is_unknown_to_index


def compare_parts(context: Context, logs: Results, indexes: Results) -> Parts:
    """How far the parts agree, from the results of all commit log and index tasks in store order.

    All files of the log are foreign where neither queues nor index know it. Where the queues alone do not
    know it, nothing tells which part is the strange one, and no file is.
    """
    files = context.store.commitlog.files
    known = [log for log in logs if log is not None]
    if context.level == "quick" or len(known) < len(files):
        return Parts()
    by_file = tuple(map(agreement_of, known))
    entry_count = sum(index.summary.entry_count for index in indexes if index is not None)
    parts = Parts(by_file, sum(by_file, _NONE), entry_count)
    if parts.is_foreign_log:
        return replace(parts, foreign=frozenset(file.relative for file in files))
    if sum(found.met_count for found in by_file if not found.is_of_other_queues) < LEAST_COUNT:
        return parts
    foreign = frozenset(
        file.relative
        for file, log, found in zip(files, known, by_file, strict=True)
        if found.is_of_other_queues and _leads_into(context.store, log)
    )
    return replace(parts, foreign=foreign)


def _leads_into(store: Store, log: TaskResult) -> bool:
    """Whether units of several queues, in the places of a file's records, lead into that very file."""
    units, start = log.summary.units, log.summary.start_offset
    rows = units.missed[units.missed[:, 6] == Missing.OTHER]
    led = seen = 0
    for row in np.unique(rows[:, 0]).tolist():
        number = int(units.numbers[row])
        if number < 0:
            continue
        places = rows[rows[:, 0] == row]
        low, high = int(places[:, 1].min()), int(places[:, 2].max())
        try:
            with UnitReader(store.queues[number]) as reader:
                offsets = reader.units(low, min(high + 1 - low, LOOKS))["offset"].astype(np.int64)
        except StoreError:
            continue  # the task of that queue says so
        seen += 1
        inside = np.count_nonzero((offsets >= start) & (offsets < start + log.summary.size))
        led += int(inside * 2 > len(offsets))
    return led >= 2 and led * 2 > seen


def check_origins(context: Context, known: Known, logs: Results, indexes: Results, parts: Parts) -> Findings:
    """What the parts say of each other's age and origin. Nothing without the whole log and all queues."""
    store = context.store
    if not parts.by_file or not known.complete or not known.queues:
        return
    if has_queues_elsewhere(store) or has_log_elsewhere(store):
        return
    whole = [log for log in logs if log is not None]
    yield from _foreign_parts(store, parts)
    facts = [fact for log in whole for fact in log.facts if isinstance(fact, LogFacts)]
    if parts.foreign or parts.total.is_of_other_queues or known.max_store_timestamp is None:
        return
    yield from _older_files(facts)
    flushed = _flushed_timestamps(context)
    ends = [index_facts(index).end_timestamp for index in indexes if index is not None]
    yield from _older_log(store, known, flushed, max(ends, default=0))
    yield from _older_queues(store, known, whole, flushed)


def _foreign_parts(store: Store, parts: Parts) -> Findings:
    """Files of the log, the whole log, the queues or the index: what agrees with nothing in the others."""
    total = parts.total
    found = {"record_count": total.record_count, "met_count": total.met_count}
    if parts.is_foreign_log:
        yield Finding(RuleName.LOG_FOREIGN, Where("commitlog"), found)
        return
    for file, agreement in zip(store.commitlog.files, parts.by_file, strict=True):
        if file.relative in parts.foreign:
            where = Where(file.relative, 0, physical_offset=file.start_offset)
            counts = {"record_count": agreement.record_count, "met_count": agreement.met_count}
            yield Finding(RuleName.LOG_FILE_FOREIGN, where, counts)
    if total.is_of_other_queues:
        yield Finding(RuleName.QUEUES_FOREIGN, Where("consumequeue"), found)
    elif parts.is_unknown_to_index and total.met_count >= total.record_count * MANY:
        found = {"record_count": total.keyed_count, "met_count": total.indexed_count}
        yield Finding(RuleName.INDEX_FOREIGN, Where("index"), found)


def _older_files(logs: Sequence[LogFacts]) -> Findings:
    """Files that end with zeros, without a BLANK and without damage, although later files have later records.

    One that begins earlier does not continue the log: it has the place of another.
    """
    last = max((number for number, log in enumerate(logs) if log.record_count), default=0)
    newest: int | None = None
    for number, log in enumerate(logs[:last]):
        later = next((item for item in logs[number + 1 :] if item.first_store_timestamp is not None), None)
        newest = log.last_store_timestamp or newest
        if later is None or newest is None or not _is_open(log):
            continue
        begins = later.first_store_timestamp or 0
        if begins >= newest:
            where = Where(log.file, log.end_offset - log.start_offset, physical_offset=log.end_offset)
            found: Facts = {"end_timestamp": newest, "next_timestamp": begins, "next_file": later.file}
            yield Finding(RuleName.LOG_FILE_OLDER, where, found)


def _is_open(log: LogFacts) -> bool:
    """Whether zeros follow the whole records of a file, and nothing else."""
    kinds = {region.kind for region in log.regions}
    return ZERO in kinds and kinds <= {RECORDS, FILLER, ZERO} and not log.damaged


def _older_log(store: Store, known: Known, flushed: tuple[int, int], indexed: int) -> Findings:
    """The log, where queues lead beyond its end and something else was flushed later than its last record.

    Zeros follow the last record: where it is torn, a power cut took more. An index file proves nothing after
    an unclean stop, because its pages may be on the disk before those of the log.
    """
    end, newest = known.end_offset, known.max_store_timestamp
    if end is None or newest is None or known.logs[-1] is None:
        return
    beyond = max(queue.max_physical_end for queue in known.queues.values())
    later = max(*flushed, indexed if store.abort is None else 0)
    last = next(log for log in reversed(known.logs) if log is not None and log.record_count)
    if beyond > end and later >= newest + GAP_MS and _is_open(last):
        found = {"end_timestamp": newest, "later_timestamp": later, "behind_duration": later - newest}
        yield Finding(RuleName.LOG_OLDER, Where(last.file, physical_offset=end), found)


def _older_queues(
    store: Store, known: Known, logs: Sequence[TaskResult], flushed: tuple[int, int]
) -> Findings:
    """The queues, where each has all of its units up to one place of the log, and several have none after it.

    Queues that are not there at all do not count: their topics may have been deleted. After an unclean stop
    queues may end a little earlier than the log; not before what was flushed of them.
    """
    missed = [log.summary.units.missed for log in logs]
    rows: Longs = np.concatenate(missed) if missed else np.zeros((0, 7), np.int64)
    end = max(queue.max_physical_end for queue in known.queues.values())
    if not len(rows) or end < 0 or int(rows[:, 3].min()) < end:
        return
    numbers = {
        number
        for log in logs
        for number in log.summary.units.numbers[np.unique(log.summary.units.missed[:, 0])].tolist()
    } - {-1}
    newest = known.max_store_timestamp
    with LogReader(store.commitlog) as reader:
        unit = _last_unit(store, known, end)
        last = None if unit is None else reader.head(unit)
        first = reader.head(int(rows[:, 3].min()))
    if newest is None or last is None or first is None or len(numbers) < 2:
        return
    if store.abort is not None and flushed[1] < first.store_timestamp:
        return
    if newest >= last.store_timestamp + GAP_MS:
        found = {
            "record_count": int(rows[:, 5].sum()),
            "queue_count": len(numbers),
            "end_timestamp": last.store_timestamp,
            "log_timestamp": newest,
            "behind_duration": newest - last.store_timestamp,
        }
        yield Finding(RuleName.QUEUES_OLDER, Where("consumequeue", physical_offset=end), found)


def _last_unit(store: Store, known: Known, end: int) -> int | None:
    """The physical offset of the record that the last unit of all leads to, which ends at `end`."""
    for queue in store.queues:
        facts = known.queues.get((queue.topic, queue.queue_id))
        if facts is None or facts.max_physical_end != end or queue.kind != "file":
            continue
        with UnitReader(queue) as reader:
            unit = reader.unit(facts.max_offset - 1)
        if unit is not None and unit.is_used and unit.physical_offset + unit.size == end:
            return unit.physical_offset
    return None


def _flushed_timestamps(context: Context) -> tuple[int, int]:
    """Up to which storeTimestamps (ms) the checkpoint says that the log and the queues were flushed.

    0 for what it cannot know: a time to come is damage.
    """
    try:
        found = read_checkpoint(context.store)
    except StoreError:
        return 0, 0
    times = (found.physic_msg_timestamp, found.logics_msg_timestamp)
    physic, logics = (time if time <= context.now_timestamp else 0 for time in times)
    return physic, logics
