"""Fences: filler records over damage, or in place of a missing commit log file; and BLANKs.

Whichever finding asks for it, the fence of a file is one action with all that is damaged in it. What is
overwritten is set aside first. Fault catalogue C1 to C3; reference 2.8.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MIN_RECORD_SIZE
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.repair import log
from rocketfsck.repair.plan.arguments import BlankPlace, Fence, FencedFile, Fences
from rocketfsck.repair.plan.model import Action, Extent, Loss, Notice
from rocketfsck.repair.plan.table import ActScene, PlanScene
from rocketfsck.repair.repairs import answers
from rocketfsck.repair.repairs.index import rebuild_indexes
from rocketfsck.repair.repairs.misnamed import claims, hidden_record, is_unsettled, is_zero
from rocketfsck.store.elsewhere import has_queue_database
from rocketfsck.store.model import MappedFile
from rocketfsck.verify.finding import Finding

KEPT = "set aside"
_INNER = (RuleName.LOG_BOUNDARY_LOST, RuleName.RECORD_MALFORMED, RuleName.BLANK_TOO_EARLY)
"""Rules of damage that records follow in the same file."""
_OF_QUEUES = frozenset(
    {
        RuleName.RECORD_WITHOUT_UNIT,
        RuleName.QUEUE_MISSING,
        RuleName.UNIT_GHOST,
        RuleName.UNIT_SHIFTED,
        RuleName.UNIT_SIZE,
        RuleName.UNIT_TAGS_CODE,
    }
)
"""Rules of queues that differ from the log; what a BLANK hides may be the cause, or something else."""
FENCE_LIMIT = 4096
"""Missing files that are made and fenced at most; a larger gap is not a gap in one store."""


def fence_file(scene: PlanScene, file: MappedFile) -> Iterator[Action]:
    """The one action that fences all that is damaged in a file, and what follows from it.

    The action is the same whichever finding asks for it.
    """
    store, base = scene.store, file.start_offset or 0
    asked = _fence_ranges(scene, file)
    spans = [
        span
        for span in answers.merge_ranges(span for _, span in asked)
        if log.is_fenceable(span[1] - span[0])
    ]
    why = [finding for finding, (start, end) in asked if answers.is_within(spans, start, end)]
    if any(finding.rule == RuleName.BLANK_TOO_EARLY for finding in why):
        hidden = min(finding.where.start or 0 for finding in why if finding.rule == RuleName.BLANK_TOO_EARLY)
        lost = base + hidden - BLANK_HEADER_SIZE, base + file.size
        why += [finding for finding in scene.findings if claims(finding) and not _is_elsewhere(finding, lost)]
    else:
        why += _lost_units(scene, [(base + low, base + high) for low, high in spans])
        why += _explained_gaps(scene, file, spans)
    if not spans:
        yield from end_file(scene, file)
        return
    places = [(base + low, base + high) for low, high in spans]
    frames = [frame for found in log.frames_in_each(store, places) for frame in found]
    times = log.times_at(store, [low for low, _ in places])
    yield answers.answer(
        "salvage-log",
        file.relative,
        f"cover {count_of(sum(high - low for low, high in spans), 'byte')} of damage from "
        f"{base + spans[0][0]} on with filler records, so later records stay readable",
        why,
        arguments=Fences(
            tuple(Fence(low, high, time) for (low, high), time in zip(places, times, strict=True)),
            str(store.dialect.version),
        ),
        preconditions=[
            scene.extent(file.relative, min(low, file.size), min(high, file.size)) for low, high in spans
        ],
        losses=[
            *log.losses_of(frames, KEPT),
            *(
                Loss("byte", high - low, start_offset=base + low, end_offset=base + high, kept_in=KEPT)
                for low, high in spans
            ),
        ],
        write_byte_count=sum(high - low for low, high in spans),
        notices=[_delivered(frames)],
    )
    yield from end_file(scene, file)
    yield from index_follows(scene)


def _is_elsewhere(finding: Finding, hidden: answers.Span) -> bool:
    """Whether a finding on a queue is about bytes that no BLANK hides: what comes back does not answer it."""
    if finding.rule not in _OF_QUEUES:
        return False
    low, high = hidden
    offset = finding.where.physical_offset
    return offset is None or not low <= offset < high


def _delivered(frames: Iterable[log.QueueFrames]) -> Notice | None:
    """Units that lead to filler records from now on: who consumes by them is given the filler."""
    return answers.notice("fillers-delivered", sum(len(item.offset) for item in frames))


def _lost_units(scene: PlanScene, spans: Sequence[answers.Span]) -> list[Finding]:
    """The findings on units of records that are lost in these physical offsets: filler answers them."""
    return [
        finding
        for finding in answers.one_by_one(scene.findings)
        if finding.rule in (RuleName.UNIT_OF_DAMAGED_RECORD, RuleName.UNIT_IN_MISSING_SEGMENT)
        and answers.is_within(
            spans,
            answers.number(finding.found, "first_physical_offset", -1),
            answers.number(finding.found, "last_physical_offset", sys.maxsize) + 1,
        )
    ]


def _explained_gaps(scene: PlanScene, file: MappedFile, spans: Sequence[answers.Span]) -> list[Finding]:
    """The findings on queue offsets that the log skips behind filler: it stands for the messages.

    So do the units of the queue. In later files, only what is skipped between two files.
    """
    if not spans:
        return []
    first = (file.start_offset or 0) + spans[0][0]
    queues = {(queue.topic, queue.queue_id) for queue in scene.store.queues}
    in_database = has_queue_database(scene.store)
    return [
        finding
        for finding in answers.one_by_one(scene.findings)
        if finding.rule == RuleName.QUEUE_OFFSET_GAP
        and (finding.where.physical_offset or 0) > first
        and (finding.where.file == file.relative or finding.where.end is None)
        and (in_database or answers.queue_of(finding) in queues)
    ]


def _fence_ranges(scene: PlanScene, file: MappedFile) -> list[tuple[Finding, answers.Span]]:
    """What is to be fenced in a file (positions), each with the finding that says so."""
    whole = scene.store.geometry.commitlog_file_size
    limit = log.blank_pos_of(whole)
    mid_log = length_left(scene, file) <= whole and answers.goes_on_after(scene, file)
    found: list[tuple[Finding, answers.Span]] = []
    for finding in answers.of_file(scene.findings, file.relative):
        start, end = finding.where.start or 0, min(finding.where.end or 0, limit)
        if finding.rule in (RuleName.LOG_BOUNDARY_LOST, RuleName.RECORD_MALFORMED):
            found.append((finding, (start, end)))
        elif (
            finding.rule == RuleName.BLANK_TOO_EARLY
            and (hidden := hidden_record(scene, file, start)) is not None
        ):
            found.append((finding, (start - BLANK_HEADER_SIZE, hidden)))
        elif finding.rule == RuleName.LOG_TORN_TAIL and mid_log:
            found.append((finding, (start, _last_unit(scene, file, start, limit))))
        elif finding.rule in (RuleName.LOG_NO_RECORDS, RuleName.SEGMENT_ZERO_INSIDE) and mid_log:
            found.append((finding, (0, _last_unit(scene, file, 0, limit))))
        elif finding.rule == RuleName.BLANK_MISSING and mid_log:
            found.append((finding, (start, _last_unit(scene, file, start, limit))))
    return found


_ZEROED = frozenset({RuleName.STALE_TAIL, RuleName.BYTES_BEHIND_END})


def length_left(scene: PlanScene, file: MappedFile) -> int:
    """The bytes of a file after `resize-segment` or `trim-segment`: zeros behind the right length go."""
    whole = scene.store.geometry.commitlog_file_size
    if file.size > whole:
        own = answers.of_file(scene.findings, file.relative)
        lengths = [finding for finding in own if finding.rule == RuleName.SEGMENT_LENGTH]
        zeroed = any(finding.rule in _ZEROED and (finding.where.start or 0) <= whole for finding in own)
        if any(
            whole == (answers.number(item.expected, "size") if zeroed else resized(scene, item))
            for item in lengths
        ):
            return whole
    return file.size


def resized(scene: PlanScene, finding: Finding) -> int | None:
    """The length that `resize-segment` gives the file of a finding; None where it leaves it as it is."""
    size = answers.number(finding.expected, "size")
    if size <= 0 or scene.once(is_unsettled):
        return None
    file = answers.log_file(scene.store, finding.where.file)
    no_record = file is not None and 0 < file.size - size < MIN_RECORD_SIZE
    return size if no_record or is_zero(scene, finding.where.file, size) else None


def _last_unit(scene: PlanScene, file: MappedFile, start: int, limit: int) -> int:
    """Where in `start:limit` of a file the last record ends that a unit points to; `start` without any."""
    base = file.start_offset or 0
    frames = log.frames_in(scene.store, base + start, base + limit)
    ends = [int((frame.offset + frame.size).max()) - base for frame in frames]
    return max([start, *(end for end in ends if end <= limit)])


def end_file(scene: PlanScene, file: MappedFile) -> Iterator[Action]:
    """The BLANK that ends a file, behind what is fenced in it. The same whichever finding asks for it."""
    whole, base = scene.store.geometry.commitlog_file_size, file.start_offset or 0
    limit = log.blank_pos_of(whole)
    tails = [span for finding, span in _fence_ranges(scene, file) if finding.rule not in _INNER]
    fenced = [end for start, end in tails if log.is_fenceable(end - start)]
    own = answers.of_file(scene.findings, file.relative)
    why = [finding for finding in own if finding.rule in (RuleName.BLANK_SIZE, RuleName.BLANK_MISSING)]
    starts = [finding.where.start or 0 for finding in why] + [start for start, _ in tails]
    why += [
        finding
        for finding in own
        if finding.rule in (RuleName.LOG_TORN_TAIL, RuleName.LOG_NO_RECORDS, RuleName.SEGMENT_ZERO_INSIDE)
        and tails
    ]
    if length_left(scene, file) > whole or not why:
        return
    pos = max(fenced) if fenced else min(starts)
    if pos > limit:
        return
    end = min(pos + BLANK_HEADER_SIZE, file.size)
    yield answers.answer(
        "write-blank",
        file.relative,
        f"end the file with a BLANK at {base + pos}, so readers continue in the next file",
        why,
        arguments=BlankPlace(base + pos),
        preconditions=[scene.extent(file.relative, pos, end)] if pos < end else [],
        write_byte_count=BLANK_HEADER_SIZE,
        notices=[answers.notice("file-ends-early", 1)] if tails else [],
    )


def fence_missing_files(scene: PlanScene, following: MappedFile, finding: Finding) -> Iterator[Action]:
    """Files that are not there, between others of the commit log."""
    store = scene.store
    size, limit = store.geometry.commitlog_file_size, following.start_offset or 0
    first = answers.number(finding.expected, "start_offset", -1)
    if first < 0 or (limit - first) % size or not 0 < (limit - first) // size <= FENCE_LIMIT:
        return
    directory = following.relative.rpartition("/")[0]
    (timestamp,) = log.times_at(store, [first])
    for start in range(first, limit, size):
        name = f"{directory}/{offset_to_filename(start)}"
        inside = log.frames_in(store, start, start + size)
        end = max([start, *(int((frame.offset + frame.size).max()) for frame in inside)])
        if end > start + log.blank_pos_of(size):
            return
        moved = list(
            answers.in_the_way(
                scene,
                {name},
                (RuleName.FOREIGN_FILE, RuleName.FOREIGN_FILE_HARMLESS),
                "move it aside: a file of the log belongs in its place",
            )
        )
        yield from moved
        yield answers.answer(
            "fence-gap",
            name,
            "create a file of filler records in place of the missing one, so offsets continue",
            [finding, *_lost_units(scene, [(first, limit)])],
            arguments=FencedFile(start, end, size, timestamp, str(store.dialect.version)),
            preconditions=[] if moved else [Extent(name, 0, None, None)],
            losses=log.losses_of(inside),
            write_byte_count=size,
            notices=[answers.notice("file-made-up", 1), _delivered(inside)],
        )
    yield from index_follows(scene)


def index_follows(scene: PlanScene) -> Iterator[Action]:
    """Entries of records that are gone go with them."""
    if answers.rules_in(scene) & {
        RuleName.ENTRY_BEYOND_LOG,
        RuleName.ENTRY_DANGLING,
        RuleName.ENTRY_OF_DAMAGED_RECORD,
        RuleName.ENTRY_IN_MISSING_SEGMENT,
    }:
        yield from rebuild_indexes(scene)


def act_fence(scene: ActScene, action: Action, arguments: Fences) -> None:
    """Fill the ranges with filler records."""
    store = scene.reopen()
    file = answers.acted_log_file(store, action)
    base = file.start_offset or 0
    spans = [(fence.start_offset, fence.end_offset) for fence in arguments.fences]
    for start, end in spans:
        if not base <= start < end <= base + file.size:
            raise StoreError(f"does not hold the offsets {start} to {end}", path=action.target)
    for fence, frames in zip(arguments.fences, log.frames_in_each(store, spans), strict=True):
        start, end = fence.start_offset, fence.end_offset
        log.keep_bytes(scene.tree, file.relative, (start - base, end - base))
        version, timestamp = arguments.version, fence.store_timestamp
        log.write_fence(scene.tree, frames, file, start, end, version=version, timestamp=timestamp)


def act_fence_gap(scene: ActScene, action: Action, arguments: FencedFile) -> None:
    """Make the file that is missing, filled with filler records to its BLANK."""
    start, end, timestamp = arguments.start_offset, arguments.end_offset, arguments.store_timestamp
    if scene.tree.exists(action.target):
        raise StoreError("exists", path=action.target)
    scene.tree.create(action.target, arguments.size)
    store = scene.reopen()
    file = answers.acted_log_file(store, action)
    if end > start:
        frames, version = log.frames_in(store, start, end), arguments.version
        log.write_fence(scene.tree, frames, file, start, end, version=version, timestamp=timestamp)
    log.write_blank(scene.tree, file.relative, end - start)
    scene.tree.set_mtime(file.relative, timestamp * 1_000_000)


def act_write_blank(scene: ActScene, action: Action, arguments: BlankPlace) -> None:
    """Write the BLANK."""
    file = answers.acted_log_file(scene.reopen(), action)
    pos = arguments.start_offset - (file.start_offset or 0)
    if not 0 <= pos <= log.blank_pos_of(file.size):
        raise StoreError("has no room for a BLANK at that position", path=action.target)
    log.write_blank(scene.tree, file.relative, pos)
