"""What damage at any place must cause, derived from what was there: the promises of the generic faults.

Every byte of a store belongs to a field; the field says which rule sees a change of it, if any does. Many
bytes nothing can see: a producer's flag, the address of a host, a timestamp that stays plausible, what is
after a BLANK. Then nothing is promised, and the reason is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError
from rocketfsck.formats import checkpoint, config, consumequeue, indexfile, timer
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE
from rocketfsck.scan.columns import Trait
from rocketfsck.scan.spans import distinct
from rocketfsck.writer.damage.editing import field_span
from rocketfsck.writer.damage.job import Job
from rocketfsck.writer.damage.model import LINKS, SLOTS, PromisedPlace
from rocketfsck.writer.damage.scenes import IndexScene, LogRecord, LogScene, QueueScene

PROMISE_LIMIT = 64
"""Promises that one act makes of one area; the hashes show what else was hit."""

STRUCTURE = ("totalSize", "magicCode", "bodyLength", "topicLength", "propertiesLength")
BROKEN = (RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL, RuleName.RECORD_MALFORMED)
LOST_RECORD = (
    *BROKEN, RuleName.RECORD_NEGATIVE_FIELD, RuleName.BLANK_TOO_EARLY, RuleName.BYTES_BEHIND_END,
    RuleName.LOG_NO_RECORDS,
)  # fmt: skip
TAIL = (*BROKEN, RuleName.STALE_TAIL, RuleName.BYTES_BEHIND_END, RuleName.LOG_NO_RECORDS)
BLANK = (
    *BROKEN, RuleName.BLANK_SIZE, RuleName.BLANK_MISSING, RuleName.BLANK_TOO_EARLY, RuleName.BYTES_BEHIND_END,
    RuleName.LOG_NO_RECORDS,
)  # fmt: skip
BEHIND_UNITS = (
    RuleName.UNIT_ORDER, RuleName.PRE_BLANK_MISPLACED, RuleName.UNIT_STALE, RuleName.UNIT_INVALID,
    RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_GHOST,
)  # fmt: skip
BATCH_UNIT = (
    RuleName.UNIT_HOLE, RuleName.UNIT_ORDER, RuleName.UNIT_INVALID, RuleName.BATCH_UNIT_BASE,
    RuleName.BATCH_UNIT_RESERVED, RuleName.RECORD_WITHOUT_UNIT, RuleName.UNIT_BEYOND_LOG, RuleName.UNIT_GHOST,
    RuleName.UNIT_SIZE, RuleName.UNIT_TAGS_CODE, RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.BATCH_UNIT_CONTENT,
)  # fmt: skip
TAGS_CODE = (RuleName.UNIT_TAGS_CODE, RuleName.EXT_UNIT_CONTENT, RuleName.EXT_ADDRESS_DANGLING)
CONFIG_TEXT = (RuleName.CONFIG_LOST, RuleName.CONFIG_FALLS_BACK, RuleName.CONFIG_TRAILING_BYTES)
INDEX_COUNT = (
    RuleName.INDEX_LENGTH, RuleName.INDEX_HEADER_COUNT, *SLOTS, RuleName.INDEX_ENTRY_ORPHAN,
    RuleName.INDEX_ENTRY_BEHIND_COUNT, RuleName.INDEX_EMPTY,
)  # fmt: skip
KEY_HASH = (*LINKS, *SLOTS, RuleName.INDEX_ENTRY_ORPHAN, RuleName.INDEX_ENTRY_HASH, RuleName.ENTRY_KEY)
ENTRY_OFFSET = (
    RuleName.INDEX_HEADER_RANGE, RuleName.INDEX_ENTRY_ORDER, RuleName.INDEX_FILE_ORDER,
    RuleName.ENTRY_BEYOND_LOG, RuleName.ENTRY_DANGLING, RuleName.ENTRY_KEY, RuleName.ENTRIES_EXPIRED,
    RuleName.ENTRY_OF_DAMAGED_RECORD, RuleName.ENTRY_IN_MISSING_SEGMENT,
)  # fmt: skip
"""Rules of which one sees that this is others than it was; which one depends on what the bytes became."""

_BACKUP = ".bak"
TIME_TOLERANCE = 5
"""Seconds of an entry's timeDiff that may be rounding, or a clock."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Bytes of a file that are others now."""

    start: int
    before: bytes
    after: bytes

    def runs(self) -> list[tuple[int, int]]:
        """Half-open file positions of the bytes that differ."""
        old, new = (np.frombuffer(data, np.uint8) for data in (self.before, self.after))
        edges = np.flatnonzero(np.diff(np.concatenate(([0], (old != new).view(np.int8), [0]))))
        starts, ends = edges[0::2].tolist(), edges[1::2].tolist()
        return [(self.start + low, self.start + high) for low, high in zip(starts, ends, strict=True)]


