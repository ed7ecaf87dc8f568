"""Faults of the compacted logs: records, units, files, positions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats.consumequeue import BATCH_UNIT, BATCH_UNIT_SIZE
from rocketfsck.formats.record import RECORD_HEADER
from rocketfsck.reader.compaction import (
    CHECKPOINT,
    CompactedQueue,
    Units,
    compacted_queues,
    decode_positions,
    position_name,
    read_units,
)
from rocketfsck.store.model import MappedFile
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace, rules

COMPACTED = "compacted logs"
_OF_RECORD = rules(RuleName.COMPACTION_UNIT, RuleName.COMPACTION_RECORD_WITHOUT_UNIT)


@dataclass(frozen=True, slots=True)
class _CompactionScene:
    """One file of a compacted log with its units, before the fault."""

    queue: CompactedQueue
    log: MappedFile
    units_file: MappedFile
    units: Units

    def place(self, row: int) -> int:
        """Where the record of a unit begins in the log file."""
        return int(self.units["offset"][row]) - (self.log.start_offset or 0)

    def unit_place(self, row: int) -> PromisedPlace:
        """Where a finding on a unit is."""
        start = row * BATCH_UNIT_SIZE
        return PromisedPlace(
            self.units_file.relative,
            start,
            start + BATCH_UNIT_SIZE,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
        )

    def record_place(self, row: int) -> PromisedPlace:
        """Where a finding on the record of a unit is."""
        start = self.place(row)
        return PromisedPlace(
            self.log.relative,
            start,
            start + int(self.units["size"][row]),
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
        )


def _scene(job: Job) -> _CompactionScene:
    scenes = []
    for queue in compacted_queues(job.store):
        for log in queue.log.files:
            unit_file = queue.unit_file(log.name)
            if unit_file is None or not (job.is_free(log.relative) and job.is_free(unit_file.relative)):
                continue
            units = read_units(unit_file).leading
            if len(units) > 3:
                scenes.append(_CompactionScene(queue, log, unit_file, units))
    return job.choose(scenes, COMPACTED)


def _row(job: Job, scene: _CompactionScene) -> int:
    """A unit that is neither the first nor the last."""
    return 1 + job.rng.randrange(len(scene.units) - 2)


def _set_unit(job: Job, scene: _CompactionScene, row: int, name: str, value: int, rule: RuleName) -> None:
    start = row * BATCH_UNIT_SIZE + BATCH_UNIT.offset(name)
    size = 4 if name == "size" else 8
    job.editor.write(scene.units_file.relative, start, value.to_bytes(size, "big", signed=True))
    job.note = f"{name} of unit {row} of {scene.units_file.relative} is {value}"
    job.promise(rule, scene.unit_place(row))


@damage(None, causes=(RuleName.COMPACTION_UNIT,), needs=COMPACTED)
def compaction_unit(job: Job) -> None:
    """A unit of a compacted log states another size than its record."""
    scene = _scene(job)
    row = _row(job, scene)
    _set_unit(job, scene, row, "size", int(scene.units["size"][row]) + 1, RuleName.COMPACTION_UNIT)


@damage(
    None,
    causes=(RuleName.COMPACTION_UNIT,),
    needs=COMPACTED,
    may_also=rules(RuleName.COMPACTION_RECORD_WITHOUT_UNIT),
)
def compaction_link(job: Job) -> None:
    """A unit of a compacted log points into the middle of a record."""
    scene = _scene(job)
    row = _row(job, scene)
    inside = int(scene.units["offset"][row]) + 1 + job.rng.randrange(int(scene.units["size"][row]) - 1)
    _set_unit(job, scene, row, "offset", inside, RuleName.COMPACTION_UNIT)


@damage(None, causes=(RuleName.COMPACTION_ORDER,), needs=COMPACTED, may_also=_OF_RECORD)
def compaction_order(job: Job) -> None:
    """Queue offsets decrease in a compacted log's units."""
    scene = _scene(job)
    row = _row(job, scene)
    before = int(scene.units["msgBaseOffset"][row - 1])
    _set_unit(job, scene, row, "msgBaseOffset", before, RuleName.COMPACTION_ORDER)


@damage(None, causes=(RuleName.COMPACTION_RECORD_WITHOUT_UNIT,), needs=COMPACTED)
def compaction_unit_lost(job: Job) -> None:
    """The last unit of a compacted log is zeros."""
    scene = _scene(job)
    row = len(scene.units) - 1
    job.editor.write(scene.units_file.relative, row * BATCH_UNIT_SIZE, bytes(BATCH_UNIT_SIZE))
    job.note = f"unit {row} of {scene.units_file.relative} is zeros"
    job.promise(RuleName.COMPACTION_RECORD_WITHOUT_UNIT, scene.record_place(row))


