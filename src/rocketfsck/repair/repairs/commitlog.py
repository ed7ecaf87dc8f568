"""Repairs of the commit log: fences over damage, the tail cut or sealed, BLANKs that are missing.

    damage with sound records behind it    fence: filler records in its place         salvage-log, fence-gap
    damage with nothing behind it          cut: zeros from the last sound record on   cut-log
    old or foreign bytes behind the end    seal: zeros, so that no start finds them   zero-stale-tail
    a body that one flipped bit explains   the bit turned back                        flip-bit
    a file that ends without a BLANK       the BLANK                                  write-blank

What is overwritten is set aside first. Fault catalogue C1 to C3, C5; reference 2.8, 6.2, 6.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.formats.magic import BLANK_HEADER_SIZE
from rocketfsck.repair.logedit import (
    QueueFrames,
    blank_pos_of,
    frames_in,
    is_fenceable,
    keep_bytes,
    losses_of,
    time_at,
    write_blank,
    write_fence,
)
from rocketfsck.repair.logrecords import lost_records, without_records
from rocketfsck.repair.plan import Action, Extent, Loss, Notice
from rocketfsck.repair.repairs.answers import (
    Span,
    ahead_of_all,
    answer,
    by_file,
    goes_on_after,
    log_file,
    merge_ranges,
    notice,
    number,
    one_by_one,
    rules_in,
    text,
)
from rocketfsck.repair.repairs.index import rebuild_indexes
from rocketfsck.repair.repairs.misnamed import claims, hidden_record, is_misnamed
from rocketfsck.repair.repairs.queues import cut_queues, rebuild_queues
from rocketfsck.repair.repairs_onebit import ONE_BIT
from rocketfsck.repair.scene import ActScene, PlanScene
from rocketfsck.repair.table import Repair
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.verify.finding import Finding

KEPT = "set aside"
_FILLER_TRAITS = ("property_crc",)
_INNER = ("CL001", "CL003", "CL020")
"""Rules of damage with records behind it in the same file."""
FENCE_LIMIT = 4096
"""Missing files that are made and fenced at most; a larger gap is no gap in one store."""


def plan_salvage_log(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Fences over damage that sound records follow; a file of nothing but damage behind the log is cut."""
    if is_misnamed(scene):
        return
    for name, found in by_file(one_by_one(findings)).items():
        file = log_file(scene.store, name)
        if file is None:
            continue
        empty = [finding for finding in found if finding.rule == "CL030"]
        if empty and not goes_on_after(scene, file):
            if not ahead_of_all(scene, file):
                yield from _set_aside(scene, file, empty)
        else:
            yield from fence_file(scene, file)