def _changed(hits: Iterable[Hit]) -> list[tuple[int, int]]:
    return sorted(run for hit in hits for run in hit.runs())


def _overlaps(runs: Sequence[tuple[int, int]], start: int, end: int) -> bool:
    return any(low < end and start < high for low, high in runs)


def derive_log(job: Job, log: LogScene, hits: Sequence[Hit]) -> str:
    """Promises for hits on a commit log file; gives why nothing is promised, "" if something is."""
    runs = _changed(hits)
    if len(log) and not any(job.editor.read(log.file.relative, 0, log.live_end)):
        return _derive_empty_file(job, log)
    positions, sizes = log.column("pos"), log.column("total_size")
    ends = positions + sizes
    touched: list[int] = []
    for low, high in runs:
        touched += range(
            int(np.searchsorted(ends, low, "right")), int(np.searchsorted(positions, high, "left"))
        )
    numbers = list(dict.fromkeys(touched))[:PROMISE_LIMIT]
    reasons = [_derive_record(job, log, log.record(number), runs) for number in numbers]
    if log.blank_pos is not None and _overlaps(runs, log.blank_pos, log.blank_pos + 8):
        job.promise(PromisedPlace(log.file.relative, log.blank_pos, log.size), *BLANK, touches=True)
    behind = [(max(low, log.live_end), high) for low, high in runs if high > log.live_end]
    if behind and log.blank_pos is not None:
        reasons.append("bytes after a BLANK have no meaning")
    elif behind:
        place = PromisedPlace(log.file.relative, behind[0][0], behind[-1][1])
        job.promise(place, *TAIL, touches=True)
    return _why(job, reasons)


def _promised(job: Job, place: PromisedPlace, *rules: RuleName, touches: bool = False) -> str:
    """Promise it: then there is no reason why nothing is."""
    job.promise(place, *rules, touches=touches)
    return ""


def _why(job: Job, reasons: Sequence[str]) -> str:
    return "" if job.promises else "; ".join(dict.fromkeys(reason for reason in reasons if reason))


def _is_torn(properties: bytes) -> bool:
    """Whether zeros reach the end of the properties, or there are many: any other NUL may be a value's."""
    return properties.endswith(b"\0") or bytes(8) in properties


def _derive_record(job: Job, log: LogScene, record: LogRecord, runs: Sequence[tuple[int, int]]) -> str:
    spans = record.spans()
    hit = {name for name, (start, end) in spans.items() if _overlaps(runs, start, end)}
    place = job.record_place(record)
    if hit & set(STRUCTURE):
        rest = job.editor.read(record.file.relative, record.pos, log.live_end)
        if not any(rest) and log.blank_pos is None:
            return _derive_lost_end(job, record)
        start = record.pos
        if start and not job.editor.read(record.file.relative, start, start + 8).strip(b"\0"):
            start = max(start - 3, 0)
        return _promised(job, PromisedPlace(place.file, start, record.end), *LOST_RECORD, touches=True)
    if record.traits & Trait.PROPERTY_CRC and _overlaps(runs, record.pos, record.end - PROPERTY_CRC_SIZE):
        job.promise(place, RuleName.RECORD_PROPERTY_CRC, RuleName.RECORD_PROPERTIES_NUL, touches=True)
    if hit & {"body", "bodyCRC"} and record.body_size > 0:
        return _promised(job, place, RuleName.RECORD_BODY_CRC, touches=True)
    if "physicalOffset" in hit:
        return _promised(job, place, RuleName.RECORD_PHYSICAL_OFFSET, touches=True)
    if "topic" in hit:
        unit = job.unit_of(record)
        if unit is not None:
            own = PromisedPlace(unit.file.relative, unit.start, unit.end)
            return _promised(job, own, RuleName.UNIT_GHOST, touches=True)
    if "properties" in hit and _is_torn(job.editor.read(record.file.relative, *spans["properties"])):
        return _promised(job, place, RuleName.RECORD_PROPERTIES_NUL, touches=True)
    for name in ("bornHost", "storeHost"):
        port = spans[name][1] - 4
        if name in hit and any(job.editor.read(record.file.relative, port, port + 2)):
            return _promised(job, place, RuleName.RECORD_HOST_PORT, touches=True)
    return f"no rule can detect every change of {', '.join(sorted(hit))}"


