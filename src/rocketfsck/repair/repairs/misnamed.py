"""Commit log files whose names are wrong: their records say where they belong.

A file of the right length whose first and last records agree on another start, at which no file stands, was
renamed: by an operator who moved it away, or by a copy. Everything else that a check says of such a log is a
consequence. Reference 1.2, 2.1; fault catalogue C6.

Records that say that they are elsewhere: their physicalOffset is written, where it is the damage.

A unit that leads to the record says so, or one that the same plan makes for it. A property CRC that is right
says the contrary: it covers the physicalOffset, so the record is whole, and a copy of one from elsewhere.
Reference 2.1, 2.7.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats import magic, properties, smallfiles
from rocketfsck.repair.log import LARGEST_FRAME, PHYSICAL_OFFSET_POS, frames_in
from rocketfsck.repair.plan.arguments import NewName, RecordPositions
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.table import ActScene, PlanScene, Repair, Row
from rocketfsck.repair.repairs.answers import (
    acted_log_file,
    answer,
    by_file,
    log_file,
    one_by_one,
    record_count,
)
from rocketfsck.scan.columns import RecordBatch
from rocketfsck.scan.log.resync import Ground, Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.spans import distinct
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader, read_at
from rocketfsck.verify.finding import Finding


def single_offsets(findings: Sequence[Finding]) -> list[Finding]:
    """The findings on one record alone that says that it is elsewhere."""
    return [
        finding
        for finding in one_by_one(findings)
        if finding.rule == RuleName.RECORD_PHYSICAL_OFFSET and finding.count == 1
    ]


def stands_right(scene: PlanScene, finding: Finding) -> bool:
    """Whether the unit at a record's queue offset leads to where it stands, and says its size, and nothing
    proves that it belongs elsewhere."""
    where = finding.where
    offset, size = where.physical_offset or 0, (where.end or 0) - (where.start or 0)
    return not belongs_elsewhere(scene, finding) and any(
        (frames.queue.topic, frames.queue.queue_id) == (where.topic, where.queue_id)
        and int(frames.offset[0]) == offset
        and int(frames.size[0]) == size
        and (frames.queue.kind == "batch" or int(frames.index[0]) == where.queue_offset)
        for frames in frames_in(scene.store, offset, offset + 1)
    )


def belongs_elsewhere(scene: PlanScene, finding: Finding) -> bool:
    """Whether the property CRC of a record proves that what it says of its place was written so."""
    start = finding.where.start or 0
    size = (finding.where.end or 0) - start
    if not properties.PROPERTY_CRC_SIZE < size <= LARGEST_FRAME:
        return False
    try:
        record = read_at(scene.path_of(finding.where.file), start, size)
    except StoreError:
        return False
    return record.endswith(properties.property_crc_trailer(properties.property_crc(record)))


def set_offsets(scene: PlanScene, findings: Sequence[Finding], *, gained: bool = True) -> Iterator[Action]:
    """Actions that write into these records where they are. `gained`: no other action counts them so."""
    for name, found in by_file(findings).items():
        places = [finding.where.start or 0 for finding in found]
        yield answer(
            "set-physical-offset",
            name,
            f"correct the physicalOffset of {count_of(len(places), 'record')}: units of the queues confirm "
            "the place",
            found,
            arguments=RecordPositions(tuple(places)),
            preconditions=[
                scene.extent(name, finding.where.start or 0, finding.where.end) for finding in found
            ],
            losses=[
                Loss(
                    "byte",
                    8,
                    start_offset=finding.where.physical_offset,
                    end_offset=(finding.where.physical_offset or 0) + 8,
                )
                for finding in found
            ],
            gains={"record": len(places)} if gained else {},
            write_byte_count=8 * len(places),
        )


def act_offsets(scene: ActScene, action: Action, arguments: RecordPositions) -> None:
    """Write into the records where they are."""
    file = acted_log_file(scene.reopen(), action)
    if not all(0 <= pos <= file.size - magic.MIN_RECORD_SIZE for pos in arguments.positions):
        raise StoreError("has no record at a place named in the plan", path=action.target)
    for pos in arguments.positions:
        offset = (file.start_offset or 0) + pos
        scene.tree.write(action.target, pos + PHYSICAL_OFFSET_POS, offset.to_bytes(8, "big"))


_ASKING = frozenset(
    {
        RuleName.RECORD_PHYSICAL_OFFSET,
        RuleName.FOREIGN_FILE,
        RuleName.FOREIGN_FILE_HARMLESS,
        RuleName.FOREIGN_NUMBER,
    }
)
_FOLLOWING = frozenset(
    {
        RuleName.SEGMENT_GAP,
        RuleName.SEGMENT_OVERLAP,
        RuleName.SEGMENT_ALIGNMENT,
        RuleName.SEGMENTS_NEVER_FILLED,
        RuleName.SEGMENT_ZERO_INSIDE,
        RuleName.QUEUES_OF_ANOTHER_LOG,
        RuleName.BLANK_MISSING,
        RuleName.QUEUE_OFFSET_GAP,
        RuleName.CONSUMER_OFFSET_OF_LOST_UNITS,
        RuleName.GHOST_QUEUE,
        RuleName.DELAY_OFFSET_RANGE,
        RuleName.CHECKPOINT_AHEAD,
        RuleName.CONFIRM_OFFSET,
        RuleName.CONFIRM_OFFSET_AHEAD,
        RuleName.EPOCH_RANGE,
        RuleName.EPOCH_BOUNDARY,
    }
)


@dataclass(frozen=True, slots=True)
class Rename:
    """`old` and `new` are names relative to the root; `new` is what the records of the file say.

    `circle`: all names of files of which each has the name of another; each gets the name after its own, the
    last one the first, which is `old`.
    """

    old: str
    new: str
    size: int
    circle: tuple[str, ...] = ()


def pending_renames(scene: PlanScene) -> tuple[Rename, ...]:
    """The renames that the report's findings call for, in an order in which every name is free in time."""
    asked = {
        finding.where.file
        for finding in one_by_one(scene.findings)
        if finding.rule in _ASKING
        and (
            finding.rule == RuleName.RECORD_PHYSICAL_OFFSET
            or finding.found.get("area") == "commitlog"
            or finding.rule == RuleName.FOREIGN_NUMBER
        )
    }
    taken = {file.start_offset for file in scene.store.commitlog.files if file.relative not in asked}
    found: dict[str, Rename] = {}
    for name in sorted(asked):
        renamed = _rename_of(scene, name)
        if renamed is None:
            continue
        start = int(renamed.new.rpartition("/")[2])
        if start not in taken and renamed.new not in found:
            found[renamed.new] = renamed
    return _in_order(scene, {renamed.old: renamed for renamed in found.values()})


