"""What one replica can have from another, group of files by group: a kernel of the planning of a heal.

    protected   valid live records of A, and bytes that are the same on both sides
    taken       valid live records of B that A lacks, where nothing protected is; BLANKs likewise
    conflict    valid live records of B that A lacks, where something protected is

Results tell what is taken up to the first conflict behind everything that both have (`behind` false) and
from there on: whether the histories part there is known only when all groups are.

A store healed from two replicas: each record is taken from the copy where it is valid.

Both logs are carved; what one side has damaged, the other gives. Where both are valid and differ there is no
telling which history is the right one: then it must be said whose, and from that place on only that side is
believed. The new store is written with the machinery of salvage. Fault catalogue, H2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.wording import count_of
from rocketfsck.errors import UsageError
from rocketfsck.formats.dtypes import Flags, Longs
from rocketfsck.formats.magic import BLANK_HEADER_SIZE
from rocketfsck.repair.carve.carve import CarvedRecords, SourceFile
from rocketfsck.repair.carve.confidence import judge
from rocketfsck.repair.compare import records
from rocketfsck.repair.compare.compare import SIDES, describe_side, refuse_entries, require_logs
from rocketfsck.repair.log import blank_bytes
from rocketfsck.repair.plan.model import Conflict, Gain, Loss
from rocketfsck.repair.salvage.choose import Fate, choose, find_overlapped, is_fence, place_kept
from rocketfsck.repair.salvage.ledger import Salvage, SalvageOptions
from rocketfsck.repair.salvage.salvage import carve_all, finish_story
from rocketfsck.scan.spans import distinct
from rocketfsck.store.model import Store

Fates = NDArray[np.int8]


def heal_stores(
    a: Store,
    b: Store,
    options: SalvageOptions,
    *,
    prefer: str | None = None,
) -> Salvage:
    """What a store healed from both would hold; nothing is written yet.

    `prefer` is "A" or "B". Sizes, version and config are those of the preferred side, else of A. Raises
    UsageError where both sides are valid and differ and none is preferred, the records do not fit the files,
    or one has no commit log; StoreError for what cannot be read.
    """
    require_logs(a, b)
    refuse_entries(a, b)
    stores = (a, b)
    sources, sides = _sources(stores)
    found = carve_all(sources)
    confidence = judge(found, np.array([source.base_offset for source in sources], np.int64))
    side_of = np.array([*sides, 0])[found["source"]]
    ends = np.array([describe_side(store).end_offset for store in stores])
    fates = choose(found, confidence, options.level, in_place=False)
    fates[(fates == Fate.TAKEN) & (found["physical_offset"] >= ends[side_of])] = Fate.EARLIER_LIFE
    _settle(found, fates, side_of, prefer)
    # what is left overlapping is within one side: the surer record gets the place
    fates[find_overlapped(found, confidence, np.flatnonzero(fates == Fate.TAKEN))] = Fate.OVERLAPPED
    origin = stores[SIDES.index(prefer)] if prefer else a
    file_size = options.file_size or origin.geometry.commitlog_file_size
    placed = place_kept(found, np.flatnonzero(fates == Fate.TAKEN), file_size)
    if isinstance(placed, str):
        raise UsageError(f"the records of both copies do not fit into one log: {placed}")
    note = "the physical offsets of both"
    return finish_story(options, sources, [], found, confidence, fates, placed, note, origin)


def _sources(stores: Sequence[Store]) -> tuple[list[SourceFile], list[int]]:
    """The commit log files of both, and which store each belongs to."""
    sources, sides = [], []
    for side, store in enumerate(stores):
        for file in store.commitlog.files:
            if file.start_offset is not None:
                sources.append(SourceFile(file.path, file.size, file.start_offset))
                sides.append(side)
    return sources, sides


def _settle(found: CarvedRecords, fates: Fates, side_of: Longs, prefer: str | None) -> None:
    """Decide between the sides where both are valid and differ. Raises UsageError if `prefer` is needed."""
    rows = np.flatnonzero(fates == Fate.TAKEN)
    rows = rows[np.argsort(found["physical_offset"][rows], kind="stable")]
    conflicts = _conflict_records(found, rows, side_of)
    if not len(conflicts):
        return
    first = int(found["physical_offset"][conflicts].min())
    if prefer is None:
        raise UsageError(
            f"both copies are valid and differ, first at {first} ({count_of(len(conflicts), 'record')}): "
            "choose the right history with --prefer A or --prefer B"
        )
    other = 1 - SIDES.index(prefer)
    behind = found["physical_offset"] + found["total_size"] > first
    fates[(fates == Fate.TAKEN) & (side_of == other) & behind] = Fate.OVERLAPPED
    # copies of what was dropped, if the preferred side has them, take their places
    own = np.flatnonzero((fates == Fate.COPY) & (side_of != other) & behind)
    taken = set(found["physical_offset"][(fates == Fate.TAKEN) & behind].tolist())
    fates[[row for row in own.tolist() if int(found["physical_offset"][row]) not in taken]] = Fate.TAKEN


def _conflict_records(found: CarvedRecords, rows: Longs, side_of: Longs) -> Longs:
    """Of rows in the order of their offsets, those that overlap a different record of the other side."""
    start = found["physical_offset"][rows]
    end = start + found["total_size"][rows]
    side = side_of[rows]
    flags = np.zeros(len(rows), np.bool_)
    for number in range(2):
        own, other = np.flatnonzero(side == number), np.flatnonzero(side != number)
        # of the other side's records, which do not overlap each other much, the reach decides
        flags[own] = overlapped(start[own], end[own], start[other], end[other])
    return rows[flags]


CONFLICT_LIMIT = 1000
KEPT = "set aside"
DIFFERS = "both copies are valid here and differ"
NO_ROOM = "a file of this store ends inside the record"


@dataclass(frozen=True, slots=True)
class HealTask:
    """A group of files of A and B. `prefer_b`: B's records are taken where both are valid and differ.

    The files of A begin at multiples of `slot_size` from `slot_start` on.
    """

    group: records.Group
    prefer_b: bool
    slot_start: int
    slot_size: int


@dataclass(frozen=True, slots=True)
class SlotPart:
    """What one file of A gets from B: ranges in order, the records in them by queue, and what A loses.

    `start_offset` is where the file begins, `record_count` counts what is taken, `store_timestamp` (ms) is
    that of its last record (0 if only a BLANK is taken).
    """

    start_offset: int
    behind: bool
    ranges: tuple[records.Part, ...]
    record_count: int
    store_timestamp: int
    gains: tuple[Gain, ...]
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class HealResult:
    """What is taken in one group, and what is not.

    `common_end` is the end of the last record that both have, `divergence` the first conflict after it (None
    without any). `conflicts` are the first ones; `conflict_counts` count records, up to there and from there
    on.
    """

    parts: tuple[SlotPart, ...]
    common_end: int | None
    divergence: int | None
    conflicts: tuple[tuple[bool, Conflict], ...]
    conflict_counts: tuple[int, int]


class _Runs:
    """Ranges of bytes in the fewest parts, as they are met in order."""

    def __init__(self) -> None:
        self._parts: list[tuple[Longs, Longs]] = []

    def add(self, start: Longs, end: Longs) -> None:
        if len(start):
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
            first = np.append(True, start[1:] != end[:-1])
            last = np.append(first[1:], True)
            self._parts.append((start[first], end[last]))

    def all(self) -> tuple[Longs, Longs]:
        empty = np.empty(0, np.int64)
        return _in_order((empty, empty), *self._parts)


def heal_group(task: HealTask) -> HealResult:
    """Decide about the records of a group. Raises StoreError."""
    group = task.group
    here, proven = _records_of_a(group)
    there, blanks = _records_of_b(group)
    valid = (here["faults"] & records.BAD) == 0
    sound = valid & (_place(group, here) == here["physical_offset"])
    alive = sound & (here["physical_offset"] < group.ends[0]) & ~is_fence(here)
    alive &= ~_is_worse(here, there)
    matched = records.is_in(there, here.take(np.flatnonzero(sound)))
    guarded, offered = here.take(np.flatnonzero(alive)), there.take(np.flatnonzero(~matched))
    fixed = _in_order(_span(guarded), proven)
    start, end = _span(offered)
    hit = overlapped(start, end, *fixed)
    crosses = (start - task.slot_start) // task.slot_size != (end - 1 - task.slot_start) // task.slot_size
    common_end = _common_end(there, matched, proven)
    clashes = start[hit & (start >= (common_end or 0))]
    divergence = int(clashes.min()) if len(clashes) else None
    if task.prefer_b:
        fixed = proven
        hit = overlapped(start, end, *fixed)
    taken = offered.take(np.flatnonzero(~hit & ~crosses))
    free = [span for span in blanks if not overlapped(np.array(span[:1]), np.array(span[1:]), *fixed).any()]
    lost = here.take(np.flatnonzero(valid & ~records.is_in(here, there)))
    return HealResult(
        tuple(_parts(task, taken, _unlike_blanks(group, free), lost, _place(group, lost), divergence)),
        common_end,
        divergence,
        *_conflicts(start, end, hit, crosses, divergence),
    )


def _is_worse(found: CarvedRecords, other: CarvedRecords) -> Flags:
    """Which records have fields that no broker writes, where the other side has one of the same length at the
    same place without any: no checksum says so, but these bytes changed."""
    clean = other.take(np.flatnonzero(other["faults"] == 0))
    at = np.searchsorted(clean["physical_offset"], found["physical_offset"])
    inside = at < len(clean)
    flags: Flags = inside & (found["faults"] != 0)
    for name in ("physical_offset", "total_size"):
        flags[inside] &= clean[name][at[inside]] == found[name][inside]
    return flags


def _in_order(*parts: tuple[Longs, Longs]) -> tuple[Longs, Longs]:
    start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(start, kind="stable")
    return start[order], end[order]


def _span(found: CarvedRecords) -> tuple[Longs, Longs]:
    start = found["physical_offset"]
    return start, start + found["total_size"]


def _place(group: records.Group, found: CarvedRecords) -> Longs:
    """Where A's records really stand."""
    bases = np.array([*(file.start_offset or 0 for file in group.files[0]), 0], np.int64)
    place: Longs = found["pos"] + bases[found["source"]]
    return place


