"""Faults of tiered storage: segments, records, units, index files, metadata.

Faults of the compacted logs: records, units, files, positions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import StoreError
from rocketfsck.formats import consumequeue, dtypes, record, tiered
from rocketfsck.formats.layout import Layout
from rocketfsck.reader import compaction
from rocketfsck.reader.compaction import (
    Units as CompactedUnits,
)
from rocketfsck.reader.tiered import METADATA, TieredQueue, read_segment_header, tiered_queues
from rocketfsck.reader.units import Units
from rocketfsck.store.model import MappedFile, OtherKind, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace, rules

COMPACTED = "compacted logs"
_OF_COMPACTED = rules(RuleName.COMPACTION_UNIT, RuleName.COMPACTION_RECORD_WITHOUT_UNIT)


@dataclass(frozen=True, slots=True)
class _CompactionScene:
    """One file of a compacted log with its units, before the fault."""

    queue: compaction.CompactedQueue
    log: MappedFile
    units_file: MappedFile
    units: CompactedUnits

    def place(self, row: int) -> int:
        """Where the record of a unit begins in the log file."""
        return int(self.units["offset"][row]) - (self.log.start_offset or 0)

    def unit_place(self, row: int) -> PromisedPlace:
        """Where a finding on a unit is."""
        start = row * consumequeue.BATCH_UNIT_SIZE
        return PromisedPlace(
            self.units_file.relative,
            start,
            start + consumequeue.BATCH_UNIT_SIZE,
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


def _compacted_scene(job: Job) -> _CompactionScene:
    scenes = []
    for queue in compaction.compacted_queues(job.store):
        for log in queue.log.files:
            unit_file = queue.unit_file(log.name)
            if unit_file is None or not (job.is_free(log.relative) and job.is_free(unit_file.relative)):
                continue
            units = compaction.read_units(unit_file).leading
            if len(units) > 3:
                scenes.append(_CompactionScene(queue, log, unit_file, units))
    return job.choose(scenes, COMPACTED)


def _compacted_row(job: Job, scene: _CompactionScene) -> int:
    """A unit that is neither the first nor the last."""
    return 1 + job.rng.randrange(len(scene.units) - 2)


def _set_unit(job: Job, scene: _CompactionScene, row: int, name: str, value: int) -> None:
    start = row * consumequeue.BATCH_UNIT_SIZE + consumequeue.BATCH_UNIT.offset(name)
    size = 4 if name == "size" else 8
    job.editor.write(scene.units_file.relative, start, value.to_bytes(size, "big", signed=True))
    job.done(f"{name} of unit {row} of {scene.units_file.relative} is {value}", scene.unit_place(row))


@damage(None, RuleName.COMPACTION_UNIT, COMPACTED)
def compaction_unit(job: Job) -> None:
    """A unit of a compacted log states another size than its record."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    _set_unit(job, scene, row, "size", int(scene.units["size"][row]) + 1)


@damage(None, RuleName.COMPACTION_UNIT, COMPACTED, RuleName.COMPACTION_RECORD_WITHOUT_UNIT)
def compaction_link(job: Job) -> None:
    """A unit of a compacted log points into the middle of a record."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    inside = int(scene.units["offset"][row]) + 1 + job.rng.randrange(int(scene.units["size"][row]) - 1)
    _set_unit(job, scene, row, "offset", inside)


@damage(None, RuleName.COMPACTION_ORDER, COMPACTED, _OF_COMPACTED)
def compaction_order(job: Job) -> None:
    """Queue offsets decrease in a compacted log's units."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    before = int(scene.units["msgBaseOffset"][row - 1])
    _set_unit(job, scene, row, "msgBaseOffset", before)


@damage(None, RuleName.COMPACTION_RECORD_WITHOUT_UNIT, COMPACTED)
def compaction_unit_lost(job: Job) -> None:
    """The last unit of a compacted log is zeros."""
    scene = _compacted_scene(job)
    row = len(scene.units) - 1
    job.editor.write(
        scene.units_file.relative, row * consumequeue.BATCH_UNIT_SIZE, bytes(consumequeue.BATCH_UNIT_SIZE)
    )
    job.done(f"unit {row} of {scene.units_file.relative} is zeros", scene.record_place(row))


