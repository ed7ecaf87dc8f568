"""Faults of consume queue units (fault catalogue Q1 to Q3, Q6, Q9, Q11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import consumequeue, javatext, smallfiles, timer
from rocketfsck.scan.columns import Trait
from rocketfsck.store.model import MappedFile
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import ANY_QUEUE, UNITS_LOST, PromisedPlace, rules
from rocketfsck.writer.damage.scenes import LogRecord, QueueScene, SceneUnit, unit_place

_BETWEEN = "a unit between two others"
Wanted = Callable[[SceneUnit, QueueScene, LogRecord], object]


def _is_free(job: Job, unit: SceneUnit) -> bool:
    return job.is_free(unit.file.relative, unit.start, unit.end)


def _unit(
    job: Job, what: str, wanted: Wanted = lambda _unit, _scene, _record: True
) -> tuple[SceneUnit, LogRecord]:
    """A unit of a plain queue that is in its place, and its record."""
    found: list[SceneUnit] = []

    def has_unit(_: object, record: LogRecord) -> bool:
        unit = job.unit_of(record)
        if unit is None or unit.queue.kind != "file" or not _is_free(job, unit):
            return False
        if is_wanted := bool(wanted(unit, job.queue(unit.queue), record)):
            found.append(unit)
        return is_wanted

    record = job.record(what, has_unit)
    job.rely(record.file.relative, record.pos, record.end)
    return found[-1], record


def _is_inside(unit: SceneUnit, scene: QueueScene, _record: LogRecord) -> bool:
    return scene.start_index < unit.index < scene.end_index - 1


def _is_normal(unit: SceneUnit, _scene: QueueScene, record: LogRecord) -> bool:
    return not record.traits & Trait.SCHEDULE_TOPIC and not consumequeue.is_ext_address(unit.tags_code)


def _stated(job: Job, unit: SceneUnit, what: str) -> None:
    job.note = f"{what} of {unit.queue.topic}/{unit.queue.queue_id} at queue offset {unit.index}"


def _write(job: Job, unit: SceneUnit, offset: int, size: int, tags_code: int) -> None:
    data = consumequeue.UNIT.build({"offset": offset, "size": size, "tagsCode": tags_code})
    job.editor.write(unit.file.relative, unit.start, data)


def _without_unit(unit: SceneUnit, record: LogRecord) -> PromisedPlace:
    """Where the finding is that a record has no unit."""
    return unit_place(unit, 1, record.physical_offset)


def _changed(job: Job, unit: SceneUnit, what: str, offset: int | None = None, *rules: RuleName) -> None:
    """Note what of a unit was changed; a check must find the rules at it, with this physical offset."""
    _stated(job, unit, what)
    job.promise(unit_place(unit, 1, offset), *rules)


def _lost(job: Job, unit: SceneUnit, record: LogRecord, what: str, offset: int | None) -> None:
    """The same of a unit that is its record's no longer: a check misses that one, too."""
    rule, _ = job.causes
    _changed(job, unit, what, offset, rule)
    job.promise(_without_unit(unit, record), RuleName.RECORD_WITHOUT_UNIT)


@damage("Q1", RuleName.RECORD_WITHOUT_UNIT, "a queue with three units in its last file", UNITS_LOST)
def queue_behind(job: Job) -> None:
    """The last units of a queue were never written."""

    def fits(unit: SceneUnit, scene: QueueScene, record: LogRecord) -> bool:
        last = unit.start > 0 and unit.file is scene.files[-1]
        return last and _is_inside(unit, scene, record) and job.is_free(unit.file.relative, unit.start)

    unit, record = _unit(job, "queue with several units in its last file", fits)
    scene = job.queue(unit.queue)
    end = scene.unit(scene.end_index - 1).end
    job.editor.write(unit.file.relative, unit.start, bytes(end - unit.start))
    _stated(job, unit, f"the last {scene.end_index - unit.index} units")
    job.promise(_without_unit(unit, record))


def _room(job: Job, count: int) -> QueueScene:
    """A queue with units whose last file has room for more."""
    for queue in job.shuffled([queue for queue in job.store.queues if queue.kind == "file"]):
        scene = job.queue(queue)
        if scene.whole and scene.start_index < scene.end_index <= scene.file_end_index - count:
            last = scene.unit(scene.end_index - 1)
            if last.file is scene.files[-1] and job.is_free(last.file.relative, last.start):
                return scene
    return job.choose([], f"queue with room for {count} more units")


