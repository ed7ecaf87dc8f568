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
from rocketfsck.reader.tiered import METADATA, TieredQueue, read_segment_header, tiered_queues
from rocketfsck.reader.units import Units
from rocketfsck.store.model import MappedFile, OtherKind, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import PromisedPlace, rules

COMPACTED = "compacted logs"
_FAR = 1 << 40
_OF_COMPACTED = rules(RuleName.COMPACTION_UNIT, RuleName.COMPACTION_RECORD_WITHOUT_UNIT)


@dataclass(frozen=True, slots=True)
class _Scene:
    """A file of a log with its units, before the fault: of a compacted log, or of a queue in tiered storage
    that has one segment of its log and one of its units."""

    queue: compaction.CompactedQueue | TieredQueue
    log: MappedFile
    units_file: MappedFile
    units: Units
    layout: Layout

    def number(self, row: int, name: str) -> int:
        """A number of a unit."""
        return int(self.units[name][row])

    def inside(self, job: Job, row: int) -> int:
        """An offset in the middle of the record of a unit."""
        return self.number(row, "offset") + 1 + job.rng.randrange(self.number(row, "size") - 1)

    def place(self, row: int) -> int:
        """Where the record of a unit begins in the log file."""
        return self.number(row, "offset") - (self.log.start_offset or 0)

    def unit_place(self, row: int) -> PromisedPlace:
        """Where a finding on a unit is."""
        return self._in_queue(self.units_file, row * self.layout.size, self.layout.size)

    def record_place(self, row: int) -> PromisedPlace:
        """Where a finding on the record of a unit is."""
        return self._in_queue(self.log, self.place(row), self.number(row, "size"))

    def _in_queue(self, file: MappedFile, start: int, size: int) -> PromisedPlace:
        topic, queue_id = self.queue.topic, self.queue.queue_id
        return PromisedPlace(file.relative, start, start + size, topic=topic, queue_id=queue_id)


def _row(job: Job, scene: _Scene) -> int:
    """A unit that is neither the first nor the last."""
    return 1 + job.rng.randrange(len(scene.units) - 2)


def _flip_body(job: Job, scene: _Scene, row: int, at: int, lost: str, empty: str) -> None:
    """Flip a bit in the body of the record of a unit; `lost` and `empty` name what a store may not have."""
    log = job.log(scene.log)
    number = log.by_pos.get(scene.place(row))
    job.need(number is not None, lost)
    found = log.record(number or 0)
    job.need(found.body_size > 0, empty)
    job.flip_bit(scene.log.relative, found.body_pos + job.rng.randrange(found.body_size))
    note = f"the body of the message at {at} of {scene.log.relative} changed"
    job.done(note, scene.record_place(row))


def _remove_with_copy(job: Job, file: str) -> None:
    for name in (file, f"{file}.bak"):
        if job.editor.exists(name):
            job.editor.remove(name)
    job.done(f"{file} removed", PromisedPlace(file))