def _derive_empty_file(job: Job, log: LogScene) -> str:
    """Nothing is left of a file."""
    start = log.file.start_offset or 0
    if any(len(job.log(file)) for file in job.log_files if (file.start_offset or 0) > start):
        return _promised(
            job, PromisedPlace(log.file.relative, 0, log.size, start), RuleName.SEGMENT_ZERO_INSIDE
        )
    return _derive_lost_end(job, log.record(0))


def _derive_lost_end(job: Job, record: LogRecord) -> str:
    """Nothing is left of the log from this record on: only what refers to it can tell."""
    unit = job.unit_of(record)
    if unit is None:
        return "the end of the log is zeros, and units point elsewhere"
    return _promised(
        job, PromisedPlace(topic=unit.queue.topic, queue_id=unit.queue.queue_id), RuleName.UNIT_BEYOND_LOG
    )


def derive_queue(job: Job, scene: QueueScene, file: str, hits: Sequence[Hit]) -> str:
    """Promises for hits on a consume queue file."""
    runs = _changed(hits)
    size = scene.queue.unit_size
    start = next(item.start_offset or 0 for item in scene.files if item.relative == file)
    touched = _touched(runs, -start, size)
    reasons: list[str] = []
    before = -2
    for index in touched[:PROMISE_LIMIT]:
        neighbour, before = index == before + 1, index
        if index >= scene.file_end_index:
            continue
        unit = scene.unit(index)
        place = PromisedPlace(unit.file.relative, unit.start, unit.end)
        if index >= scene.end_index:
            if not neighbour:
                job.promise(place, *BEHIND_UNITS, touches=True)
            continue
        record = job.record_at(unit.offset)
        own = job.unit_of(record) if record is not None else None
        if own is None or own.index != index:
            reasons.append("the record of the unit is not in the log")
            continue
        if neighbour:
            continue  # findings on neighbours are reported at the first of them
        low, high = unit.start, unit.start + consumequeue.UNIT.offset("tagsCode")
        if scene.queue.kind == "batch":
            job.promise(PromisedPlace(topic=scene.queue.topic, queue_id=scene.queue.queue_id), *BATCH_UNIT)
        elif _overlaps(runs, low, low + 8):
            job.promise(place, RuleName.RECORD_WITHOUT_UNIT, RuleName.UNIT_SHIFTED, touches=True)
        elif _overlaps(runs, low + 8, high):
            job.promise(place, RuleName.UNIT_SIZE, RuleName.RECORD_WITHOUT_UNIT, touches=True)
        elif scene.queue.topic != timer.SCHEDULE_TOPIC:
            job.promise(place, *TAGS_CODE, touches=True)
        else:
            reasons.append("a check compares a delivery time only with those of the other units")
    return _why(job, reasons)


def derive_index(job: Job, index: IndexScene, hits: Sequence[Hit]) -> str:
    """Promises for hits on an index file."""
    if not index.sound or not index.used:
        return "the index file was not sound before, or is empty"
    runs = _changed(hits)
    place = PromisedPlace(index.file.relative)
    if _overlaps(runs, *field_span(0, indexfile.HEADER, "indexCount")):
        return _promised(job, place, *INDEX_COUNT)
    entries = _touched(runs, index.pos_of(0), indexfile.ENTRY_SIZE)
    for entry in entries:
        start = index.pos_of(entry)
        if 0 < entry <= index.used and _overlaps(runs, *field_span(start, indexfile.ENTRY, "keyHash")):
            return _promised(job, place, *KEY_HASH)
    reasons = _derive_header(job, index, runs)
    slots = _touched(runs, indexfile.INDEX_HEADER_SIZE, indexfile.SLOT_SIZE, index.pos_of(0))
    for slot in slots[:PROMISE_LIMIT]:
        job.promise(index.slot_place(slot), *SLOTS)
    reasons += [_derive_entry(job, index, entry, runs) for entry in entries[:PROMISE_LIMIT]]
    return _why(job, reasons)