@damage(
    "Q2", RuleName.UNIT_BEYOND_LOG, "a queue with room in its last file",
    RuleName.CONSUMER_OFFSET_OF_LOST_UNITS, options={"count": "how many units"},
)  # fmt: skip
def dangling_tail(job: Job) -> None:
    """Units after the last one point beyond the log."""
    count = job.number("count", 1 + job.rng.randrange(4), 1, 1000)
    scene = _room(job, count)
    first = scene.unit(scene.end_index)
    end = job.log_end
    size = 100 + job.rng.randrange(200)
    for number in range(count):
        _write(job, scene.unit(scene.end_index + number), end + number * size, size, 0)
    _stated(job, first, f"{count} units after the last one")
    job.rely(job.last_log().file.relative, job.last_log().live_end)
    job.promise(unit_place(first, count, end))


@damage(
    "Q2", (RuleName.UNIT_ORDER, RuleName.RECORD_WITHOUT_UNIT), _BETWEEN, UNITS_LOST,
    RuleName.UNIT_GHOST, RuleName.UNIT_SHIFTED, RuleName.UNIT_OF_DAMAGED_RECORD,
)  # fmt: skip
def unit_order(job: Job) -> None:
    """A unit repeats the unit before it.

    Both units point to the same record.
    """
    unit, record = _unit(
        job,
        "unit between two others",
        lambda unit, scene, record: (
            _is_inside(unit, scene, record)
            and scene.unit(unit.index - 1).offset >= job.log_start
            and job.record_at(scene.unit(unit.index - 1).offset) is not None
        ),
    )
    before = job.queue(unit.queue).unit(unit.index - 1)
    _write(job, unit, before.offset, before.size, before.tags_code)
    job.rely(before.file.relative, before.start, before.end)
    _lost(job, unit, record, "the unit", before.offset)


@damage("Q2", (RuleName.UNIT_GHOST, RuleName.RECORD_WITHOUT_UNIT), "a unit", UNITS_LOST, RuleName.UNIT_ORDER)
def unit_ghost(job: Job) -> None:
    """A unit points into the middle of a record."""
    unit, record = _unit(job, "unit")
    inside = record.physical_offset + 1 + job.rng.randrange(record.total_size - 1)
    _write(job, unit, inside, record.total_size, unit.tags_code)
    _lost(job, unit, record, "the offset of the unit", inside)


@damage("Q2", RuleName.UNIT_STALE, "a queue with room in its last file", UNITS_LOST, RuleName.UNIT_GHOST)
def units_stale(job: Job) -> None:
    """An old unit follows the end of a queue.

    An empty unit is between the two.
    """
    scene = _room(job, 2)
    old = scene.unit(scene.end_index - 1)
    unit = scene.unit(scene.end_index + 1)
    _write(job, unit, old.offset, old.size, old.tags_code)
    _changed(job, unit, "an old unit")


@damage("Q3", (RuleName.UNIT_HOLE, RuleName.RECORD_WITHOUT_UNIT), _BETWEEN, UNITS_LOST)
def queue_hole(job: Job) -> None:
    """A unit is empty although later ones are not."""

    def fits(unit: SceneUnit, scene: QueueScene, record: LogRecord) -> bool:
        return _is_inside(unit, scene, record) and unit.end <= unit.file.size

    unit, record = _unit(job, "unit between two others", fits)
    _write(job, unit, 0, 0, 0)
    _lost(job, unit, record, "the unit", None)


@damage(
    "Q3", (RuleName.UNIT_SHIFTED, RuleName.RECORD_WITHOUT_UNIT), "a unit between two others in a last file",
    UNITS_LOST,
)  # fmt: skip
def queue_shift(job: Job) -> None:
    """A unit is missing, and the later units moved up."""

    def fits(unit: SceneUnit, scene: QueueScene, record: LogRecord) -> bool:
        rest = [scene.unit(index) for index in range(unit.index + 1, scene.end_index)]
        return (
            _is_inside(unit, scene, record)
            and unit.file is scene.files[-1]
            and unit.queue.topic != timer.SCHEDULE_TOPIC
            and job.is_free(unit.file.relative, unit.start)
            and all(_record_of(job, item) for item in rest)
        )

    unit, record = _unit(job, "unit that others follow in the last file", fits)
    scene = job.queue(unit.queue)
    end = scene.unit(scene.end_index - 1).end
    data = job.editor.read(unit.file.relative, unit.end, end)
    job.editor.write(unit.file.relative, unit.start, data + bytes(unit.end - unit.start))
    _stated(job, unit, "the unit removed, the later units moved up")
    following = scene.unit(unit.index + 1)
    job.promise(replace(unit_place(unit, 1, following.offset), end=None), RuleName.UNIT_SHIFTED)
    job.promise(_without_unit(unit, record), RuleName.RECORD_WITHOUT_UNIT)


def _record_of(job: Job, unit: SceneUnit) -> bool:
    record = job.record_at(unit.offset)
    return record is not None and record.queue_offset == unit.base and record.topic == unit.queue.topic