def _records_of_a(group: records.Group) -> tuple[CarvedRecords, tuple[Longs, Longs]]:
    """All records of A, dead ones too, but for live ones in bytes that B has; where the latter stand."""
    runs = _Runs()

    def keep(rows: dict[str, NDArray[Any]], base: int) -> Flags:
        place = rows["pos"] + base
        same = (place == rows["physical_offset"]) & (place < group.ends[0])
        same &= ((rows["faults"] & records.BAD) == 0) & group.proven(place, rows["total_size"])
        runs.add(place[same], place[same] + rows["total_size"][same])
        other: Flags = ~same
        return other

    found = records.carve_files([(file.location, file.start_offset or 0) for file in group.files[0]], keep)
    return found, runs.all()


def _records_of_b(group: records.Group) -> tuple[CarvedRecords, list[records.Part]]:
    """Valid live records of B in bytes that are not proven to be the same, and the BLANKs after its last ones
    where its log continues in the next file."""
    files = [file for file in group.files[1] if group.is_open(1, records.range_of(file))]
    reached: dict[int, int] = {}

    def keep(rows: dict[str, NDArray[Any]], base: int) -> Flags:
        place = rows["pos"] + base
        live = (
            (place == rows["physical_offset"])
            & (place < group.ends[1])
            & ((rows["faults"] & records.BAD) == 0)
        )
        if live.any():
            reached[base] = max(reached.get(base, 0), int((place + rows["total_size"])[live].max()))
        wanted: Flags = live & ~group.proven(place, rows["total_size"])
        return wanted

    found = records.carve_files([(file.location, file.start_offset or 0) for file in files], keep)
    start, end = _span(found)
    clear = np.ones(len(found), np.bool_)
    clear[1:] = start[1:] >= np.maximum.accumulate(end)[:-1]
    blanks = []
    with records.LogBytes(files) as log:
        for file in files:
            low, high = records.range_of(file)
            at = reached.get(low)
            if at is None or high >= group.ends[1] or at + BLANK_HEADER_SIZE > high:
                continue
            if _bytes_at(log, at, BLANK_HEADER_SIZE) == blank_bytes(high - at):
                blanks.append((at, at + BLANK_HEADER_SIZE))
    return found.take(np.flatnonzero(clear & ~is_fence(found))), blanks