def plan_gaps(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """Fences over files that are not there, between others; gaps of queues are for the queues' repair."""
    if is_misnamed(scene):
        return
    for finding in one_by_one(findings):
        file = log_file(scene.store, finding.where.file)
        if file is None:
            yield from rebuild_queues(scene)
        else:
            yield from _missing_files(scene, file, finding)


def fence_file(scene: PlanScene, file: MappedFile) -> Iterator[Action]:
    """The one action that fences all that is damaged in a file, and what follows from it.

    It is the same whichever finding asks for it.
    """
    store, base = scene.store, file.start_offset or 0
    asked = _fence_ranges(scene, file)
    spans = [span for span in merge_ranges(span for _, span in asked) if is_fenceable(span[1] - span[0])]
    why = [
        finding for finding, (start, end) in asked if any(low <= start and end <= high for low, high in spans)
    ]
    if any(finding.rule == "CL020" for finding in why):
        why += [finding for finding in scene.findings if claims(finding)]
    else:
        why += _lost_units(scene, [(base + low, base + high) for low, high in spans])
    if not spans:
        yield from end_file(scene, file)
        return
    frames = [frame for low, high in spans for frame in frames_in(store, base + low, base + high)]
    yield answer(
        "salvage-log",
        file.relative,
        f"fill {sum(high - low for low, high in spans)} bytes of damage from {base + spans[0][0]} on with "
        "filler records, so that what follows stays readable",
        why,
        arguments={
            "ranges": " ".join(f"{base + low}-{base + high}" for low, high in spans),
            "store_timestamps": " ".join(str(time_at(store, base + low)) for low, _ in spans),
            "version": str(store.dialect.version),
        },
        preconditions=[
            scene.extent(file.relative, min(low, file.size), min(high, file.size)) for low, high in spans
        ],
        losses=[
            *losses_of(frames, KEPT),
            *(
                Loss("byte", high - low, start_offset=base + low, end_offset=base + high, kept_in=KEPT)
                for low, high in spans
            ),
        ],
        write_size=sum(high - low for low, high in spans),
        notices=[_delivered(frames)],
    )
    yield from end_file(scene, file)
    yield from _index_follows(scene)


def _delivered(frames: Iterable[QueueFrames]) -> Notice | None:
    """Units that lead to filler records from now on: who consumes by them is given the filler."""
    return notice("fillers-delivered", sum(len(item.offset) for item in frames))


def _lost_units(scene: PlanScene, spans: Sequence[Span]) -> list[Finding]:
    """The findings on units of records that are lost in these physical offsets: filler answers them."""
    return [
        finding
        for finding in one_by_one(scene.findings)
        if finding.rule in ("XR010", "XR011")
        and any(
            low <= number(finding.found, "first_offset", -1)
            and number(finding.found, "last_offset", high) < high
            for low, high in spans
        )
    ]


def _fence_ranges(scene: PlanScene, file: MappedFile) -> list[tuple[Finding, Span]]:
    """What is to be fenced in a file (positions), each with the finding that says so."""
    whole = scene.store.geometry.commitlog_file_size
    limit = blank_pos_of(whole)
    mid_log = file.size <= whole and goes_on_after(scene, file)
    found: list[tuple[Finding, Span]] = []
    for finding in one_by_one(scene.findings):
        if finding.where.file != file.relative:
            continue
        start, end = finding.where.start or 0, min(finding.where.end or 0, limit)
        if finding.rule in ("CL001", "CL003"):
            found.append((finding, (start, end)))
        elif finding.rule == "CL020" and (hidden := hidden_record(scene, file, start)) is not None:
            found.append((finding, (start - BLANK_HEADER_SIZE, hidden)))
        elif finding.rule == "CL002" and mid_log:
            found.append((finding, (start, _last_unit(scene, file, start, limit))))
        elif finding.rule in ("CL030", "ST017") and mid_log:
            found.append((finding, (0, _last_unit(scene, file, 0, limit))))
        elif finding.rule == "CL019" and mid_log:
            found.append((finding, (start, _last_unit(scene, file, start, limit))))
    return found


def _last_unit(scene: PlanScene, file: MappedFile, start: int, limit: int) -> int:
    """Where in `start:limit` of a file the last record ends that a unit points to; `start` without any."""
    base = file.start_offset or 0
    frames = frames_in(scene.store, base + start, base + limit)
    ends = [int((frame.offset + frame.size).max()) - base for frame in frames]
    return max([start, *(end for end in ends if end <= limit)])


def end_file(scene: PlanScene, file: MappedFile) -> Iterator[Action]:
    """The BLANK that ends a file, behind what is fenced in it. The same whichever finding asks for it."""
    whole, base = scene.store.geometry.commitlog_file_size, file.start_offset or 0
    limit = blank_pos_of(whole)
    tails = [span for finding, span in _fence_ranges(scene, file) if finding.rule not in _INNER]
    fenced = [end for start, end in tails if is_fenceable(end - start)]
    own = [finding for finding in one_by_one(scene.findings) if finding.where.file == file.relative]
    why = [finding for finding in own if finding.rule in ("CL018", "CL019")]
    starts = [finding.where.start or 0 for finding in why] + [start for start, _ in tails]
    why += [finding for finding in own if finding.rule in ("CL002", "CL030", "ST017") and tails]
    if file.size > whole or not why:
        return
    pos = max(fenced) if fenced else min(starts)
    if pos > limit:
        return
    end = min(pos + BLANK_HEADER_SIZE, file.size)
    yield answer(
        "write-blank",
        file.relative,
        f"end the file with a BLANK at {base + pos}, so that readers go on in the next",
        why,
        arguments={"start_offset": base + pos},
        preconditions=[scene.extent(file.relative, pos, end)] if pos < end else [],
        write_size=BLANK_HEADER_SIZE,
        notices=[notice("file-ends-early", 1)] if tails else [],
    )


def _missing_files(scene: PlanScene, following: MappedFile, finding: Finding) -> Iterator[Action]:
    """Files that are not there, between others of the commit log."""
    store = scene.store
    size, limit = store.geometry.commitlog_file_size, following.start_offset or 0
    first = number(finding.expected, "start_offset", -1)
    if first < 0 or (limit - first) % size or not 0 < (limit - first) // size <= FENCE_LIMIT:
        return
    directory = following.relative.rpartition("/")[0]
    timestamp = time_at(store, first)
    for start in range(first, limit, size):
        name = f"{directory}/{offset_to_filename(start)}"
        inside = frames_in(store, start, start + size)
        end = max([start, *(int((frame.offset + frame.size).max()) for frame in inside)])
        if end > start + blank_pos_of(size):
            return
        yield answer(
            "fence-gap",
            name,
            "make a file of filler records in the place of the missing one, so that offsets go on",
            [finding, *_lost_units(scene, [(first, limit)])],
            arguments={
                "start_offset": start,
                "end_offset": end,
                "size": size,
                "store_timestamp": timestamp,
                "version": str(store.dialect.version),
            },
            preconditions=[Extent(name, 0, None, None)],
            losses=losses_of(inside),
            write_size=size,
            notices=[notice("file-made-up", 1), _delivered(inside)],
        )
    yield from _index_follows(scene)


def _set_aside(scene: PlanScene, file: MappedFile, findings: Sequence[Finding]) -> Iterator[Action]:
    base = file.start_offset or 0
    yield answer(
        "cut-log",
        file.relative,
        "set the file aside: it lies behind the end of the log and holds no sound record",
        findings,
        arguments={"start_offset": base, "whole_file": True},
        preconditions=[scene.extent(file.relative)],
        losses=[Loss("byte", file.size, start_offset=base, end_offset=base + file.size, kept_in=KEPT)],
    )
    yield from _tail_follows(scene, base)


def plan_cut_log(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """The record that was not written to its end goes; in the middle of the log it is fenced."""
    if is_misnamed(scene):
        return
    for name, found in by_file(one_by_one(findings)).items():
        file = log_file(scene.store, name)
        if file is None:
            continue
        start = min(finding.where.start or 0 for finding in found)
        if goes_on_after(scene, file):
            yield from fence_file(scene, file)
            yield from end_file(scene, file)
            continue
        base = file.start_offset or 0
        yield _cut(scene, "cut-log", file, start, found, "cut the log behind its last whole record")
        yield from _tail_follows(scene, base + start)


def plan_zero_stale_tail(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """What stands behind the end becomes zeros."""
    if is_misnamed(scene):
        return
    for name, found in by_file(one_by_one(findings)).items():
        file = log_file(scene.store, name)
        if file is not None:
            start = min(finding.where.start or 0 for finding in found)
            note = "write zeros over what lies behind the end of the log, so that no start takes it up again"
            yield _cut(scene, "zero-stale-tail", file, start, found, note)
            if not goes_on_after(scene, file):
                yield from _tail_follows(scene, (file.start_offset or 0) + start)


def _cut(
    scene: PlanScene, name: str, file: MappedFile, start: int, findings: Sequence[Finding], note: str
) -> Action:
    base = file.start_offset or 0
    end = max((finding.where.end or start for finding in findings), default=start)
    records = lost_records(scene.store, file, start, KEPT)
    frames = without_records(frames_in(scene.store, base + start, base + end), records)
    return answer(
        name,
        file.relative,
        note,
        findings,
        arguments={"start_offset": base + start},
        preconditions=[scene.extent(file.relative, max(start - 1, 0), end)],
        losses=[
            *(record.loss for record in records),
            *losses_of(frames, KEPT),
            Loss(
                "byte",
                end - start,
                start_offset=base + start,
                end_offset=base + end,
                kept_in=KEPT,
                # half a record was never acknowledged as a whole, and nothing valid lies behind it
                valid=name != "cut-log" or bool(frames) or bool(records),
            ),
        ],
        write_size=file.size - start,
    )


def _tail_follows(scene: PlanScene, end_offset: int) -> Iterator[Action]:
    """What refers to the log behind its new end goes, too."""
    yield from cut_queues(scene, end_offset)
    yield from _index_follows(scene)


def _index_follows(scene: PlanScene) -> Iterator[Action]:
    """Entries of records that are gone go with them."""
    if rules_in(scene) & {"XR022", "XR023", "XR029", "XR030"}:
        yield from rebuild_indexes(scene)


def plan_write_blank(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """A BLANK where the live records of a file end, though the log goes on in the next."""
    if is_misnamed(scene):
        return
    for name in by_file(one_by_one(findings)):
        file = log_file(scene.store, name)
        if file is not None:
            yield from fence_file(scene, file)
            yield from end_file(scene, file)


def _file_of(store: Store, action: Action) -> MappedFile:
    """The commit log file that an action is about; raises StoreError where it is not there."""
    file = log_file(store, action.target)
    if file is None:
        raise StoreError("is no commit log file any more", path=action.target)
    return file


def act_fence(scene: ActScene, action: Action) -> None:
    """Fill the ranges with filler records."""
    store = scene.reopen()
    file = _file_of(store, action)
    base = file.start_offset or 0
    ranges = [part.split("-") for part in text(action.arguments, "ranges").split()]
    times = text(action.arguments, "store_timestamps").split()
    for (low, high), timestamp in zip(ranges, times, strict=True):
        start, end = int(low), int(high)
        if not base <= start < end <= base + file.size:
            raise StoreError(f"does not hold the offsets {start} to {end}", path=action.target)
        keep_bytes(scene.tree, file.relative, start - base, end - base)
        version = text(action.arguments, "version")
        write_fence(scene.tree, store, file, start, end, version=version, timestamp=int(timestamp))


def act_fence_gap(scene: ActScene, action: Action) -> None:
    """Make the file that is missing, filled with filler records to its BLANK."""
    start, size = number(action.arguments, "start_offset"), number(action.arguments, "size")
    if scene.tree.exists(action.target):
        raise StoreError("exists", path=action.target)
    scene.tree.create(action.target, size)
    store = scene.reopen()
    file = _file_of(store, action)
    timestamp = number(action.arguments, "store_timestamp", 1)
    version = text(action.arguments, "version")
    end = number(action.arguments, "end_offset")
    if end > start:
        write_fence(scene.tree, store, file, start, end, version=version, timestamp=timestamp)
    write_blank(scene.tree, file.relative, end - start)
    scene.tree.set_mtime(file.relative, timestamp * 1_000_000)


def act_cut(scene: ActScene, action: Action) -> None:
    """Zeros from an offset to the end of its file; or the whole file set aside."""
    file = _file_of(scene.reopen(), action)
    base = file.start_offset or 0
    start = number(action.arguments, "start_offset") - base
    if action.arguments.get("whole_file"):
        scene.tree.set_aside(file.relative)
        return
    if not 0 <= start <= file.size:
        raise StoreError(f"does not hold the offset {base + start}", path=action.target)
    keep_bytes(scene.tree, file.relative, start, file.size)
    scene.tree.zero(file.relative, start, file.size)


def act_write_blank(scene: ActScene, action: Action) -> None:
    """Write the BLANK."""
    file = _file_of(scene.reopen(), action)
    pos = number(action.arguments, "start_offset") - (file.start_offset or 0)
    if not 0 <= pos <= blank_pos_of(file.size):
        raise StoreError("has no room for a BLANK there", path=action.target)
    write_blank(scene.tree, file.relative, pos)


ROWS: tuple[Repair, ...] = (
    ONE_BIT,
    Repair(
        "fence-gap",
        190,
        "make and fence a commit log file that is missing",
        plan_gaps,
        act_fence_gap,
        writes_by=("commitlog_file_size",),
        traits=_FILLER_TRAITS,
        answers=("XR011",),
    ),
    Repair(
        "zero-stale-tail",
        200,
        "write zeros over old bytes behind the log's end",
        plan_zero_stale_tail,
        act_cut,
    ),
    Repair(
        "cut-log",
        210,
        "cut the log behind its last whole record",
        plan_cut_log,
        act_cut,
        answers=("CL030",),
    ),
    Repair(
        "salvage-log",
        220,
        "fence damage so that what follows stays readable",
        plan_salvage_log,
        act_fence,
        traits=_FILLER_TRAITS,
        answers=("CL002", "CL019", "XR010"),
    ),
    Repair(
        "write-blank",
        230,
        "end a commit log file with its BLANK",
        plan_write_blank,
        act_write_blank,
        writes_by=("commitlog_file_size",),
        answers=("CL002", "CL030", "ST017"),
    ),
)
