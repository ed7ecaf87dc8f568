"""What only several index files, or the index and the whole commit log, tell.

    records with keys and no entry      XR020, XR031, XR040   entries that met no record    XR022 to XR030
    order and fullness of the files         IX019 to IX022    index ahead of the log        XR027
    entries of none of a record's keys      XR024, XR035      (`strangeentries`)
    records without an entry for tags       XR041, XR042      (`entryjoin`)
    first times, hashSlotCounts             IX023, IX029 to IX031  (`spread`)
    how keys spread, and names' times       IX025 to IX028    (`spread`)

Reference 4.5 to 4.8, 9.4 I12, I14 to I16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.dtypes import Longs
from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.reader.configs import read_checkpoint
from rocketfsck.reader.index import BLOCK_COUNT, IndexReader
from rocketfsck.scan.spans import distinct
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import Store
from rocketfsck.store.rocks.reading import has_index_rows
from rocketfsck.verify.account import Gatherer
from rocketfsck.verify.finding import Finding, Findings, Where
from rocketfsck.verify.index.entryfeed import header_place, index_facts
from rocketfsck.verify.index.entryjoin import BEYOND, IN_DAMAGE, NOWHERE, judge_tags
from rocketfsck.verify.index.spread import check_names, check_neighbours, check_spread
from rocketfsck.verify.index.strangeentries import judge_strange
from rocketfsck.verify.log.result import Ground, LogMap
from rocketfsck.verify.store.misnamed import Misnamed
from rocketfsck.verify.tasks.task import Context, IndexFacts, Results, capped


def merge_index_files(
    context: Context,
    indexes: Results,
    logs: Results,
    gatherer: Gatherer | None = None,
    misnamed: Sequence[Misnamed] = (),
) -> Findings:
    """Findings from the results of all index and commit log tasks, both in store order.

    `gatherer` takes what entries say of messages that the log does not have any more; those in `misnamed`
    files it has.
    """
    yield from capped(_files(context, indexes), context.detail_limit)
    yield from capped(check_names(context, indexes), context.detail_limit)
    if context.level == "quick":
        return
    log_map = LogMap(context.store, logs, misnamed)
    log_end = log_map.log_end
    yield from capped(check_neighbours(context, indexes, logs), context.detail_limit)
    yield from capped(_unindexed(context, logs), context.detail_limit)
    yield from capped(_loose(context, indexes, logs, log_end), context.detail_limit)
    entries = [log.summary.entries for log in logs if log is not None]
    keyed_count = sum(item.keyed_count for item in entries)
    strange = judge_strange(context.store, [item.strange for item in entries], keyed_count)
    yield from capped(strange, context.detail_limit)
    yield from capped(judge_tags(context, logs), context.detail_limit)
    if not has_log_elsewhere(context.store):
        is_gone = not context.store.commitlog.files and not context.store.queues
        end = 0 if is_gone else log_end
        if gatherer is not None and end is not None:
            gatherer.indexed(*_offsets_from(context.store, indexes, log_map, end))
        yield from _ahead(indexes, log_end)
    yield from capped(check_spread(context, indexes), context.detail_limit)


def _files(context: Context, indexes: Results) -> Findings:
    """Empty files, files that are not full, files out of order."""
    empty: list[str] = []
    before: tuple[IndexFacts, int] | None = None
    for number, result in enumerate(indexes):
        if result is None:
            before = None
            continue
        facts, extent = index_facts(result), result.summary
        if not extent.entry_count:
            empty.append(facts.file)
            yield Finding(RuleName.INDEX_EMPTY, Where(facts.file))
            continue
        if not facts.full and number + 1 < len(indexes):
            count = {"entry_count": extent.entry_count}
            expected = {"entry_count": context.store.geometry.entry_count - 1}
            yield Finding(RuleName.INDEX_NOT_FULL, header_place(facts.file, "indexCount"), count, expected)
        if before is not None and extent.first_offset < before[1]:
            found = {"begin_offset": extent.first_offset, "previous_end_offset": before[1]}
            yield Finding(RuleName.INDEX_FILE_ORDER, header_place(facts.file, "beginPhyOffset"), found)
        before = (facts, extent.last_offset)
    if len(empty) > 1:
        yield Finding(
            RuleName.INDEX_EMPTY_MANY, Where("index"), {"file_count": len(empty), "first_file": empty[0]}
        )


@dataclass(slots=True)
class _UnindexedRun:
    """Neighbouring records without an entry; `open` if the next log file may go on with it."""

    file: str
    pos: int
    first: int
    last: int
    record_count: int
    key_count: int
    open: bool


def _in_rows(store: Store) -> bool:
    """Whether the index is in a database, or in one that cannot be read, which is said of it."""
    try:
        return has_index_rows(store)
    except StoreError:
        return True


def _unindexed(context: Context, logs: Results) -> Findings:
    store = context.store
    if not store.indexes:
        count = sum(log.summary.entries.keyed_count for log in logs if log is not None)
        if count and not store.log_only:
            evidence = _was_indexed(context)
            found: dict[str, int | str] = {"record_count": count}
            if evidence:
                yield Finding(RuleName.INDEX_GONE, Where("index"), {**found, "evidence": evidence})
            elif store.settings.flag("messageIndexEnable", True) and not _in_rows(store):
                yield Finding(RuleName.INDEX_ABSENT, Where("index"), found)
        return
    run: _UnindexedRun | None = None
    for file, log in zip(store.commitlog.files, logs, strict=True):
        entries = log.summary.entries if log is not None else None
        if run is not None and (entries is None or (entries.keyed_count and not len(entries.unindexed))):
            yield _run_finding(run)
            run = None
        if log is None or entries is None:
            continue
        for first, last, record_count, key_count in entries.unindexed.tolist():
            ends = last == entries.last_keyed
            if run is not None and run.open and first == entries.first_keyed:
                run.last, run.open = last, ends
                run.record_count += record_count
                run.key_count += key_count
                continue
            if run is not None:
                yield _run_finding(run)
            pos = first - log.summary.start_offset
            run = _UnindexedRun(file.relative, pos, first, last, record_count, key_count, ends)
    if run is not None:
        yield _run_finding(run)


def _was_indexed(context: Context) -> str:
    """What shows that a broker wrote an index that is not there any more; "" if nothing does."""
    store = context.store
    if not store.settings.flag("messageIndexEnable", True):
        return ""
    if store.settings.path is not None:
        return "broker.conf does not switch the index off"
    if "index" in store.directories:
        return "the directory index/ exists, which a broker creates for its first index file"
    timestamp = _index_timestamp(store)
    return f"the checkpoint has an indexMsgTimestamp ({timestamp})" if timestamp > 0 else ""


def _index_timestamp(store: Store) -> int:
    """indexMsgTimestamp of the checkpoint (ms), which a broker sets once an index file is full; else 0."""
    try:
        return read_checkpoint(store).index_msg_timestamp
    except StoreError:
        return 0


def _run_finding(run: _UnindexedRun) -> Finding:
    found = {"record_count": run.record_count, "key_count": run.key_count, "last_physical_offset": run.last}
    return Finding(RuleName.RECORD_UNINDEXED, Where(run.file, run.pos, physical_offset=run.first), found)


def _loose(context: Context, indexes: Results, logs: Results, log_end: int | None) -> Findings:
    """Entries that met no record, one finding an index file and cause."""
    groups: dict[tuple[int, str], list[int]] = {}
    rules = {
        BEYOND: RuleName.ENTRY_BEYOND_LOG,
        IN_DAMAGE: RuleName.ENTRY_OF_DAMAGED_RECORD,
        NOWHERE: RuleName.ENTRY_DANGLING,
    }
    for log in logs:
        if log is not None:
            for index, kind, entry, first, last, count in log.summary.entries.loose.tolist():
                # beyond the end of a file that others follow is not beyond the end of the log
                inside = kind == BEYOND and log_end is not None and last < log_end
                _gather(groups, (index, rules[IN_DAMAGE if inside else kind]), entry, first, last, count)
    for index, result in enumerate(indexes):
        if result is None:
            continue
        extent = result.summary
        if extent.beyond_count and not has_log_elsewhere(context.store):
            offset = extent.beyond_offset
            group, count = (index, RuleName.ENTRY_BEYOND_LOG), extent.beyond_count
            _gather(groups, group, extent.beyond_entry, offset, offset, count)
        if extent.missing_count:
            group = (index, RuleName.ENTRY_IN_MISSING_SEGMENT)
            _gather(groups, group, extent.missing_entry, 0, 0, extent.missing_count)
        if extent.expired_count:
            _gather(groups, (index, RuleName.ENTRIES_EXPIRED), 1, 0, 0, extent.expired_count)
    for (index, rule), (entry, first, last, count) in sorted(groups.items()):
        facts: dict[str, int | None] = {"entry_count": count}
        if rule in (RuleName.ENTRY_BEYOND_LOG, RuleName.ENTRY_DANGLING, RuleName.ENTRY_OF_DAMAGED_RECORD):
            facts |= {"first_physical_offset": first, "last_physical_offset": last}
        if rule == RuleName.ENTRY_BEYOND_LOG:
            facts["log_end_offset"] = log_end
        start = entry_pos(entry, context.store.geometry.slot_count)
        yield Finding(rule, Where(context.store.indexes[index].relative, start, entry=entry), facts)


def _gather(
    groups: dict[tuple[int, str], list[int]],
    key: tuple[int, str],
    entry: int,
    first: int,
    last: int,
    count: int,
) -> None:
    known = groups.setdefault(key, [entry, first, last, 0])
    known[0], known[1], known[2] = min(known[0], entry), min(known[1], first), max(known[2], last)
    known[3] += count


def _ahead(indexes: Results, log_end: int | None) -> Findings:
    """The newest file decides what a broker treats as indexed already (a record at its very end is not)."""
    newest = next((item for item in reversed(indexes) if item is not None and item.summary.entry_count), None)
    if newest is None or log_end is None:
        return
    facts = index_facts(newest)
    if facts.end_physical_offset > log_end:
        found = {"end_offset": facts.end_physical_offset, "log_end_offset": log_end}
        yield Finding(RuleName.INDEX_AHEAD_OF_LOG, header_place(facts.file, "endPhyOffset"), found)


def _offsets_from(store: Store, indexes: Results, log_map: LogMap, log_end: int) -> tuple[int, int, int]:
    """How many physical offsets from `log_end` on the last entries of the index name, first and last of them:
    those that no file has, whatever its name.

    Only entries at the end of a file, in the order of the log, are evidence of messages: others were damaged.
    """
    count, low, high = 0, 0, 0
    for file, result in zip(store.indexes, indexes, strict=True):
        if result is None or result.summary.last_offset < log_end:
            continue
        with IndexReader(file, store.geometry) as reader:
            tail = _tail_from(reader, result.summary.entry_count, log_end)
        tail = tail[log_map.grounds(tail) != Ground.MISNAMED]
        if len(tail) and bool(np.all(tail[1:] >= tail[:-1])) and int(tail[0]) >= high:
            count += len(distinct(tail))
            low, high = low or int(tail[0]), int(tail[-1])
    return count, low, high


def _tail_from(reader: IndexReader, used: int, log_end: int) -> Longs:
    """The physical offsets of the last entries of a file, as long as they are at or beyond `log_end`."""
    found: list[Longs] = []
    end = used + 1
    while end > 1:
        start = max(end - BLOCK_COUNT, 1)
        offsets = reader.entries(start, end - start)["phyOffset"].astype(np.int64)
        below = np.flatnonzero(offsets < log_end)
        found.insert(0, offsets[below[-1] + 1 :] if len(below) else offsets)
        if len(below):
            break
        end = start
    return np.concatenate(found) if found else np.zeros(0, np.int64)