def _halve(job: Job, file: str) -> None:
    job.cut(file, job.editor.size(file) // 2, PromisedPlace(file))


def _compacted_scene(job: Job) -> _Scene:
    scenes = []
    for queue in compaction.compacted_queues(job.store):
        for log in queue.log.files:
            unit_file = queue.unit_file(log.name)
            if unit_file is None or not (job.is_free(log.relative) and job.is_free(unit_file.relative)):
                continue
            units = compaction.read_units(unit_file).leading
            if len(units) > 3:
                scenes.append(_Scene(queue, log, unit_file, units, consumequeue.BATCH_UNIT))
    return job.choose(scenes, COMPACTED)


def _compacted(job: Job) -> tuple[_Scene, int]:
    scene = _compacted_scene(job)
    return scene, _row(job, scene)


def _set_unit(job: Job, scene: _Scene, row: int, name: str, value: int) -> None:
    file = scene.units_file.relative
    job.editor.set_number(file, row * scene.layout.size, scene.layout, name, value)
    job.done(f"{name} of unit {row} of {file} is {value}", scene.unit_place(row))


@damage(None, RuleName.COMPACTION_UNIT, COMPACTED)
def compaction_unit(job: Job) -> None:
    """A unit of a compacted log states another size than its record."""
    scene, row = _compacted(job)
    _set_unit(job, scene, row, "size", scene.number(row, "size") + 1)


@damage(None, RuleName.COMPACTION_UNIT, COMPACTED, RuleName.COMPACTION_RECORD_WITHOUT_UNIT)
def compaction_link(job: Job) -> None:
    """A unit of a compacted log points into the middle of a record."""
    scene, row = _compacted(job)
    _set_unit(job, scene, row, "offset", scene.inside(job, row))


@damage(None, RuleName.COMPACTION_ORDER, COMPACTED, _OF_COMPACTED)
def compaction_order(job: Job) -> None:
    """Queue offsets decrease in a compacted log's units."""
    scene, row = _compacted(job)
    _set_unit(job, scene, row, "msgBaseOffset", scene.number(row - 1, "msgBaseOffset"))


@damage(None, RuleName.COMPACTION_RECORD_WITHOUT_UNIT, COMPACTED)
def compaction_unit_lost(job: Job) -> None:
    """The last unit of a compacted log is zeros."""
    scene = _compacted_scene(job)
    row = len(scene.units) - 1
    job.editor.write(scene.units_file.relative, row * scene.layout.size, bytes(scene.layout.size))
    job.done(f"unit {row} of {scene.units_file.relative} is zeros", scene.record_place(row))


@damage(None, RuleName.COMPACTION_BODY_CRC, COMPACTED)
def compaction_body(job: Job) -> None:
    """A bit in the body of a compacted message is wrong."""
    scene, row = _compacted(job)
    at = scene.number(row, "offset")
    texts = ("compacted message where its unit points", "compacted message with a body")
    _flip_body(job, scene, row, at, *texts)


@damage(None, RuleName.COMPACTION_RECORD, COMPACTED, _OF_COMPACTED)
def compaction_record(job: Job) -> None:
    """A compacted record has a wrong physicalOffset."""
    scene, row = _compacted(job)
    file, start = scene.log.relative, scene.place(row)
    job.editor.set_number(file, start, record.RECORD_HEADER, "physicalOffset", _FAR)
    job.done(f"physicalOffset of the record at {start} of {file} is {_FAR}", scene.record_place(row))


@damage(None, RuleName.COMPACTION_RECORD, COMPACTED, _OF_COMPACTED)
def compaction_magic(job: Job) -> None:
    """A compacted record has no magic."""
    scene, row = _compacted(job)
    file, start = scene.log.relative, scene.place(row)
    job.editor.set_number(file, start, record.RECORD_HEADER, "magicCode", 0)
    job.note = f"the magic of the record at {start} of {file} is 0"
    job.promise(PromisedPlace(file, start, start + 1), touches=True)


@damage(None, RuleName.COMPACTION_FILE_ALONE, COMPACTED)
def compaction_file_missing(job: Job) -> None:
    """A file of a compacted log, or of its units, is missing."""
    scene = _compacted_scene(job)
    lost, left = job.shuffled((scene.log, scene.units_file))
    job.remove(lost.relative, PromisedPlace(left.relative))


@damage(None, RuleName.COMPACTION_FILE_LENGTH, COMPACTED, _OF_COMPACTED, RuleName.COMPACTION_RECORD)
def compaction_file_short(job: Job) -> None:
    """A compacted log's file is cut off in the middle of its records."""
    scene, row = _compacted(job)
    job.cut(scene.log.relative, scene.place(row) + 1, PromisedPlace(scene.log.relative))


def _positions(job: Job) -> dict[str, int]:
    file = compaction.CHECKPOINT
    job.need(job.editor.exists(file) and job.is_free(file), "position-checkpoint")
    try:
        return compaction.decode_positions(job.editor.content(file))
    except StoreError:
        return {}


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED, RuleName.COMPACTION_KEY_TWICE)
def compaction_position(job: Job) -> None:
    """The position of a compaction is beyond the end of its queue."""
    queue = _compacted_scene(job).queue
    positions = {**_positions(job), compaction.position_name(queue.topic, queue.queue_id): _FAR}
    job.editor.replace(compaction.CHECKPOINT, json.dumps({"queueOffsetMap": positions}).encode())
    job.note = f"{compaction.CHECKPOINT} says {_FAR} for {queue.topic}, queue {queue.queue_id}"
    job.promise(PromisedPlace(compaction.CHECKPOINT, topic=queue.topic, queue_id=queue.queue_id))


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED)
def compaction_position_torn(job: Job) -> None:
    """The file of compaction positions is cut off."""
    _compacted_scene(job)
    _positions(job)
    _halve(job, compaction.CHECKPOINT)


@damage(None, RuleName.COMPACTION_POSITION, COMPACTED)
def compaction_position_missing(job: Job) -> None:
    """The file of compaction positions and its copy are missing."""
    _compacted_scene(job)
    job.need(_positions(job), "positions of a compaction")
    _remove_with_copy(job, compaction.CHECKPOINT)


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