def _in_order(scene: PlanScene, left: dict[str, Rename]) -> tuple[Rename, ...]:
    """Files whose new name is free first; files that have each other's names in one step."""
    while kept := [
        renamed
        for renamed in left.values()
        if renamed.new not in left and os.path.lexists(scene.path_of(renamed.new))
    ]:
        for renamed in kept:  # the name is that of a file that keeps it
            del left[renamed.old]
    done: list[Rename] = []
    while left:
        free = next((renamed for renamed in left.values() if renamed.new not in left), None)
        if free is not None:
            done.append(left.pop(free.old))
            continue
        first = left.pop(min(left))
        circle, following = [first.old], first.new
        while following != first.old:
            circle.append(following)
            following = left.pop(following).new
        done.append(replace(first, circle=tuple(circle)))
    return tuple(done)


def leaving_twins(scene: PlanScene) -> dict[str, Finding]:
    """Commit log files that are all zeros and have the name of one with records, each with its finding."""
    found: dict[str, Finding] = {}
    for finding in one_by_one(scene.findings):
        if finding.rule == RuleName.SEGMENT_TWICE:
            names = [finding.where.file, str(finding.found.get("twin", ""))]
            zero = [name for name in names if name and is_zero(scene, name)]
            full = [name for name in names if name and record_count(scene, name)]
            if zero and (len(zero) == 2 or full):
                found[zero[-1]] = finding
    return found


def is_zero(scene: PlanScene, name: str, start: int = 0) -> bool:
    """Whether a file holds only zeros from a position on; not so if it cannot be read."""
    try:
        return is_zero_from(scene.path_of(name), start)
    except StoreError:
        return False


def is_zero_from(location: str, start: int) -> bool:
    """Whether a file holds only zeros from a position on. Raises StoreError."""
    with FileReader(location) as reader:
        return reader.used_end(start) == start


def is_misnamed(scene: PlanScene) -> bool:
    """Whether files of the log have wrong names, or are another store's: then nothing else is planned, for
    all that a check says of it is a consequence."""
    finds = (pending_renames, leaving_twins, displaced_files, borrowed_files)
    return any(scene.once(find) for find in finds)


def lacks_its_log(scene: PlanScene) -> bool:
    """Whether the log of this store is not there: none is, or one that no queue refers to."""
    return any(finding.rule in _WITHOUT_LOG for finding in scene.findings)


_WITHOUT_LOG = frozenset({RuleName.COMMITLOG_MISSING, RuleName.QUEUES_OF_ANOTHER_LOG})


def borrowed_files(scene: PlanScene) -> list[str]:
    """The files of the log, or the whole log, that are another store's; and the files that are copies of
    others in the log, or have others appended."""
    return [finding.where.file for finding in scene.findings if finding.rule in _BORROWED]


_BORROWED = frozenset(
    {
        RuleName.LOG_FILE_FOREIGN,
        RuleName.LOG_FOREIGN,
        RuleName.LOG_FILE_COPIED,
        RuleName.LOG_FILE_APPENDED,
    }
)


def displaced_files(scene: PlanScene) -> list[str]:
    """Commit log files of which every record says that it is elsewhere: what belongs there is unknown."""
    return [
        finding.where.file
        for finding in one_by_one(scene.findings)
        if finding.rule == RuleName.RECORD_PHYSICAL_OFFSET
        and finding.count == record_count(scene, finding.where.file)
        and (finding.count > 1 or not stands_right(scene, finding))
    ]