@damage(None, causes=(RuleName.COMPACTION_BODY_CRC,), needs=COMPACTED)
def compaction_body(job: Job) -> None:
    """A bit in the body of a compacted message is wrong."""
    scene = _scene(job)
    row = _row(job, scene)
    log = job.log(scene.log)
    number = log.by_pos.get(scene.place(row))
    job.need(number is not None, "compacted message where its unit points")
    found = log.record(number or 0)
    job.need(found.body_size > 0, "compacted message with a body")
    pos = found.body_pos + job.rng.randrange(found.body_size)
    job.flip_bit(scene.log.relative, pos)
    job.note = f"the body of the message at {int(scene.units['offset'][row])} of {scene.log.relative} changed"
    job.promise(RuleName.COMPACTION_BODY_CRC, scene.record_place(row))


@damage(None, causes=(RuleName.COMPACTION_RECORD,), needs=COMPACTED, may_also=_OF_RECORD)
def compaction_record(job: Job) -> None:
    """A compacted record has a wrong physicalOffset."""
    scene = _scene(job)
    row = _row(job, scene)
    pos = scene.place(row) + RECORD_HEADER.offset("physicalOffset")
    job.editor.write(scene.log.relative, pos, (1 << 40).to_bytes(8, "big"))
    job.note = f"physicalOffset of the record at {scene.place(row)} of {scene.log.relative} is {1 << 40}"
    job.promise(RuleName.COMPACTION_RECORD, scene.record_place(row))


@damage(None, causes=(RuleName.COMPACTION_RECORD,), needs=COMPACTED, may_also=_OF_RECORD)
def compaction_magic(job: Job) -> None:
    """A compacted record has no magic."""
    scene = _scene(job)
    row = _row(job, scene)
    job.editor.write(scene.log.relative, scene.place(row) + RECORD_HEADER.offset("magicCode"), bytes(4))
    job.note = f"the magic of the record at {scene.place(row)} of {scene.log.relative} is 0"
    start = scene.place(row)
    job.promise(RuleName.COMPACTION_RECORD, PromisedPlace(scene.log.relative, start, start + 1), touches=True)


@damage(None, causes=(RuleName.COMPACTION_FILE_ALONE,), needs=COMPACTED)
def compaction_file_missing(job: Job) -> None:
    """A file of a compacted log, or of its units, is missing."""
    scene = _scene(job)
    lost, left = job.shuffled((scene.log, scene.units_file))
    job.editor.remove(lost.relative)
    job.note = f"{lost.relative} removed"
    job.promise(RuleName.COMPACTION_FILE_ALONE, PromisedPlace(left.relative))


@damage(
    None,
    causes=(RuleName.COMPACTION_FILE_LENGTH,),
    needs=COMPACTED,
    may_also=_OF_RECORD | rules(RuleName.COMPACTION_RECORD),
)
def compaction_file_short(job: Job) -> None:
    """A compacted log's file is cut off in the middle of its records."""
    scene = _scene(job)
    size = scene.place(_row(job, scene)) + 1
    job.editor.truncate(scene.log.relative, size)
    job.note = f"{scene.log.relative} cut to {size:,} bytes"
    job.promise(RuleName.COMPACTION_FILE_LENGTH, PromisedPlace(scene.log.relative))


def _positions(job: Job) -> dict[str, int]:
    job.need(job.editor.exists(CHECKPOINT) and job.is_free(CHECKPOINT), "position-checkpoint")
    try:
        return decode_positions(job.editor.content(CHECKPOINT))
    except StoreError:
        return {}


@damage(
    None,
    causes=(RuleName.COMPACTION_POSITION,),
    needs=COMPACTED,
    may_also=rules(RuleName.COMPACTION_KEY_TWICE),
)
def compaction_position(job: Job) -> None:
    """The position of a compaction is beyond the end of its queue."""
    queue = _scene(job).queue
    value = 1 << 40
    positions = {**_positions(job), position_name(queue.topic, queue.queue_id): value}
    job.editor.replace(CHECKPOINT, json.dumps({"queueOffsetMap": positions}).encode())
    job.note = f"{CHECKPOINT} says {value} for {queue.topic}, queue {queue.queue_id}"
    job.promise(
        RuleName.COMPACTION_POSITION, PromisedPlace(CHECKPOINT, topic=queue.topic, queue_id=queue.queue_id)
    )


@damage(None, causes=(RuleName.COMPACTION_POSITION,), needs=COMPACTED)
def compaction_position_torn(job: Job) -> None:
    """The file of compaction positions is cut off."""
    _scene(job)
    _positions(job)
    size = job.editor.size(CHECKPOINT) // 2
    job.editor.truncate(CHECKPOINT, size)
    job.note = f"{CHECKPOINT} cut to {size:,} bytes"
    job.promise(RuleName.COMPACTION_POSITION, PromisedPlace(CHECKPOINT))


@damage(None, causes=(RuleName.COMPACTION_POSITION,), needs=COMPACTED)
def compaction_position_missing(job: Job) -> None:
    """The file of compaction positions and its copy are missing."""
    _scene(job)
    job.need(_positions(job), "positions of a compaction")
    for file in (CHECKPOINT, f"{CHECKPOINT}.bak"):
        if job.editor.exists(file):
            job.editor.remove(file)
    job.note = f"{CHECKPOINT} removed"
    job.promise(RuleName.COMPACTION_POSITION, PromisedPlace(CHECKPOINT))
