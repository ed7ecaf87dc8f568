"""What shapes a store apart from its messages: dialect, geometry, broker settings, how the broker stopped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from zoneinfo import ZoneInfo

from rocketfsck.errors import UsageError
from rocketfsck.formats import consumequeue, indexfile, javatext, magic, timer
from rocketfsck.formats.checkpoint import Checkpoint
from rocketfsck.formats.dialect import WRITTEN_NAME, Dialect, dialect_for
from rocketfsck.store.circumstances import Geometry, Settings
from rocketfsck.store.geometry import read_geometry

DEFAULT_MAX_MESSAGE_SIZE = 4 << 20
PROPERTY_ALLOWANCE = 65536
"""What a record may be longer than maxMessageSize where that limits the body (4.9.4+, 5.0.0+)."""

_MIN_EXT_FILE_SIZE = 64


class EndState(Enum):
    """How the broker ended: an orderly shutdown, or a killed process whose page cache survived."""

    CLEAN = "clean"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a store is written.

    `version` names the broker version whose store code is followed. `start_offset` is the physical offset of
    the first record (a multiple of the commit log's file size), `queue_start_offsets` the first queue offset
    by (topic, queueId). `batch_topics` have `queue.type=BatchCQ`; `consumequeue_ext`, `multi_dispatch`
    (enableLmq and enableMultiDispatch), `append_property_crc`, `message_index` and `sync_flush` are broker
    settings; with the last, the checkpoint's physic time passes over messages that nobody waits for.
    `delay_levels` are ms by level. `property_map_capacity` is the number of buckets that property maps begin
    with where that is not the version's (a message that no client's request was parsed for has 16).

    Index files are named by the wall clock at their creation: `clock` gives it in ms from the storeTimestamp
    of the record being dispatched (default: that time itself), `time_zone` is the broker's; `index_names`
    come first where the names are known. `checkpoint` replaces the one derived. `config` holds the files of
    `config/` by name (None leaves topics.json out); `topics_file` writes topics.json from the messages.
    `sync` makes all bytes durable before the store appears under its name.
    """

    version: str = WRITTEN_NAME
    geometry: Geometry = field(default_factory=Geometry)
    end_state: EndState = EndState.CLEAN
    time_zone: str = "UTC"
    clock: Callable[[int], int] | None = None
    index_names: tuple[str, ...] = ()
    start_offset: int = 0
    queue_start_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    batch_topics: frozenset[str] = frozenset()
    consumequeue_ext: bool = False
    multi_dispatch: bool = False
    append_property_crc: bool = False
    message_index: bool = True
    sync_flush: bool = False
    delay_levels: Mapping[int, int] = field(default_factory=lambda: dict(timer.DEFAULT_DELAY_LEVELS))
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE
    preallocate: bool = True
    property_map_capacity: int | None = None
    pid: int = 4242
    checkpoint: Checkpoint | None = None
    master_flushed_offset: int = 0
    confirm_physical_offset: int = 0
    config: Mapping[str, Any] = field(default_factory=dict)
    topics_file: bool = True
    sync: bool = True

    @property
    def dialect(self) -> Dialect:
        """The traits of `version`; UsageError if it names none."""
        return dialect_for(self.version)


def check_options(options: WriteOptions) -> None:
    """UsageError for settings that contradict each other or that this version does not have."""
    dialect, geometry = options.dialect, options.geometry
    least = magic.MIN_RECORD_SIZE + 1 + magic.BLANK_HEADER_SIZE
    limits = (
        ("commitlog_file_size", least, 1),
        ("consumequeue_file_size", consumequeue.UNIT_SIZE, consumequeue.UNIT_SIZE),
        ("batch_file_size", consumequeue.BATCH_UNIT_SIZE, consumequeue.BATCH_UNIT_SIZE),
        ("ext_file_size", _MIN_EXT_FILE_SIZE, 1),
        ("slot_count", 1, 1),
        ("entry_count", 2, 1),
    )
    for name, minimum, multiple in limits:
        value = getattr(geometry, name)
        if not minimum <= value <= javatext.INT32_MAX or value % multiple:
            raise UsageError(
                f"{name} {value}: needs {minimum} to {javatext.INT32_MAX}, a multiple of {multiple}"
            )
    if indexfile.index_file_size(geometry.slot_count, geometry.entry_count) > javatext.INT32_MAX:
        raise UsageError(
            "an index file of 2 GiB or more: the broker counts its bytes as a signed 32-bit number"
        )
    start, size = options.start_offset, geometry.commitlog_file_size
    if not 0 <= start <= javatext.INT64_MAX - (1 << 40):
        raise UsageError(f"start_offset {start} is not a commit log offset")
    if start % size:
        raise UsageError(f"start_offset {start} is not a multiple of {size}")
    for (topic, queue_id), offset in options.queue_start_offsets.items():
        if not 0 <= offset <= javatext.INT64_MAX // 64:
            raise UsageError(f"queue {topic}-{queue_id} cannot begin at {offset}")
    wanted = (
        ("batch queues", bool(options.batch_topics), dialect.batch_queues),
        ("consumequeue_ext", options.consumequeue_ext, dialect.consumequeue_ext),
        ("multi-dispatch", options.multi_dispatch, dialect.multi_dispatch),
        ("the property CRC", options.append_property_crc, dialect.property_crc),
    )
    for what, asked, there in wanted:
        if asked and not there:
            raise UsageError(f"{dialect.version} does not have {what}")
    try:
        ZoneInfo(options.time_zone)
    except (KeyError, ValueError, OSError):
        raise UsageError(f"{options.time_zone!r} is not a known time zone") from None


def options_of_settings(settings: Settings, version: str) -> dict[str, Any]:
    """The fields of WriteOptions that the settings of a broker of this version say. UsageError for a value
    that is not valid."""
    geometry = read_geometry(settings, {}, ())
    for name, note in geometry.notes.items():
        if geometry.source(name) != "given":
            raise UsageError(f"{settings.path}: {name}: {note}")
    alone = dialect_for(version).lmq_alone_dispatches
    lmq, dispatch = settings.flag("enableLmq", False), settings.flag("enableMultiDispatch", False)
    options: dict[str, Any] = {
        "geometry": geometry,
        "consumequeue_ext": settings.flag("enableConsumeQueueExt", False),
        "multi_dispatch": lmq and (dispatch or alone),
        "append_property_crc": settings.flag("enabledAppendPropCRC", False),
        "message_index": settings.flag("messageIndexEnable", True),
        "sync_flush": (settings.get("flushDiskType") or "").strip() == "SYNC_FLUSH",
    }
    levels = settings.get("messageDelayLevel")
    if levels is not None:
        options["delay_levels"] = timer.parse_delay_levels(levels)
    largest = settings.get("maxMessageSize")
    if largest is not None:
        size = javatext.parse_int32(largest.strip())
        if size is None or size <= 0:
            raise UsageError(f"{settings.path}: maxMessageSize is {largest[:40]!r}, not a positive number")
        options["max_message_size"] = size
    return options
