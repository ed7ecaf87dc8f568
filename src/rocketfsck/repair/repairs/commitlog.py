"""Repairs of the commit log: which damage gets what; the tail cut or sealed.

    damage with sound records after it     fence: filler records in its place         salvage-log, fence-gap
    damage with nothing after it           cut: zeros from the last sound record on   cut-log
    old or foreign bytes after the end     seal: zeros, so that no start finds them   zero-stale-tail
    the same after a file's length         these zeros are taken away again           trim-segment
    a body that one flipped bit explains   the bit turned back                        flip-bit
    a file that ends without a BLANK       the BLANK                                  write-blank

`fences` plans and writes fences and BLANKs. What is overwritten is set aside first. Fault catalogue C1 to C3,
C5; reference 2.8, 6.2, 6.6.

Acts that take bytes from another copy of the store. Only `repair.heal.plan` plans them.

    heal-log      ranges of a commit log file that is there, or is made for them
    heal-cut      what A has after the end of the copy whose history counts goes

What is overwritten is set aside first. Fault catalogue, H1 and H2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.repair import log
from rocketfsck.repair.plan.arguments import BlankPlace, CopiedRanges, FencedFile, Fences, LogCut, NewSize
from rocketfsck.repair.plan.model import Action, Extent, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs import answers, fences
from rocketfsck.repair.repairs.flipbit import ONE_BIT
from rocketfsck.repair.repairs.misnamed import is_misnamed, is_zero, is_zero_from
from rocketfsck.repair.repairs.queueends import cut_queues
from rocketfsck.repair.repairs.queues import rebuild_queues
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Finding

_FILLER_TRAITS = ("property_crc",)


def _asked_files(scene: PlanScene, findings: Iterable[Finding]) -> Iterator[tuple[MappedFile, list[Finding]]]:
    """The commit log files that findings ask about, each with its own; none while files have wrong names."""
    if is_misnamed(scene):
        return
    for name, found in answers.by_file(answers.one_by_one(findings)).items():
        file = answers.log_file(scene.store, name)
        if file is not None:
            yield file, found


def plan_salvage_log(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Fences over damage that sound records follow; a file of damage alone after the log is cut."""
    for file, found in _asked_files(scene, findings):
        empty = [finding for finding in found if finding.rule == RuleName.LOG_NO_RECORDS]
        if empty and not answers.goes_on_after(scene, file):
            if not answers.ahead_of_all(scene, file):
                yield from _set_aside(scene, file, empty)
        else:
            yield from fences.fence_file(scene, file)