@damage(None, RuleName.COMPACTION_BODY_CRC, COMPACTED)
def compaction_body(job: Job) -> None:
    """A bit in the body of a compacted message is wrong."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    log = job.log(scene.log)
    number = log.by_pos.get(scene.place(row))
    job.need(number is not None, "compacted message where its unit points")
    found = log.record(number or 0)
    job.need(found.body_size > 0, "compacted message with a body")
    pos = found.body_pos + job.rng.randrange(found.body_size)
    job.flip_bit(scene.log.relative, pos)
    job.note = f"the body of the message at {int(scene.units['offset'][row])} of {scene.log.relative} changed"
    job.promise(scene.record_place(row))


@damage(None, RuleName.COMPACTION_RECORD, COMPACTED, _OF_COMPACTED)
def compaction_record(job: Job) -> None:
    """A compacted record has a wrong physicalOffset."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    pos = scene.place(row) + record.RECORD_HEADER.offset("physicalOffset")
    job.editor.write(scene.log.relative, pos, (1 << 40).to_bytes(8, "big"))
    job.note = f"physicalOffset of the record at {scene.place(row)} of {scene.log.relative} is {1 << 40}"
    job.promise(scene.record_place(row))


@damage(None, RuleName.COMPACTION_RECORD, COMPACTED, _OF_COMPACTED)
def compaction_magic(job: Job) -> None:
    """A compacted record has no magic."""
    scene = _compacted_scene(job)
    row = _compacted_row(job, scene)
    job.editor.write(
        scene.log.relative, scene.place(row) + record.RECORD_HEADER.offset("magicCode"), bytes(4)
    )
    job.note = f"the magic of the record at {scene.place(row)} of {scene.log.relative} is 0"
    start = scene.place(row)
    job.promise(PromisedPlace(scene.log.relative, start, start + 1), touches=True)


@damage(None, RuleName.COMPACTION_FILE_ALONE, COMPACTED)
def compaction_file_missing(job: Job) -> None:
    """A file of a compacted log, or of its units, is missing."""
    scene = _compacted_scene(job)
    lost, left = job.shuffled((scene.log, scene.units_file))
    job.editor.remove(lost.relative)
    job.done(f"{lost.relative} removed", PromisedPlace(left.relative))


@damage(None, RuleName.COMPACTION_FILE_LENGTH, COMPACTED, _OF_COMPACTED, RuleName.COMPACTION_RECORD)
def compaction_file_short(job: Job) -> None:
    """A compacted log's file is cut off in the middle of its records."""
    scene = _compacted_scene(job)
    size = scene.place(_compacted_row(job, scene)) + 1
    job.editor.truncate(scene.log.relative, size)
    job.done(f"{scene.log.relative} cut to {size:,} bytes", PromisedPlace(scene.log.relative))


def _positions(job: Job) -> dict[str, int]:
    job.need(
        job.editor.exists(compaction.CHECKPOINT) and job.is_free(compaction.CHECKPOINT), "position-checkpoint"
    )
    try:
        return compaction.decode_positions(job.editor.content(compaction.CHECKPOINT))
    except StoreError:
        return {}


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED, RuleName.COMPACTION_KEY_TWICE)
def compaction_position(job: Job) -> None:
    """The position of a compaction is beyond the end of its queue."""
    queue = _compacted_scene(job).queue
    value = 1 << 40
    positions = {**_positions(job), compaction.position_name(queue.topic, queue.queue_id): value}
    job.editor.replace(compaction.CHECKPOINT, json.dumps({"queueOffsetMap": positions}).encode())
    job.note = f"{compaction.CHECKPOINT} says {value} for {queue.topic}, queue {queue.queue_id}"
    job.promise(PromisedPlace(compaction.CHECKPOINT, topic=queue.topic, queue_id=queue.queue_id))


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED)
def compaction_position_torn(job: Job) -> None:
    """The file of compaction positions is cut off."""
    _compacted_scene(job)
    _positions(job)
    size = job.editor.size(compaction.CHECKPOINT) // 2
    job.editor.truncate(compaction.CHECKPOINT, size)
    job.done(f"{compaction.CHECKPOINT} cut to {size:,} bytes", PromisedPlace(compaction.CHECKPOINT))


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED)
def compaction_position_missing(job: Job) -> None:
    """The file of compaction positions and its copy are missing."""
    _compacted_scene(job)
    job.need(_positions(job), "positions of a compaction")
    for file in (compaction.CHECKPOINT, f"{compaction.CHECKPOINT}.bak"):
        if job.editor.exists(file):
            job.editor.remove(file)
    job.done(f"{compaction.CHECKPOINT} removed", PromisedPlace(compaction.CHECKPOINT))