def _tiered_scene(job: Job) -> _Scene:
    scenes = []
    for queue in tiered_queues(job.store):
        if len(queue.log.files) != 1 or len(queue.units.files) != 1:
            continue
        log, units_file = queue.log.files[0], queue.units.files[0]
        files = (log.relative, units_file.relative)
        if units_file.size < _MIN_UNITS * consumequeue.UNIT_SIZE or not all(map(job.is_free, files)):
            continue
        content = job.editor.content(units_file.relative)
        units = np.frombuffer(content, dtypes.UNIT_DTYPE, len(content) // consumequeue.UNIT_SIZE)
        scenes.append(_Scene(queue, log, units_file, units, consumequeue.UNIT))
    return job.choose(scenes, TIERED)


def _tiered(job: Job) -> tuple[_Scene, int]:
    scene = _tiered_scene(job)
    return scene, _row(job, scene)


def _set(job: Job, file: str, start: int, layout: Layout, name: str, value: int) -> None:
    job.editor.set_number(file, start, layout, name, value)
    job.note = f"{name} at {start} of {file} is {value}"


def _set_tiered_unit(job: Job, scene: _Scene, row: int, name: str, value: int) -> None:
    _set(job, scene.units_file.relative, row * scene.layout.size, scene.layout, name, value)
    job.promise(scene.unit_place(row))


def _set_in_record(job: Job, scene: _Scene, row: int, name: str, value: int) -> None:
    _set(job, scene.log.relative, scene.place(row), record.RECORD_HEADER, name, value)


@damage(None, RuleName.TIERED_UNIT, TIERED)
def tiered_unit(job: Job) -> None:
    """A unit of tiered storage states another size than its record."""
    scene, row = _tiered(job)
    _set_tiered_unit(job, scene, row, "size", scene.number(row, "size") + 1)


@damage(None, RuleName.TIERED_UNIT, TIERED, RuleName.TIERED_SEGMENT_TIME)
def tiered_link(job: Job) -> None:
    """A unit of tiered storage points into the middle of a record."""
    scene, row = _tiered(job)
    _set_tiered_unit(job, scene, row, "offset", scene.inside(job, row))


@damage(None, RuleName.TIERED_SEGMENT_SHORT, TIERED, _OF_FILE)
def tiered_units_cut(job: Job) -> None:
    """The last units of a queue in tiered storage are cut off."""
    scene, row = _tiered(job)
    file, size = scene.units_file, row * consumequeue.UNIT_SIZE + 7
    job.cut(file.relative, size, PromisedPlace(file.relative, size, file.size))
    job.promise(PromisedPlace(scene.log.relative), RuleName.TIERED_RECORD_WITHOUT_UNIT)


@damage(None, RuleName.TIERED_BODY_CRC, TIERED)
def tiered_body(job: Job) -> None:
    """A bit in the body of a message in tiered storage is wrong."""
    scene, row = _tiered(job)
    at = scene.place(row)
    _flip_body(job, scene, row, at, "message where its unit points", "message with a body")


@damage(None, RuleName.TIERED_RECORD, TIERED, _OF_RECORD)
def tiered_record(job: Job) -> None:
    """A record in tiered storage has a wrong physicalOffset."""
    scene, row = _tiered(job)
    _set_in_record(job, scene, row, "physicalOffset", _FAR)
    job.promise(scene.record_place(row))


@damage(None, RuleName.TIERED_RECORD, TIERED, _OF_RECORD)
def tiered_magic(job: Job) -> None:
    """A record in tiered storage has no magic."""
    scene, row = _tiered(job)
    _set_in_record(job, scene, row, "magicCode", 0)
    start = scene.place(row)
    job.promise(PromisedPlace(scene.log.relative, start, start + 1), touches=True)


@damage(None, RuleName.TIERED_NOT_AS_LOCAL, TIERED)
def tiered_flag(job: Job) -> None:
    """A message in tiered storage has another flag than in the commit log."""
    scene, row = _tiered(job)
    value = job.editor.number(scene.log.relative, scene.place(row), record.RECORD_HEADER, "flag")
    _set_in_record(job, scene, row, "flag", value ^ 1 << job.rng.randrange(31))
    job.promise(scene.record_place(row))


@damage(None, RuleName.TIERED_SEGMENT_MISSING, TIERED, _OF_FILE)
def tiered_segment_missing(job: Job) -> None:
    """A segment of tiered storage is missing."""
    scene = _tiered_scene(job)
    job.remove(job.shuffled((scene.log, scene.units_file))[0].relative)


@damage(None, RuleName.TIERED_SEGMENT_SHORT, TIERED, _OF_FILE)
def tiered_segment_cut(job: Job) -> None:
    """A log segment of tiered storage is cut off in the middle of a record."""
    scene, row = _tiered(job)
    size = scene.place(row) + 50
    job.cut(scene.log.relative, size, PromisedPlace(scene.log.relative, size, scene.log.size))


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
    _set(job, file.relative, pos, tiered.TIERED_COMPACTED_ITEM, "offset", _FAR)
    job.promise(PromisedPlace(file.relative, pos, entry=item))


def _metadata(job: Job) -> None:
    _tiered_scene(job)
    job.need(job.editor.exists(METADATA) and job.is_free(METADATA), "tieredStoreMetadata.json")


@damage(None, RuleName.TIERED_METADATA, TIERED, _OF_BACKUP)
def tiered_metadata_cut(job: Job) -> None:
    """The metadata of tiered storage is cut off."""
    _metadata(job)
    _halve(job, METADATA)


@damage(None, RuleName.TIERED_METADATA, TIERED)
def tiered_metadata_missing(job: Job) -> None:
    """The metadata of tiered storage and its copy are missing."""
    _metadata(job)
    _remove_with_copy(job, METADATA)
