"""The ledger of a salvage: where every record came from, how sure it is, where it went; and what held none.

One JSON object a line. The kinds of objects:

    head      what was asked for, and the sums
    source    a file that was carved; skipped: one that was not, and why
    records   a run of records that adjoin in their file, all with the same reasons and the same fate
    nothing   bytes of a file that are in no record: `zero`, `blank` (a BLANK and what follows), or `bytes`
    fence     a range of the new log that fillers take; queue: a queue's records and what it misses

The records and the ranges of nothing of a file tile it: that is proved before a line is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.documents import named, to_document
from rocketfsck.errors import StoreError
from rocketfsck.formats import dtypes, magic, smallfiles
from rocketfsck.repair.carve.carve import CarvedRecords, SkippedFile, SourceFile
from rocketfsck.repair.carve.confidence import Confidence, Level, level_of, names_of
from rocketfsck.repair.salvage.choose import FATES, Fate, Placement, count_skipped, takes_queue_offset
from rocketfsck.scan.log.resync import nonzero_index
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

LayoutChoice = Literal["auto", "keep", "pack"]
"""What is being done, bytes done and bytes in all."""


SCHEMA_VERSION = 1
GAP_LIMIT = 1000
"""Missing ranges of one queue that are listed one by one."""

_BLANK_MAGIC = magic.MAGIC_BLANK.to_bytes(4, "big", signed=True)


@dataclass(frozen=True, slots=True)
class RecordGap:
    """Positions `start:end` of a file that are in no record, and what they are."""

    start: int
    end: int
    what: str


@dataclass(frozen=True, slots=True)
class QueueAccount:
    """One queue: how many of its records were taken, from which to behind which queue offset.

    `missing_count` queue offsets between them have no record; `missing` are the first ranges of them.
    """

    topic: str
    queue_id: int
    taken_count: int
    first_queue_offset: int
    end_queue_offset: int
    missing_count: int
    missing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Story:
    """All that a ledger tells."""

    sources: Sequence[SourceFile]
    skipped: Sequence[SkippedFile]
    found: CarvedRecords
    confidence: Confidence
    fates: NDArray[np.int8]
    placement: Placement
    gaps: Sequence[Sequence[RecordGap]]
    queues: Sequence[QueueAccount]


def find_gaps(source: SourceFile, found: CarvedRecords, rows: dtypes.Longs) -> list[RecordGap]:
    """What of a file is in none of its records (`rows`, in the order of their positions).

    Raises StoreError when bytes cannot be read.
    """
    start, end = found["pos"][rows], found.end[rows]
    reached = np.maximum.accumulate(np.concatenate(([0], end)))
    gap_end = np.concatenate((start, [source.size]))
    with FileReader(source.path) as reader:
        return [
            RecordGap(int(reached[at]), int(gap_end[at]), _what(reader, int(reached[at]), int(gap_end[at])))
            for at in np.flatnonzero(gap_end > reached).tolist()
        ]


def _what(reader: FileReader, start: int, end: int) -> str:
    if reader.read_upto(start + 4, 4) == _BLANK_MAGIC and end - start >= 8:
        return "blank"
    for _, data in reader.data_chunks(start, end):
        if nonzero_index(np.frombuffer(data, np.uint8), 0, len(data)) < len(data):
            return "bytes"
    return "zero"


def prove_tiling(
    source: SourceFile, found: CarvedRecords, rows: dtypes.Longs, gaps: Sequence[RecordGap]
) -> None:
    """Raise StoreError unless the records and gaps of a file cover every byte of it."""
    start = np.concatenate((found["pos"][rows], np.array([gap.start for gap in gaps], np.int64)))
    end = np.concatenate((found.end[rows], np.array([gap.end for gap in gaps], np.int64)))
    order = np.argsort(start, kind="stable")
    reached = np.maximum.accumulate(np.concatenate(([0], end[order])))
    broken = np.flatnonzero(np.append(start[order], source.size) > reached)
    if len(broken):
        raise StoreError("is not accounted for", path=str(source.path), offset=int(reached[broken[0]]))


def account_queues(found: CarvedRecords, rows: dtypes.Longs) -> list[QueueAccount]:
    """The queues of the records that were taken, by topic and queueId."""
    rows = rows[takes_queue_offset(found)[rows]]
    queue = found["queue_index"][rows].astype(np.int64)
    order = np.lexsort((found["queue_offset"][rows], queue))
    rows, queue = rows[order], queue[order]
    bounds = [0, *(np.flatnonzero(np.diff(queue)) + 1).tolist(), len(rows)] if len(rows) else []
    accounts = []
    for low, high in pairwise(bounds):
        part = rows[low:high]
        offset = found["queue_offset"][part]
        following = np.maximum.accumulate(offset + np.clip(found["batch_size"][part], 1, None))
        breaks = np.flatnonzero(offset[1:] > following[:-1])
        missing = tuple((int(following[at]), int(offset[at + 1])) for at in breaks[:GAP_LIMIT].tolist())
        topic, queue_id = found.table.names[int(queue[low])]
        accounts.append(
            QueueAccount(
                _text(topic),
                queue_id,
                high - low,
                int(offset[0]),
                int(following[-1]),
                int((offset[1:] - following[:-1])[breaks].sum()),
                missing,
            )
        )
    return sorted(
        accounts, key=lambda account: (account.topic.encode("utf-8", "surrogateescape"), account.queue_id)
    )


def ledger_lines(story: Story, head: Mapping[str, Any]) -> Iterator[str]:
    """Every line of the ledger, `head` first. Names that are not UTF-8 are base64, as `…_b64`."""
    yield _line("head", head)
    for source in story.sources:
        yield _line("source", {**_path(source), "size": source.size, "base_offset": source.base_offset})
    for skipped in story.skipped:
        yield _line("skipped", {**_path(skipped), "reason": skipped.reason})
    source_starts = np.searchsorted(story.found["source"], np.arange(len(story.sources) + 1))
    targets = _targets(story)
    runs = _runs(story, targets)
    for number, source in enumerate(story.sources):
        low, high = source_starts[number : number + 2]
        for start, stop in runs[(runs[:, 0] >= low) & (runs[:, 0] < high)].tolist():
            yield _line("records", {**_path(source), **_run(story, targets, start, stop)})
        for gap in story.gaps[number]:
            yield _line("nothing", {**_path(source), "start": gap.start, "end": gap.end, "what": gap.what})
    for low, high in story.placement.fences:
        yield _line("fence", {"start_offset": low, "end_offset": high, **_target(story.placement, low)})
    for queue in story.queues:
        yield _line("queue", to_document(queue))


def _targets(story: Story) -> dtypes.Longs:
    targets = np.full(len(story.found), -1, np.int64)
    targets[story.placement.rows] = story.placement.offsets
    return targets


def _runs(story: Story, target: dtypes.Longs) -> dtypes.Longs:
    """Half-open row ranges that share one line, shape (n, 2)."""
    found, count = story.found, len(story.found)
    if not count:
        return np.zeros((0, 2), np.int64)
    size = found["total_size"].astype(np.int64)
    first = story.confidence.first_copy
    same = (found["source"][1:] == found["source"][:-1]) & (found["pos"][1:] == found.end[:-1])
    same &= story.fates[1:] == story.fates[:-1]
    same &= story.confidence.reasons[1:] == story.confidence.reasons[:-1]
    same &= found["physical_offset"][1:] == found["physical_offset"][:-1] + size[:-1]
    taken = story.fates[1:] == Fate.TAKEN
    file_size = story.placement.file_size
    adjoins = (target[1:] == target[:-1] + size[:-1]) & (target[1:] // file_size == target[:-1] // file_size)
    same &= ~taken | adjoins
    copied = story.fates[1:] == Fate.COPY
    behind = (found["source"][first[1:]] == found["source"][first[:-1]]) & (
        found["pos"][first[1:]] == found["pos"][first[:-1]] + size[:-1]
    )
    same &= ~copied | behind
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1))
    return np.stack([starts, np.append(starts[1:], count)], axis=1)


def _run(story: Story, targets: dtypes.Longs, start: int, stop: int) -> dict[str, Any]:
    found, confidence = story.found, story.confidence
    last = stop - 1
    points = int(confidence.points[start])
    fate = Fate(int(story.fates[start]))
    row: dict[str, Any] = {
        "start": int(found["pos"][start]),
        "end": int(found["pos"][last]) + int(found["total_size"][last]),
        "record_count": stop - start,
        "physical_offset": int(found["physical_offset"][start]),
        "end_offset": int(found["physical_offset"][last]) + int(found["total_size"][last]),
        "confidence": points,
        "level": level_of(points).name.lower(),
        "reasons": names_of(int(confidence.reasons[start])),
        "fate": FATES[fate][0],
    }
    if stop - start == 1:
        row |= {
            "topic": _text(found.topic(start)),
            "queue_offset": int(found["queue_offset"][start]),
            "store_timestamp": int(found["store_timestamp"][start]),
        }
    if fate is Fate.TAKEN:
        row["target"] = {"offset": int(targets[start]), **_target(story.placement, int(targets[start]))}
    elif fate is Fate.COPY:
        copied = int(confidence.first_copy[start])
        path = _path(story.sources[int(found["source"][copied])])
        row["copy_of"] = named({**path, "start": int(found["pos"][copied])})
    return row


def _target(placement: Placement, offset: int) -> dict[str, Any]:
    file_start = offset // placement.file_size * placement.file_size
    return {"file": f"commitlog/{smallfiles.offset_to_filename(file_start)}", "pos": offset - file_start}


def _path(item: SourceFile | SkippedFile) -> dict[str, Any]:
    return {"path": _text(os.fsencode(item.path))}


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _line(kind: str, row: Mapping[str, Any]) -> str:
    """A line whose members are those of its kind: not a dataclass, since what does not apply is left out."""
    return json.dumps({"schema_version": SCHEMA_VERSION, "kind": f"rocketfsck.salvage.{kind}", **named(row)})


@dataclass(frozen=True, slots=True)
class SalvageHead:
    """What a salvage says of itself: the first line of the ledger, and the beginning of its document.

    Sizes in bytes; `start_offset` and `end_offset` are physical offsets of the new log, `records` are counts
    by what becomes of the records.
    """

    source_count: int
    source_byte_count: int
    skipped_count: int
    record_count: int
    records: Mapping[str, int]
    taken_byte_count: int
    nothing_byte_count: int
    layout: str
    layout_note: str
    commitlog_file_size: int
    start_offset: int
    end_offset: int
    fence_byte_count: int
    queue_count: int
    missing_count: int
    skipped_by_brokers_count: int
    min_confidence: str
    broker_version: str


@dataclass(frozen=True, slots=True)
class SalvageOptions:
    """What is wanted. `file_size` (bytes) is that of a commit log file, None to find it out.

    `version`, `broker_conf` and `delay_levels` say of the broker what bytes cannot. `sync` makes the store
    durable before it appears.
    """

    level: Level = Level.MEDIUM
    layout: LayoutChoice = "auto"
    file_size: int | None = None
    version: str | None = None
    broker_conf: Path | None = None
    delay_levels: str | None = None
    sync: bool = True


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was found and chosen; nothing is written yet. `origin` is the store that settings come from."""

    options: SalvageOptions
    story: Story
    version: str
    layout_note: str
    origin: Store | None

    @property
    def counts(self) -> dict[str, int]:
        """Records by what becomes of them."""
        numbers = np.bincount(self.story.fates, minlength=len(Fate))
        return {FATES[fate][0]: int(numbers[fate]) for fate in Fate if numbers[fate]}

    @property
    def nothing_byte_count(self) -> int:
        """Bytes of the sources that are in no record."""
        return sum(gap.end - gap.start for gaps in self.story.gaps for gap in gaps)

    def head(self) -> SalvageHead:
        """The ledger's first line, and the command's JSON."""
        story, placement = self.story, self.story.placement
        found = story.found
        taken = placement.rows
        last = int(taken[-1]) if len(taken) else -1
        return SalvageHead(
            source_count=len(story.sources),
            source_byte_count=sum(source.size for source in story.sources),
            skipped_count=len(story.skipped),
            record_count=len(found),
            records=self.counts,
            taken_byte_count=int(found["total_size"][taken].sum()),
            nothing_byte_count=self.nothing_byte_count,
            layout=placement.name,
            layout_note=self.layout_note,
            commitlog_file_size=placement.file_size,
            start_offset=placement.start_offset,
            end_offset=0 if last < 0 else int(placement.offsets[-1] + found["total_size"][last]),
            fence_byte_count=sum(high - low for low, high in placement.fences),
            queue_count=len(story.queues),
            missing_count=sum(queue.missing_count for queue in story.queues),
            skipped_by_brokers_count=count_skipped(found, placement),
            min_confidence=self.options.level.name.lower(),
            broker_version=self.version,
        )
