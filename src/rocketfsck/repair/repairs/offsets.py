"""Records that say that they are elsewhere: their physicalOffset is written, where it is the damage.

A unit that leads to the record says so, or one that the same plan makes for it. A property CRC that is right
says the contrary: it covers the physicalOffset, so the record is whole, and a copy of one from elsewhere.
Reference 2.1, 2.7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import MIN_RECORD_SIZE
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.repair.log.edit import LARGEST_FRAME, PHYSICAL_OFFSET_POS, frames_in
from rocketfsck.repair.plan.arguments import RecordPositions
from rocketfsck.repair.plan.model import Action, Loss
from rocketfsck.repair.plan.scene import ActScene, PlanScene
from rocketfsck.repair.repairs.answers import answer, by_file, log_file, one_by_one
from rocketfsck.store.reading import read_at
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
    if not PROPERTY_CRC_SIZE < size <= LARGEST_FRAME:
        return False
    try:
        record = read_at(scene.path_of(finding.where.file), start, size)
    except StoreError:
        return False
    return record.endswith(property_crc_trailer(property_crc(record)))


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
    file = log_file(scene.reopen(), action.target)
    if file is None:
        raise StoreError("is no longer a commit log file", path=action.target)
    if not all(0 <= pos <= file.size - MIN_RECORD_SIZE for pos in arguments.positions):
        raise StoreError("has no record at a place named in the plan", path=action.target)
    for pos in arguments.positions:
        offset = (file.start_offset or 0) + pos
        scene.tree.write(action.target, pos + PHYSICAL_OFFSET_POS, offset.to_bytes(8, "big"))