TIERED = "tiered storage"
_MIN_UNITS = 4
_OF_RECORD = rules(
    RuleName.TIERED_UNIT, RuleName.TIERED_INDEX_ITEM, RuleName.TIERED_NOT_AS_LOCAL,
    RuleName.TIERED_SEGMENT_TIME,
)  # fmt: skip
_OF_FILE = rules(
    _OF_RECORD, RuleName.TIERED_RECORD, RuleName.TIERED_RECORD_WITHOUT_UNIT, RuleName.TIERED_KEY_UNINDEXED
)
_OF_ITEM = rules(RuleName.TIERED_KEY_UNINDEXED, RuleName.TIERED_INDEX_HEADER, RuleName.TIERED_INDEX_ITEM)

_OF_BACKUP = rules(
    RuleName.CONFIG_FALLS_BACK, RuleName.TIERED_SEGMENT_UNLISTED, RuleName.TIERED_SEGMENT_SHORT,
    RuleName.TIERED_SEGMENT_LONG, RuleName.TIERED_SEGMENT_GAP, RuleName.TIERED_SEGMENT_TIME,
    RuleName.TIERED_INDEX_HEADER,
)  # fmt: skip
"""What the copy of the metadata says wrong, which is that of a moment before."""


@dataclass(frozen=True, slots=True)
class _TieredScene:
    """The only segments of a queue that has one of its log and one of its units, before the fault."""

    queue: TieredQueue
    log: MappedFile
    units_file: MappedFile
    units: Units

    def place(self, row: int) -> int:
        """Where the record of a unit begins in the log segment."""
        return int(self.units["offset"][row]) - (self.log.start_offset or 0)

    def unit_place(self, row: int) -> PromisedPlace:
        """Where a finding on a unit is."""
        return self._in_queue(
            self.units_file, row * consumequeue.UNIT_SIZE, (row + 1) * consumequeue.UNIT_SIZE
        )

    def record_place(self, row: int) -> PromisedPlace:
        """Where a finding on the record of a unit is."""
        start = self.place(row)
        return self._in_queue(self.log, start, start + int(self.units["size"][row]))

    def _in_queue(self, file: MappedFile, start: int, end: int) -> PromisedPlace:
        return PromisedPlace(file.relative, start, end, topic=self.queue.topic, queue_id=self.queue.queue_id)