def is_unsettled(scene: PlanScene) -> bool:
    """Whether the log is not the one that it will be once its files have their names, or a part of it is
    hidden by a BLANK that does not belong there."""
    if is_misnamed(scene):
        return True
    for finding in one_by_one(scene.findings):
        file = log_file(scene.store, finding.where.file) if finding.rule == RuleName.BLANK_TOO_EARLY else None
        if file is not None and hidden_record(scene, file, finding.where.start or 0) is not None:
            return True
    return False


def hidden_record(scene: PlanScene, file: MappedFile, pos: int) -> int | None:
    """The position of the first sound record behind a BLANK that ends at `pos`, if a unit leads to that very
    record: then the BLANK is damage. None where no unit does."""
    base, size = file.start_offset or 0, scene.store.geometry.commitlog_file_size
    try:
        with FileReader(file.path) as reader, ReadAhead(reader, threaded=False) as window:
            found = Ground(reader, window, base, size).carve(pos, base)
    except StoreError:
        return None
    if found is None or not any(frames_in(scene.store, base + found, base + found + 1)):
        return None
    return found


def claims(finding: Finding) -> bool:
    """Whether a finding is a consequence of a misnamed file, so that nothing else should answer it."""
    return finding.rule[:2] in ("XR", "CQ") or finding.rule in _FOLLOWING


def _rename_of(scene: PlanScene, name: str) -> Rename | None:
    """Where a file belongs; None where it does not say so, or is there."""
    size = scene.store.geometry.commitlog_file_size
    try:
        start = _stated_start(scene, name, size)
    except StoreError:
        return None
    if start is None or start < 0 or start % size:
        return None
    directory, _, base = name.rpartition("/")
    right = smallfiles.offset_to_filename(start)
    return None if base == right else Rename(name, f"{directory}/{right}", size)


def _stated_start(scene: PlanScene, name: str, size: int) -> int | None:
    """The physical offset at which the file begins by what all of its records say."""
    options = ScanOptions(False, scene.store.dialect.property_parser, size)
    stated: set[int] = set()
    with FileReader(scene.path_of(name)) as reader:
        if reader.size != size:
            return None
        for item in scan_log_file(reader, 0, options, QueueTable()):
            if isinstance(item, RecordBatch):
                stated |= set(distinct(item["physical_offset"] - item["pos"]).tolist())
                if len(stated) > 1:
                    return None
            elif isinstance(item, Region) and item.kind in (RegionKind.DAMAGED, RegionKind.MALFORMED):
                return None
    return stated.pop() if stated else None


def plan_rename(scene: PlanScene, _findings: Sequence[Finding] = ()) -> Iterator[Action]:
    """One action a file; it answers what the wrong name is the cause of, too."""
    for renamed in scene.once(pending_renames):
        names = renamed.circle or (renamed.old,)
        own = [finding for finding in scene.findings if finding.where.file in names]
        rest = [finding for finding in scene.findings if claims(finding)]
        many = f" ({count_of(len(names), 'file')} have each other's names)" if renamed.circle else ""
        yield answer(
            "rename-segment",
            renamed.old,
            f"rename the file to {renamed.new.rpartition('/')[2]}, the offset in its records{many}",
            [*own, *rest],
            arguments=NewName(circle=tuple(map(_base, names))) if renamed.circle else NewName(renamed.new),
            preconditions=[scene.extent(name, 0, min(renamed.size, 1 << 20)) for name in names],
        )


def act_rename(scene: ActScene, action: Action, arguments: NewName) -> None:
    """Give the file its name, or all files of a circle theirs."""
    if not arguments.circle:
        scene.tree.rename(action.target, arguments.new_name)
        return
    names = [action.target.removesuffix(_base(action.target)) + base for base in arguments.circle]
    between = f"{names[-1]}.renamed"
    scene.tree.rename(names[-1], between)
    for old, new in reversed(list(pairwise(names))):
        scene.tree.rename(old, new)
    scene.tree.rename(between, names[0])


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def plan_offsets(scene: PlanScene, findings: Sequence[Finding]) -> Iterator[Action]:
    """A wrong name, or single records with a wrong physicalOffset to which a unit of their queue leads."""
    yield from plan_rename(scene)
    if is_misnamed(scene):
        return
    yield from set_offsets(
        scene, [finding for finding in single_offsets(findings) if stands_right(scene, finding)]
    )


ROWS: tuple[Row, ...] = (
    Repair(
        "rename-segment",
        100,
        "rename a commit log file by the offset in its records",
        plan_offsets,
        act_rename,
        NewName,
        writes_by=("commitlog_file_size",),
        answers=(RuleName.FOREIGN_FILE, RuleName.FOREIGN_FILE_HARMLESS, RuleName.FOREIGN_NUMBER),
    ),
    Repair(
        "set-physical-offset",
        105,
        "correct the physicalOffset of records",
        lambda _s, _f: (),
        act_offsets,
        RecordPositions,
        answers=(RuleName.RECORD_PHYSICAL_OFFSET,),
    ),
)