def _touched(runs: Sequence[tuple[int, int]], first: int, size: int, end: int = sys.maxsize) -> list[int]:
    """Which of the pieces of `size` bytes, from `first` to `end`, have changed bytes."""
    steps = ((*range(max(low, first), high, size), high - 1) for low, high in runs)
    return sorted({(pos - first) // size for step in steps for pos in step if first <= pos < end})


def _derive_header(job: Job, index: IndexScene, runs: Sequence[tuple[int, int]]) -> list[str]:
    reasons = []
    for name in ("beginPhyOffset", "endPhyOffset", "beginTimestamp", "endTimestamp"):
        span = field_span(0, indexfile.HEADER, name)
        if not _overlaps(runs, *span):
            continue
        number = 1 if name.startswith("begin") else index.used
        if name.endswith("PhyOffset") or job.record_at(int(index.offsets[number])) is not None:
            job.promise(PromisedPlace(index.file.relative, *span), RuleName.INDEX_HEADER_RANGE)
        else:
            reasons.append(f"the record of {name} is not in the log")
    span = field_span(0, indexfile.HEADER, "hashSlotCount")
    if _overlaps(runs, *span):
        value = job.editor.number(index.file.relative, 0, indexfile.HEADER, "hashSlotCount")
        if not len(distinct(index.slot_of[1:])) <= value <= index.used:
            job.promise(PromisedPlace(index.file.relative, *span), RuleName.INDEX_SLOT_COUNT)
        else:
            reasons.append("hashSlotCount is still between the numbers of used slots and of puts")
    return reasons


def _derive_entry(job: Job, index: IndexScene, entry: int, runs: Sequence[tuple[int, int]]) -> str:
    file, start = index.file.relative, index.pos_of(entry)
    place = PromisedPlace(file, start, start + indexfile.ENTRY_SIZE)
    if entry == 0:
        return _promised(job, place, RuleName.INDEX_ENTRY_ZERO)
    if entry > index.used:
        return _promised(job, place, RuleName.INDEX_ENTRY_BEHIND_COUNT, touches=True)
    if _overlaps(runs, *field_span(start, indexfile.ENTRY, "prevIndex")):
        return _promised(job, index.entry_place(entry), *LINKS)
    if _overlaps(runs, *field_span(start, indexfile.ENTRY, "phyOffset")):
        return _promised(job, PromisedPlace(file), *ENTRY_OFFSET)
    value = job.editor.number(file, start, indexfile.ENTRY, "timeDiff")
    if value < 0:
        return _promised(job, place, RuleName.INDEX_ENTRY_TIME_NEGATIVE)
    known = job.record_at(int(index.offsets[entry])) is not None
    if known and entry > 1 and abs(value - int(index.entries["timeDiff"][entry])) > TIME_TOLERANCE:
        return _promised(job, place, RuleName.ENTRY_TIME, touches=True)
    return "the timeDiff may be a rounding, or its record is not in the log"


def derive_checkpoint(job: Job, hits: Sequence[Hit]) -> str:
    """Promises for hits on the checkpoint."""
    runs = _changed(hits)
    file = "checkpoint"
    data = job.editor.content(file)
    behind = [run for run in runs if run[1] > checkpoint.CHECKPOINT.size]
    if behind and any(data[checkpoint.CHECKPOINT.size :]):
        job.promise(PromisedPlace(file), RuleName.CHECKPOINT_TAIL)
    values = checkpoint.decode_checkpoint(data).values()
    for name in job.store.dialect.checkpoint_fields:
        start = checkpoint.CHECKPOINT.offset(name)
        if values[name] < 0 and _overlaps(runs, start, start + 8):
            job.promise(PromisedPlace(file, start, start + 8), RuleName.CHECKPOINT_NEGATIVE)
    if not any(data[:16]) and _overlaps(runs, 0, 16):
        job.promise(PromisedPlace(file, 0, 16), RuleName.CHECKPOINT_ZERO)
    return _why(job, ["the time or offset is still plausible"])


def derive_config(job: Job, file: str) -> str:
    """Promises for a hit on a JSON file."""
    try:
        config.decode_config(job.editor.content(file))
    except FormatError:
        if not file.endswith(_BACKUP):
            return _promised(job, PromisedPlace(file), *CONFIG_TEXT)
        if not job.editor.exists(file.removesuffix(_BACKUP)):
            return "only this .bak exists"
        return _promised(job, PromisedPlace(file), RuleName.CONFIG_BACKUP_DAMAGED)
    return "the text still parses"
