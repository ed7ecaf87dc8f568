"""Checks of the store as a whole: what is there, what is missing, what does not belong, who works in it.

Reference 1.1, 1.3, 1.4, 9.1 (L5, L6, L8-L11); fault classes C6-C9, Q8-Q10, K4, O1. Segment directories are in
`segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of, fill_numbers
from rocketfsck.formats.dialect import Dialect, dialect_of
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.reader.index import readable_headers
from rocketfsck.store import elsewhere
from rocketfsck.store.circumstances import LockState
from rocketfsck.store.model import IndexFile, Store, Stray, StrayReason
from rocketfsck.verify.finding import Facts, Finding, Findings, Where, queue_place
from rocketfsck.verify.report import Items
from rocketfsck.verify.store import segments
from rocketfsck.verify.tasks.task import Context, Known
from rocketfsck.verify.watched import AREAS

QUEUE_AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext")
COPY_DELAY_MS = 3_600_000
"""A file that was modified so long after its last record was stored was not modified by an append."""


def check_layout(context: Context, known: Known) -> Items:
    """Everything that names, lengths and presence tell."""
    store = context.store
    yield from _check_repair(store)
    yield from _check_presence(store)
    yield from _check_log_places(store)
    yield from segments.check_segments(context, known)
    yield from _check_ranges(store, known)
    yield from _check_queue_kinds(store)
    yield from _check_index_directory(store)
    yield from _check_databases(store)
    yield from _check_opened(store)
    yield from _check_strays(store)
    yield from _check_live(store)
    yield from _check_times(store, known)


def _check_repair(store: Store) -> Findings:
    if store.repair is not None:
        rule = RuleName.REPAIR_INTERRUPTED if store.repair.is_mixed else RuleName.REPAIR_UNFINISHED
        yield Finding(rule, Where(), {"directory": store.repair.directory})


_QUEUES_LEFT = "{count?is|are} {count:consume queue} with {size:byte}"
_INDEX_EFFECT = "begins a new log, and indexes nothing until the log has grown past these entries"


def _check_presence(store: Store) -> Findings:
    if store.commitlog.files or elsewhere.has_log_elsewhere(store):
        return
    queues = [queue for queue in store.queues if queue.files]
    if queues:
        size = sum(queue.mapped_files.size for queue in queues)
        found: Facts = {
            "queue_count": len(queues),
            "unit_size": size,
            "evidence": fill_numbers(_QUEUES_LEFT, count=len(queues), size=size),
            "effect": segments.by_version(
                store.dialect_evidence, partial(_empty_log_effect, store.abort is None)
            ),
        }
        yield Finding(RuleName.COMMITLOG_MISSING, Where("commitlog"), found)
    elif count := sum(max(header.index_count - 1, 0) for _, header in readable_headers(store.indexes)):
        evidence = f"{'is' if count == 1 else 'are'} {count_of(count, 'index entry', 'index entries')}"
        found = {"entry_count": count, "evidence": f"{evidence} without a queue", "effect": _INDEX_EFFECT}
        yield Finding(RuleName.COMMITLOG_MISSING, Where("commitlog"), found)
    elif not (store.indexes or store.checkpoint or store.others or store.configs):
        yield Finding(RuleName.NOT_A_STORE, Where(), {"root": str(store.root)})


def _check_log_places(store: Store) -> Findings:
    places = store.log_places
    if places.inferred:
        named = ", ".join(directory.name for directory in places.directories)
        yield Finding(RuleName.LOG_PLACES_INFERRED, Where(), {"directories": named})
    for name, reason in places.doubtful:
        yield Finding(RuleName.LOG_PLACE_DOUBTFUL, Where(name), {"reason": reason})


def _empty_log_effect(clean: bool, dialect: Dialect) -> str:
    """Reference 6.3, 6.4: what becomes of the queues when there is no commit log."""
    if clean and dialect.empty_log_destroys_queues == "abnormal":
        return "keeps the queues, although no message is left"
    return "deletes all these queues at its start"


def _check_ranges(store: Store, known: Known) -> Findings:
    """A commit log to which no queue refers belongs to other queues."""
    start, end = store.commitlog.start_offset, known.end_offset
    if not known.complete or start is None or end is None:
        return
    ends = [queue.max_physical_end for queue in known.queues.values() if queue.max_physical_end > 0]
    far = end + store.commitlog.file_size
    if ends and (min(ends) > far or max(ends) <= start):
        found = {
            "start_offset": start,
            "end_offset": end,
            "min_physical_end_offset": min(ends),
            "max_physical_end_offset": max(ends),
        }
        yield Finding(RuleName.QUEUES_OF_ANOTHER_LOG, Where("consumequeue"), found)


def _check_queue_kinds(store: Store) -> Findings:
    kinds: dict[str, set[str]] = {}
    for queue in store.queues:
        kinds.setdefault(queue.topic, set()).add(queue.kind)
        if queue.queue_id < 0:
            yield Finding(RuleName.QUEUE_ID_NAME, queue_place(queue.topic, queue.queue_id, queue.kind))
    for topic, both in sorted(kinds.items()):
        if len(both) > 1:
            yield Finding(RuleName.QUEUE_KIND_TWICE, Where("batchconsumequeue", topic=topic))
    for ext in store.ext_queues:
        if ext.orphan:
            directory = f"consumequeue_ext/{ext.topic}/{ext.queue_id}"
            found = {"file_count": len(ext.files), "size": ext.mapped_files.size}
            where = Where(directory, topic=ext.topic, queue_id=ext.queue_id)
            yield Finding(RuleName.QUEUE_EXTENSION_ORPHAN, where, found)


def _check_index_directory(store: Store) -> Findings:
    """Names in `index/`: what is loaded, ignored, or in the way."""
    for index in store.indexes:
        if index.created is None:
            yield Finding(RuleName.INDEX_NAME, _whole(index), {"size": index.size})
    for stray in store.strays:
        if stray.area != "index":
            continue
        mapped = stray.reason in (StrayReason.DIRECTORY, StrayReason.SPECIAL)
        if mapped and java_parse_long(stray.path.name) is not None:
            hidden = sum(1 for index in store.indexes if index.relative > stray.relative)
            effect = segments.by_version(store.dialect_evidence, partial(_index_effect, hidden))
            yield Finding(
                RuleName.INDEX_DIRECTORY, Where(stray.relative), {"effect": effect, "hidden_count": hidden}
            )
        elif mapped or stray.reason in (StrayReason.NAME, StrayReason.TEMPORARY, StrayReason.DELETED):
            yield Finding(RuleName.INDEX_FOREIGN_FILE, Where(stray.relative), {"size": stray.size})


def _index_effect(hidden_count: int, dialect: Dialect) -> str:
    if dialect.index_load_fatal:
        return "refuses to start"
    return fill_numbers("does not load {n:index file} that {n?sorts|sort} after it", n=hidden_count)


def _whole(index: IndexFile) -> Where:
    return Where(index.relative, 0, index.size)


def _check_databases(store: Store) -> Findings:
    """Databases that hold queues, or that no known version makes: what is in them is not known here."""
    if elsewhere.writes_more_entries(store):
        yield Finding(RuleName.NEWER_INDEX, Where(elsewhere.TAG_STORE), {AREAS: "index"})
    for other, known in elsewhere.databases(store):
        areas = QUEUE_AREAS if known else (*QUEUE_AREAS, "index")
        size = sum(file.size for file in other.files)
        found: Facts = {"file_count": len(other.files), "size": size, AREAS: " ".join(areas)}
        rule = RuleName.QUEUE_DATABASE if known else RuleName.UNKNOWN_DATABASE
        yield Finding(rule, Where(other.relative), found)


def _check_opened(store: Store) -> Findings:
    """Directories where a broker opens files, and the reverse, with what each version does."""
    places = dict(elsewhere.opened_wrongly(store, store.dialect))
    for version in store.dialect_evidence.versions:
        places.update(elsewhere.opened_wrongly(store, dialect_of(version)))
    for relative, is_directory in sorted(places.items()):
        is_there, is_needed = ("directory", "file") if is_directory else ("file", "directory")
        effect = segments.by_version(store.dialect_evidence, partial(_opening_effect, store, relative))
        found = {"kind": is_there, "effect": effect}
        yield Finding(RuleName.OPENED_WRONGLY, Where(relative), found, {"kind": is_needed})


def _opening_effect(store: Store, relative: str, dialect: Dialect) -> str:
    return "does not start" if relative in dict(elsewhere.opened_wrongly(store, dialect)) else "starts"


def _check_strays(store: Store) -> Findings:
    """What is left of the strays: those that no other check has reported."""
    if not store.strays:
        return
    directories = segments.loaded_directories(store)
    said = {*segments.compacted_strays(store), *dict(elsewhere.opened_wrongly(store, store.dialect))}
    for stray in store.strays:
        if segments.is_among_segments(stray, directories) or stray.relative in said:
            continue
        if stray.reason is StrayReason.DANGLING:
            yield Finding(RuleName.LINK_DANGLING, Where(stray.relative), {"detail": stray.detail})
        elif stray.reason is StrayReason.QUEUE_ID and stray.area in QUEUE_AREAS:
            yield Finding(RuleName.QUEUE_ID_NAME, Where(stray.relative))
        elif _is_unexplained(stray):
            reason = stray.detail or str(stray.reason)
            found: Facts = {"reason": reason, "size": stray.size, "area": stray.area}
            yield Finding(RuleName.STRAY, Where(stray.relative), found)


def _is_unexplained(stray: Stray) -> bool:
    if stray.area == "index":
        return stray.reason is StrayReason.MORE
    if stray.area == "config" and stray.reason is StrayReason.TEMPORARY:
        return False
    return stray.reason is not StrayReason.UNREADABLE


def _check_live(store: Store) -> Findings:
    if store.live.state is LockState.HELD:
        yield Finding(
            RuleName.BROKER_ALIVE, Where("lock"), {"how": store.live.how, "pid": store.live.holder_pid}
        )
    elif store.live.state is LockState.UNKNOWN:
        yield Finding(RuleName.BROKER_UNKNOWN, Where("lock"), {"how": store.live.how})


def _check_times(store: Store, known: Known) -> Findings:
    """Modification times that say when the store was copied, not when it was written."""
    files = store.commitlog.files
    newest = known.max_store_timestamp
    if len(files) < 2 or newest is None:
        return
    seconds: Sequence[int] = sorted(file.mtime_ns // 1_000_000_000 for file in files)
    if seconds[-1] - seconds[0] <= 1 and seconds[0] * 1000 > newest + COPY_DELAY_MS:
        modified = seconds[0] * 1000
        found = {"file_count": len(files), "modified_timestamp": modified, "newest_timestamp": newest}
        yield Finding(RuleName.TIMES_LOST, Where("commitlog"), found)