def _scene(job: Job) -> _TieredScene:
    scenes = []
    for queue in tiered_queues(job.store):
        if len(queue.log.files) != 1 or len(queue.units.files) != 1:
            continue
        log, units_file = queue.log.files[0], queue.units.files[0]
        if units_file.size < _MIN_UNITS * consumequeue.UNIT_SIZE or not all(
            map(job.is_free, (log.relative, units_file.relative))
        ):
            continue
        content = job.editor.content(units_file.relative)
        units = np.frombuffer(content, dtypes.UNIT_DTYPE, len(content) // consumequeue.UNIT_SIZE)
        scenes.append(_TieredScene(queue, log, units_file, units))
    return job.choose(scenes, TIERED)


def _row(job: Job, scene: _TieredScene) -> int:
    """A unit that is neither the first nor the last."""
    return 1 + job.rng.randrange(len(scene.units) - 2)


def _set(job: Job, file: str, start: int, layout: Layout, name: str, value: int) -> None:
    declared = layout.field(name)
    job.editor.write(
        file, start + layout.offset(name), value.to_bytes(declared.size or 0, "big", signed=True)
    )
    job.note = f"{name} at {start} of {file} is {value}"


@damage(None, RuleName.TIERED_UNIT, TIERED)
def tiered_unit(job: Job) -> None:
    """A unit of tiered storage states another size than its record."""
    scene = _scene(job)
    row = _row(job, scene)
    _set(
        job,
        scene.units_file.relative,
        row * consumequeue.UNIT_SIZE,
        consumequeue.UNIT,
        "size",
        int(scene.units["size"][row]) + 1,
    )
    job.promise(scene.unit_place(row))


@damage(None, RuleName.TIERED_UNIT, TIERED, RuleName.TIERED_SEGMENT_TIME)
def tiered_link(job: Job) -> None:
    """A unit of tiered storage points into the middle of a record."""
    scene = _scene(job)
    row = _row(job, scene)
    inside = int(scene.units["offset"][row]) + 1 + job.rng.randrange(int(scene.units["size"][row]) - 1)
    _set(job, scene.units_file.relative, row * consumequeue.UNIT_SIZE, consumequeue.UNIT, "offset", inside)
    job.promise(scene.unit_place(row))


@damage(None, RuleName.TIERED_SEGMENT_SHORT, TIERED, _OF_FILE)
def tiered_units_cut(job: Job) -> None:
    """The last units of a queue in tiered storage are cut off."""
    scene = _scene(job)
    size = _row(job, scene) * consumequeue.UNIT_SIZE + 7
    job.editor.truncate(scene.units_file.relative, size)
    job.note = f"{scene.units_file.relative} cut to {size:,} bytes"
    job.promise(PromisedPlace(scene.units_file.relative, size, scene.units_file.size))
    job.promise(PromisedPlace(scene.log.relative), RuleName.TIERED_RECORD_WITHOUT_UNIT)


@damage(None, RuleName.TIERED_BODY_CRC, TIERED)
def tiered_body(job: Job) -> None:
    """A bit in the body of a message in tiered storage is wrong."""
    scene = _scene(job)
    row = _row(job, scene)
    log = job.log(scene.log)
    number = log.by_pos.get(scene.place(row))
    job.need(number is not None, "message where its unit points")
    found = log.record(number or 0)
    job.need(found.body_size > 0, "message with a body")
    pos = found.body_pos + job.rng.randrange(found.body_size)
    job.flip_bit(scene.log.relative, pos)
    job.note = f"the body of the message at {scene.place(row)} of {scene.log.relative} changed"
    job.promise(scene.record_place(row))


@damage(None, RuleName.TIERED_RECORD, TIERED, _OF_RECORD)
def tiered_record(job: Job) -> None:
    """A record in tiered storage has a wrong physicalOffset."""
    scene = _scene(job)
    row = _row(job, scene)
    _set(job, scene.log.relative, scene.place(row), record.RECORD_HEADER, "physicalOffset", 1 << 40)
    job.promise(scene.record_place(row))


@damage(None, RuleName.TIERED_RECORD, TIERED, _OF_RECORD)
def tiered_magic(job: Job) -> None:
    """A record in tiered storage has no magic."""
    scene = _scene(job)
    row = _row(job, scene)
    start = scene.place(row)
    _set(job, scene.log.relative, start, record.RECORD_HEADER, "magicCode", 0)
    job.promise(PromisedPlace(scene.log.relative, start, start + 1), touches=True)


@damage(None, RuleName.TIERED_NOT_AS_LOCAL, TIERED)
def tiered_flag(job: Job) -> None:
    """A message in tiered storage has another flag than in the commit log."""
    scene = _scene(job)
    row = _row(job, scene)
    start = scene.place(row)
    at = start + record.RECORD_HEADER.offset("flag")
    value = int.from_bytes(job.editor.read(scene.log.relative, at, at + 4), "big", signed=True)
    _set(job, scene.log.relative, start, record.RECORD_HEADER, "flag", value ^ 1 << job.rng.randrange(31))
    job.promise(scene.record_place(row))


@damage(None, RuleName.TIERED_SEGMENT_MISSING, TIERED, _OF_FILE)
def tiered_segment_missing(job: Job) -> None:
    """A segment of tiered storage is missing."""
    scene = _scene(job)
    lost = job.shuffled((scene.log, scene.units_file))[0]
    job.editor.remove(lost.relative)
    job.done(f"{lost.relative} removed", PromisedPlace(lost.relative))


@damage(None, RuleName.TIERED_SEGMENT_SHORT, TIERED, _OF_FILE)
def tiered_segment_cut(job: Job) -> None:
    """A log segment of tiered storage is cut off in the middle of a record."""
    scene = _scene(job)
    size = scene.place(_row(job, scene)) + 50
    job.editor.truncate(scene.log.relative, size)
    job.note = f"{scene.log.relative} cut to {size:,} bytes"
    job.promise(PromisedPlace(scene.log.relative, size, scene.log.size))


def _index(job: Job) -> tuple[StoreFile, int, int]:
    """An index segment, with the number of its slots and where its items begin."""
    found = []
    for other in job.store.others:
        for file in other.files if other.kind is OtherKind.TIERED_SEGMENT_INDEX else ():
            try:
                with FileReader(file.location) as reader:
                    shape = read_segment_header(reader).shape
            except StoreError:
                continue
            if shape is not None and shape.item_count and job.is_free(file.relative):
                found.append((file, shape.slot_count, shape.items_start))
    return job.choose(found, TIERED)


@damage(None, RuleName.TIERED_INDEX_HEADER, TIERED)
def tiered_index_header(job: Job) -> None:
    """The header of an index segment has no magic."""
    file, _, _ = _index(job)
    _set(job, file.relative, 0, tiered.TIERED_INDEX_HEADER, "magicCode", 0)
    job.promise(PromisedPlace(file.relative, 0, 4))


@damage(None, RuleName.TIERED_INDEX_SLOT, TIERED, _OF_ITEM)
def tiered_index_slot(job: Job) -> None:
    """A slot of an index segment points to the wrong items."""
    file, slots, _ = _index(job)
    slot = job.rng.randrange(slots)
    start = tiered.TIERED_INDEX_HEADER.size + slot * tiered.TIERED_COMPACTED_SLOT.size
    _set(job, file.relative, start, tiered.TIERED_COMPACTED_SLOT, "position", 5)
    job.promise(PromisedPlace(file.relative, start, slot=slot))


@damage(None, RuleName.TIERED_INDEX_ITEM, TIERED, _OF_ITEM)
def tiered_index_item(job: Job) -> None:
    """An item of an index segment points to the wrong place."""
    file, _, start = _index(job)
    item = job.rng.randrange((file.size - start) // tiered.TIERED_COMPACTED_ITEM.size)
    pos = start + item * tiered.TIERED_COMPACTED_ITEM.size
    _set(job, file.relative, pos, tiered.TIERED_COMPACTED_ITEM, "offset", 1 << 40)
    job.promise(PromisedPlace(file.relative, pos, entry=item))


@damage(None, RuleName.TIERED_METADATA, TIERED, _OF_BACKUP)
def tiered_metadata_cut(job: Job) -> None:
    """The metadata of tiered storage is cut off."""
    _scene(job)
    job.need(job.editor.exists(METADATA) and job.is_free(METADATA), "tieredStoreMetadata.json")
    size = job.editor.size(METADATA) // 2
    job.editor.truncate(METADATA, size)
    job.done(f"{METADATA} cut to {size:,} bytes", PromisedPlace(METADATA))


@damage(None, RuleName.TIERED_METADATA, TIERED)
def tiered_metadata_missing(job: Job) -> None:
    """The metadata of tiered storage and its copy are missing."""
    _scene(job)
    job.need(job.editor.exists(METADATA) and job.is_free(METADATA), "tieredStoreMetadata.json")
    for file in (METADATA, f"{METADATA}.bak"):
        if job.editor.exists(file):
            job.editor.remove(file)
    job.done(f"{METADATA} removed", PromisedPlace(METADATA))