def plan_gaps(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Fences over files that are not there, between others; gaps of queues are for the queues' repair."""
    if is_misnamed(scene):
        return
    for finding in answers.one_by_one(findings):
        file = answers.log_file(scene.store, finding.where.file)
        if file is None:
            yield from rebuild_queues(scene)
        elif answers.record_count(scene, file.relative) or answers.goes_on_after(scene, file):
            yield from fences.fence_missing_files(scene, file, finding)


def _set_aside(scene: PlanScene, file: MappedFile, findings: Sequence[Finding]) -> Iterator[Action]:
    base = file.start_offset or 0
    yield answers.answer(
        "cut-log",
        file.relative,
        "move the file aside: it is beyond the end of the log and holds no sound record",
        findings,
        arguments=LogCut(base, whole_file=True),
        preconditions=[scene.extent(file.relative)],
        losses=[Loss("byte", file.size, start_offset=base, end_offset=base + file.size, kept_in=fences.KEPT)],
    )
    yield from _tail_follows(scene, base)


def plan_cut_log(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The record that was not written to its end goes; in the middle of the log it is fenced."""
    for file, found in _asked_files(scene, findings):
        start = min(finding.where.start or 0 for finding in found)
        if answers.goes_on_after(scene, file):
            yield from fences.fence_file(scene, file)
            yield from fences.end_file(scene, file)
            continue
        base = file.start_offset or 0
        yield _cut(scene, "cut-log", file, start, found, "cut the log after its last whole record")
        yield from _trim(scene, file, start)
        yield from _tail_follows(scene, base + start)


def plan_zero_stale_tail(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """What follows the end becomes zeros."""
    for file, found in _asked_files(scene, findings):
        start = min(finding.where.start or 0 for finding in found)
        note = "write zeros over the bytes after the end of the log, so no start adopts them again"
        yield _cut(scene, "zero-stale-tail", file, start, found, note)
        yield from _trim(scene, file, start)
        if not answers.goes_on_after(scene, file):
            yield from _tail_follows(scene, (file.start_offset or 0) + start)


def _cut(
    scene: PlanScene, name: str, file: MappedFile, start: int, findings: Sequence[Finding], note: str
) -> Action:
    base = file.start_offset or 0
    end = max((finding.where.end or start for finding in findings), default=start)
    records = log.lost_records(scene.store, file, start, fences.KEPT)
    frames = log.without_records(log.frames_in(scene.store, base + start, base + end), records)
    return answers.answer(
        name,
        file.relative,
        note,
        findings,
        arguments=LogCut(base + start),
        preconditions=[scene.extent(file.relative, max(start - 1, 0), end)],
        losses=[
            *(record.loss for record in records),
            *log.losses_of(frames, fences.KEPT),
            Loss(
                "byte",
                end - start,
                start_offset=base + start,
                end_offset=base + end,
                kept_in=fences.KEPT,
                # half a record was never acknowledged as a whole, and nothing valid lies after it
                valid=name != "cut-log" or bool(frames) or bool(records),
            ),
        ],
        write_byte_count=min(file.size - start, file.allocated_size),  # a hole stays one
    )


def _trim(scene: PlanScene, file: MappedFile, start: int) -> Iterator[Action]:
    """What is behind the length of a file whose bytes from a position on become zeros. Where they are zeros
    already, `resize-segment` does it."""
    found = [
        finding
        for finding in answers.of_file(scene.findings, file.relative)
        if finding.rule == RuleName.SEGMENT_LENGTH
    ]
    size = min((answers.number(finding.expected, "size") for finding in found), default=0)
    if 0 < size < file.size and start <= size and not is_zero(scene, file.relative, size):
        yield answers.answer(
            "trim-segment",
            file.relative,
            f"set the file's length to {count_of(size, 'byte')}; only zeros are cut off",
            found,
            arguments=NewSize(size),
            preconditions=answers.whole_file(scene, file.relative),
        )


def _tail_follows(scene: PlanScene, end_offset: int) -> Iterator[Action]:
    """What refers to the log after its new end goes, too."""
    yield from cut_queues(scene, end_offset)
    yield from fences.index_follows(scene)


def plan_write_blank(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """A BLANK where the live records of a file end, though the log continues in the next."""
    for file, _ in _asked_files(scene, findings):
        yield from fences.fence_file(scene, file)
        yield from fences.end_file(scene, file)


def act_trim(scene: ActScene, action: Action, arguments: NewSize) -> None:
    """Set the length; only zeros are taken away."""
    file = answers.acted_log_file(scene.reopen(), action)
    size = arguments.size
    if not is_zero_from(file.location, size):
        raise StoreError(f"is not zero after its length of {count_of(size, 'byte')}", path=action.target)
    scene.tree.resize(file.relative, size)


def act_cut(scene: ActScene, action: Action, arguments: LogCut) -> None:
    """Zeros from an offset to the end of its file; or the whole file set aside."""
    file = answers.acted_log_file(scene.reopen(), action)
    base = file.start_offset or 0
    start = arguments.start_offset - base
    if arguments.whole_file:
        scene.tree.set_aside(file.relative)
        return
    if not 0 <= start <= file.size:
        raise StoreError(f"does not hold the offset {base + start}", path=action.target)
    log.keep_bytes(scene.tree, file.relative, (start, file.size))
    scene.tree.zero(file.relative, start, file.size)


ROWS: tuple[Row, ...] = (
    ONE_BIT,
    Repair(
        "fence-gap",
        190,
        "create a missing commit log file from filler records",
        plan_gaps,
        fences.act_fence_gap,
        FencedFile,
        writes_by=("commitlog_file_size", "missing_files"),
        traits=_FILLER_TRAITS,
        answers=(RuleName.UNIT_IN_MISSING_SEGMENT,),
    ),
    Repair(
        "zero-stale-tail",
        200,
        "write zeros over old bytes after the log's end",
        plan_zero_stale_tail,
        act_cut,
        LogCut,
    ),
    Repair(
        "cut-log",
        210,
        "cut the log after its last whole record",
        plan_cut_log,
        act_cut,
        LogCut,
        writes_by=("displaced_records",),
        answers=(RuleName.LOG_NO_RECORDS,),
    ),
    Repair(
        "trim-segment",
        215,
        "cut off zeros after a file's length",
        lambda _scene, _findings: (),  # cuts plan it
        act_trim,
        NewSize,
        writes_by=("commitlog_file_size",),
        answers=(RuleName.SEGMENT_LENGTH,),
        needs=("zero-stale-tail", "cut-log"),
    ),
    Repair(
        "salvage-log",
        220,
        "cover damage with filler records, so later records stay readable",
        plan_salvage_log,
        fences.act_fence,
        Fences,
        writes_by=("displaced_records",),
        traits=_FILLER_TRAITS,
        answers=(
            RuleName.LOG_TORN_TAIL,
            RuleName.BLANK_MISSING,
            RuleName.UNIT_OF_DAMAGED_RECORD,
            RuleName.QUEUE_OFFSET_GAP,
        ),
        needs_beside=("resize-segment", "trim-segment"),
    ),
    Repair(
        "write-blank",
        230,
        "end a commit log file with its BLANK",
        plan_write_blank,
        fences.act_write_blank,
        BlankPlace,
        writes_by=("commitlog_file_size",),
        answers=(RuleName.LOG_TORN_TAIL, RuleName.LOG_NO_RECORDS, RuleName.SEGMENT_ZERO_INSIDE),
        needs_beside=("resize-segment", "trim-segment"),  # a BLANK goes to the end of its file
    ),
)


Span = tuple[int, int]


def spans_of(action: Action, arguments: CopiedRanges) -> list[Span]:
    """The ranges of an action, as positions in its file; StoreError for what cannot be."""
    start = arguments.start_offset
    moved = [(span.start_offset - start, span.end_offset - start) for span in arguments.ranges]
    bounds = [0, *(place for span in moved for place in span), arguments.size]
    if any(low >= high for low, high in moved) or bounds != sorted(bounds):
        raise StoreError("does not have these ranges", path=action.target)
    return moved


def act_heal(scene: ActScene, action: Action, arguments: CopiedRanges) -> None:
    """Copy the ranges from the other store. What was there is set aside in one file."""
    tree, name, size = scene.tree, action.target, arguments.size
    spans = spans_of(action, arguments)
    sizes = [high - low for low, high in spans]
    if not spans or sizes != [(extent.end or 0) - extent.start for extent in action.sources]:
        raise StoreError("has ranges whose length differs from their replacements", path=name)
    made = not tree.exists(name)
    if made:
        tree.create(name, size)
    else:
        log.keep_bytes(tree, name, *spans)
        if tree.size(name) < size:
            tree.resize(name, size)
    for (start, _), extent in zip(spans, action.sources, strict=True):
        _take(scene, name, start, extent)
    if made:
        tree.set_mtime(name, arguments.store_timestamp * 1_000_000)


def _take(scene: ActScene, name: str, pos: int, source: Extent) -> None:
    """Copy the bytes of a file elsewhere, which must still be those of the plan."""
    digest = hashlib.sha256()
    with FileReader(source.file) as reader:
        end = source.end or 0
        for start in range(source.start, end, log.COPY_SIZE):
            data = reader.read(start, min(log.COPY_SIZE, end - start))
            digest.update(data)
            scene.tree.write(name, pos + start - source.start, data)
    if digest.hexdigest() != source.sha256:
        raise StoreError("changed while it was read", path=source.file, offset=source.start)


def _nothing(_scene: PlanScene, _findings: Sequence[Finding]) -> Iterable[Action]:
    return ()


HEAL_ROWS: tuple[Row, ...] = (
    Repair(
        "heal-log",
        180,
        "copy ranges of the log from another copy of the store",
        _nothing,
        act_heal,
        CopiedRanges,
        writes_by=("commitlog_file_size",),
    ),
    Repair("heal-cut", 185, "cut the log where that of the other copy ends", _nothing, act_cut, LogCut),
)