def _bytes_at(log: records.LogBytes, offset: int, size: int) -> bytes:
    data = bytearray(min(size, records.left_in_file(log, offset)))
    if data:
        log.read_into(memoryview(data), offset)
    return bytes(data)


def _unlike_blanks(group: records.Group, blanks: Iterable[records.Part]) -> list[records.Part]:
    """The BLANKs that A does not have."""
    with records.LogBytes(group.files[0]) as here, records.LogBytes(group.files[1]) as there:
        return [
            (start, end)
            for start, end in blanks
            if _bytes_at(here, start, end - start) != _bytes_at(there, start, end - start)
        ]


def overlapped(start: Longs, end: Longs, low: Longs, high: Longs) -> Flags:
    """Which of the ranges `start:end` have bytes of any of `low:high`, which are in the order of `low`."""
    reach = np.maximum.accumulate(np.concatenate((np.array([-1]), high)))
    before = np.searchsorted(low, start, side="right")
    after = np.searchsorted(low, end, side="left")
    flags: Flags = (reach[before] > start) | (after > before)
    return flags


def _common_end(there: CarvedRecords, matched: Flags, proven: tuple[Longs, Longs]) -> int | None:
    """The end of the last record that both have."""
    ends = [int(part.max()) for part in (_span(there)[1][matched], proven[1]) if len(part)]
    return max(ends) if ends else None