@damage("Q3", (RuleName.PRE_BLANK_MISPLACED, RuleName.RECORD_WITHOUT_UNIT), _BETWEEN, UNITS_LOST)
def pre_blank_misplaced(job: Job) -> None:
    """A pre-blank unit is in the middle of a queue."""
    unit, record = _unit(job, "unit between two others", _is_inside)
    job.editor.write(unit.file.relative, unit.start, consumequeue.PRE_BLANK_UNIT)
    _lost(job, unit, record, "the unit", None)


@damage(
    "Q6", (RuleName.UNIT_PARTIAL, RuleName.SEGMENT_LENGTH, RuleName.RECORD_WITHOUT_UNIT),
    "several queue files of one length", UNITS_LOST,
)  # fmt: skip
def partial_unit(job: Job) -> None:
    """The last file of a queue was cut within a unit."""

    def fits(unit: SceneUnit, scene: QueueScene, record: LogRecord) -> bool:
        sizes = [file.size for queue in job.store.queues for file in queue.files]
        return (
            _is_inside(unit, scene, record)
            and unit.file is scene.files[-1]
            and job.is_free(unit.file.relative)
            and sizes.count(unit.file.size) > 2
            and unit.start > 0
        )

    unit, record = _unit(job, "unit between two others in a last file", fits)
    offset_end = 8 - len(unit.offset.to_bytes(8, "big").lstrip(b"\0")) + 1
    size = unit.start + offset_end + job.rng.randrange(20 - offset_end)
    job.editor.truncate(unit.file.relative, size)
    _stated(job, unit, f"{unit.file.relative} cut to {size:,} bytes, within the unit")
    place = replace(unit_place(unit), end=size, queue_offset=None)
    job.promise(place, RuleName.UNIT_PARTIAL)
    job.promise(replace(place, start=0), RuleName.SEGMENT_LENGTH)
    job.promise(replace(_without_unit(unit, record), start=None, end=None), RuleName.RECORD_WITHOUT_UNIT)