def _conflicts(
    start: Longs, end: Longs, hit: Flags, crosses: Flags, divergence: int | None
) -> tuple[tuple[tuple[bool, Conflict], ...], tuple[int, int]]:
    """Records not taken, one behind the other as one; and how many there are on both sides of the place
    where the histories may part."""
    rows = np.flatnonzero(hit | crosses)
    behind = np.zeros(len(rows), np.bool_) if divergence is None else start[rows] >= divergence
    counts = (int((~behind).sum()), int(behind.sum()))
    stated: list[tuple[bool, Conflict]] = []
    for row, after in zip(rows.tolist(), behind.tolist(), strict=True):
        reason = DIFFERS if hit[row] else NO_ROOM
        last = stated[-1] if stated else None
        if (
            last is not None
            and last[0] == after
            and last[1].end_offset == start[row]
            and last[1].reason == reason
        ):
            stated[-1] = (
                after,
                Conflict(last[1].record_count + 1, last[1].start_offset, int(end[row]), reason),
            )
        elif len(stated) < CONFLICT_LIMIT:
            stated.append((after, Conflict(1, int(start[row]), int(end[row]), reason)))
        else:
            break
    return tuple(stated), counts


def _parts(
    task: HealTask,
    taken: CarvedRecords,
    blanks: Sequence[records.Part],
    lost: CarvedRecords,
    places: Longs,
    divergence: int | None,
) -> Iterable[SlotPart]:
    start, end = _span(taken)
    extra = np.array([*blanks], np.int64).reshape(-1, 2)
    slots = (start - task.slot_start) // task.slot_size
    blank_slots = (extra[:, 0] - task.slot_start) // task.slot_size
    limit = np.iinfo(np.int64).max if divergence is None else divergence
    for slot in distinct(np.concatenate((slots, blank_slots))).tolist():
        slot_end = task.slot_start + (slot + 1) * task.slot_size
        for behind in (False, True):
            rows = np.flatnonzero((slots == slot) & ((start >= limit) == behind))
            mine = extra[(blank_slots == slot) & ((extra[:, 0] >= limit) == behind)]
            # a BLANK must say what is left of this store's own file
            mine = mine[[_says(task, int(at), slot_end) for at in mine[:, 0].tolist()]] if len(mine) else mine
            if not len(rows) and not len(mine):
                continue
            ranges = _joined(np.append(start[rows], mine[:, 0]), np.append(end[rows], mine[:, 1]))
            yield SlotPart(
                slot_end - task.slot_size,
                behind,
                ranges,
                len(rows),
                int(taken["store_timestamp"][rows[-1]]) if len(rows) else 0,
                tuple(_gains(taken, rows)),
                tuple(_losses(lost, places, ranges)),
            )


def _says(task: HealTask, offset: int, slot_end: int) -> bool:
    with records.LogBytes(task.group.files[1]) as log:
        return _bytes_at(log, offset, BLANK_HEADER_SIZE) == blank_bytes(slot_end - offset)


def _joined(start: Longs, end: Longs) -> tuple[records.Part, ...]:
    runs = _Runs()
    runs.add(start, end)
    return tuple(zip(*(column.tolist() for column in runs.all()), strict=True))


def _gains(found: CarvedRecords, rows: Longs) -> Iterable[Gain]:
    for topic, queue_id, part in records.by_queue(found, rows):
        start, end = _span(found)
        queue = found["queue_offset"][part]
        yield Gain(
            "record", len(part), *_queue(topic, queue_id, queue), int(start[part].min()), int(end[part].max())
        )


def _queue(
    topic: bytes, queue_id: int, offsets: Longs
) -> tuple[str | None, int | None, int | None, int | None]:
    """Topic, queue and the first and last queue offset; None for records that are in no queue."""
    if queue_id < 0:
        return None, None, None, None
    return topic.decode("utf-8", "surrogateescape"), queue_id, int(offsets.min()), int(offsets.max())


def _losses(lost: CarvedRecords, places: Longs, ranges: Iterable[records.Part]) -> Iterable[Loss]:
    """Valid records of A in what is overwritten that B lacks: fences, and what B's are preferred to."""
    ends = places + lost["total_size"]
    for low, high in ranges:
        rows = np.flatnonzero((places < high) & (ends > low))
        for topic, queue_id, part in records.by_queue(lost, rows):
            queue = _queue(topic, queue_id, lost["queue_offset"][part])
            span = int(places[part].min()), int(ends[part].max())
            yield Loss("record", len(part), *queue, *span, KEPT)