@damage("Q6", RuleName.QUEUE_LAST_FILE_EMPTY, "a queue with units", RuleName.CONSUMER_OFFSET_OF_LOST_UNITS)
def empty_last_file(job: Job) -> None:
    """A queue has a further file, all zeros."""
    scene = _room(job, 0)
    last = scene.files[-1]
    start = (last.start_offset or 0) + last.size
    name = f"{last.relative.rpartition('/')[0]}/{smallfiles.offset_to_filename(start)}"
    job.need(job.is_free(name) and not job.editor.exists(name), "place for a further file of a queue")
    job.editor.create(name, size=last.size, like=last.relative)
    made = SceneUnit(scene.queue, start // scene.queue.unit_size, _made(last, name, start), 0, 0, 0, 0, 0)
    _stated(job, made, f"{name}, all zeros,")
    job.promise(unit_place(made, last.size // scene.queue.unit_size))


@damage("Q11", (RuleName.UNIT_INVALID, RuleName.RECORD_WITHOUT_UNIT), _BETWEEN, UNITS_LOST)
def unit_invalid(job: Job) -> None:
    """A unit has a negative size."""
    unit, record = _unit(job, "unit between two others", _is_inside)
    _write(job, unit, unit.offset, -1 - job.rng.randrange(1 << 20), unit.tags_code)
    _lost(job, unit, record, "the size of the unit", unit.offset)


@damage("Q11", RuleName.UNIT_SIZE, "a unit")
def wrong_size(job: Job) -> None:
    """A unit has another size than its record."""
    unit, record = _unit(job, "unit")
    size = record.total_size + 1 + job.rng.randrange(500)
    _write(job, unit, unit.offset, size, unit.tags_code)
    _changed(job, unit, "the size of the unit", record.physical_offset)


@damage("Q11", RuleName.UNIT_TAGS_CODE, "a unit of a plain message")
def wrong_tags(job: Job) -> None:
    """A unit has another tagsCode than its record."""
    unit, record = _unit(job, "unit of a plain message", _is_normal)
    code = unit.tags_code + 1 + job.rng.randrange(1000)
    _write(job, unit, unit.offset, unit.size, code if code <= javatext.INT32_MAX else unit.tags_code - 1)
    _changed(job, unit, "the tagsCode of the unit", record.physical_offset)


@damage("Q11", RuleName.UNIT_TAGS_CODE, "a queue of three delayed messages")
def wrong_delivery(job: Job) -> None:
    """A delayed message's unit has another delivery time.

    The level of the message gives another time.
    """

    def common(unit: SceneUnit, scene: QueueScene, record: LogRecord) -> bool:
        wanted = Trait.SCHEDULE_TOPIC | Trait.DELAY
        plain = record.traits & wanted == wanted and not consumequeue.is_ext_address(unit.tags_code)
        return plain and scene.end_index - scene.start_index >= 3

    unit, record = _unit(job, "queue of three delayed messages of one level", common)
    _write(job, unit, unit.offset, unit.size, unit.tags_code + 7_777_000)
    _changed(job, unit, "the delivery time of the unit", record.physical_offset)


@damage(
    "Q11", RuleName.BATCH_UNIT_BASE, "a batch unit between two others (5.0+)", RuleName.BATCH_UNIT_CONTENT,
    RuleName.RECORD_WITHOUT_UNIT, RuleName.UNIT_GHOST,
)  # fmt: skip
def batch_base(job: Job) -> None:
    """The base of a batch unit does not follow the unit before."""
    unit = _batch_unit(job)
    base = unit.base + 1 + job.rng.randrange(5)
    job.editor.set_number(unit.file.relative, unit.start, consumequeue.BATCH_UNIT, "msgBaseOffset", base)
    _stated(job, unit, "msgBaseOffset of the batch unit")
    job.promise(replace(unit_place(unit), queue_offset=base))


@damage("Q11", RuleName.BATCH_UNIT_RESERVED, "a batch unit between two others (5.0+)")
def batch_reserved(job: Job) -> None:
    """A batch unit's compactedOffset is not -1."""
    unit = _batch_unit(job)
    value = job.rng.randrange(1 << 20)
    job.editor.set_number(unit.file.relative, unit.start, consumequeue.BATCH_UNIT, "compactedOffset", value)
    _stated(job, unit, "compactedOffset of the batch unit")
    job.promise(replace(unit_place(unit), queue_offset=unit.base))


def _made(like: MappedFile, relative: str, start: int) -> MappedFile:
    return replace(like, location=relative, relative=relative, start_offset=start)


def _ext_unit(job: Job) -> tuple[SceneUnit, LogRecord, MappedFile, int]:
    """A unit with an extension address; the extension file and the position there."""

    def has_ext(unit: SceneUnit, _scene: QueueScene, _record: LogRecord) -> bool:
        return consumequeue.is_ext_address(unit.tags_code) and unit.queue.ext is not None

    unit, record = _unit(job, "unit with an extension (enableConsumeQueueExt)", has_ext)
    pos = consumequeue.ext_offset(unit.tags_code)
    assert unit.queue.ext is not None
    file = next(file for file in reversed(unit.queue.ext.files) if (file.start_offset or 0) <= pos)
    return unit, record, file, pos - (file.start_offset or 0)


@damage("Q9", RuleName.EXT_ADDRESS_DANGLING, "a unit with an extension", RuleName.EXT_UNIT_CONTENT)
def ext_dangling(job: Job) -> None:
    """A unit has an address beyond the extension files."""
    unit, _, file, _ = _ext_unit(job)
    end = (file.start_offset or 0) + 100 * file.size
    _write(job, unit, unit.offset, unit.size, consumequeue.ext_address(end))
    _changed(job, unit, "the extension address")


@damage(
    "Q9", RuleName.EXT_ADDRESS_DANGLING, "a unit with an extension",
    ANY_QUEUE & rules(RuleName.EXT_ADDRESS_DANGLING, RuleName.EXT_UNIT_MALFORMED, RuleName.EXT_UNIT_ORPHAN),
)  # fmt: skip
def ext_malformed(job: Job) -> None:
    """An extension unit has an impossible size."""
    unit, _, file, pos = _ext_unit(job)
    job.editor.write(file.relative, pos, b"\0\5")
    _changed(job, unit, "the size of the extension unit")


@damage("Q9", RuleName.EXT_UNIT_CONTENT, "a unit with an extension")
def ext_content(job: Job) -> None:
    """An extension unit belongs to another message.

    The unit's storeTimestamp is wrong.
    """
    unit, record, file, pos = _ext_unit(job)
    value = record.store_timestamp + 1 + job.rng.randrange(9)
    job.editor.set_number(file.relative, pos, consumequeue.EXT_UNIT, "msgStoreTime", value)
    _changed(job, unit, "msgStoreTime of the extension unit", record.physical_offset)


def _batch_unit(job: Job) -> SceneUnit:
    for queue in job.shuffled([queue for queue in job.store.queues if queue.kind == "batch"]):
        scene = job.queue(queue)
        indexes = range(scene.start_index + 1, scene.end_index - 1)
        units = [scene.unit(index) for index in indexes] if scene.whole else []
        free = [unit for unit in units if _is_free(job, unit) and unit.offset >= job.log_start]
        if free:
            return job.choose(free, "batch unit")
    return job.choose([], "batch unit between two others (5.0+)")
