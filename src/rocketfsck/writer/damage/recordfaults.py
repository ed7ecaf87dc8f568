"""Faults of single records: checksums, fields, lengths (fault catalogue C2 to C4, C10, C11, Q4)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import properties as props
from rocketfsck.formats.magic import COMPRESSED, MAGIC_BLANK, TRANSACTION_COMMIT, TRANSACTION_NOT
from rocketfsck.scan.columns import Trait
from rocketfsck.writer.damage.job import Job, damage
from rocketfsck.writer.damage.model import (
    ANY_LOG,
    KEYS_CHANGED,
    MOVED,
    RECORD_CHANGED,
    RECORD_LOST,
    PromisedPlace,
    rules,
)
from rocketfsck.writer.damage.scenes import LogRecord, LogScene

_HOUR = 3_600_000
_LOST_TEXT = b"inMs\xe5\x88\xa9\xe5"
"""What readers that lost the boundary met: message text (fault catalogue C2)."""


def _is_inner(log: LogScene, record: LogRecord) -> bool:
    """Whether sound records come right before and right after a record."""
    if not 0 < record.number < len(log) - 1:
        return False
    return log.record(record.number - 1).end == record.pos and log.record(record.number + 1).pos == record.end


def _is_plain(record: LogRecord) -> bool:
    special = Trait.INNER_BATCH | Trait.MULTI_DISPATCH | Trait.SCHEDULE_TOPIC
    return record.transaction == TRANSACTION_NOT and not record.traits & special


def _has_plain_body(_: LogScene, record: LogRecord) -> bool:
    return record.body_size > 0 and not record.sys_flag & COMPRESSED and not record.traits & Trait.INNER_BATCH


def _set(job: Job, record: LogRecord, field: str, data: bytes) -> None:
    start, end = record.spans()[field]
    assert len(data) == end - start
    job.editor.write(record.file.relative, start, data)


def _set_number(job: Job, record: LogRecord, field: str, value: int) -> None:
    start, end = record.spans()[field]
    _set(job, record, field, value.to_bytes(end - start, "big", signed=True))


def _stated(job: Job, record: LogRecord, what: str) -> None:
    job.note = f"{what} of the record at {record.physical_offset} ({record.topic}/{record.queue_id})"


def _changed(job: Job, record: LogRecord, what: str) -> None:
    """Note what of a record was changed; a check must find it at the record."""
    _stated(job, record, what)
    job.promise(job.record_place(record))


def _change_number(job: Job, record: LogRecord, field: str, value: int) -> None:
    _set_number(job, record, field, value)
    _changed(job, record, field)


def _change_property(job: Job, what: str, name: str, wanted: Trait) -> None:
    """Give a property of a record with these traits, which should be a number, a letter for its value."""
    record = job.record(what, lambda _, item: item.traits & wanted == wanted)
    start, end = record.spans()["properties"]
    pos = _value_pos(job.editor.read(record.file.relative, start, end), name)
    job.need(pos is not None, what)
    job.editor.write(record.file.relative, start + (pos or 0), b"x")
    _changed(job, record, name)


def _last_record(job: Job, size_of: Callable[[LogRecord], int]) -> LogRecord:
    """The last record, of which some part has a size and no BLANK follows."""
    log = job.last_log()
    record = log.record(-1)
    job.need(log.tail_is_sound, "record at its end that no BLANK follows")
    job.need(size_of(record) > 0 and job.is_free(log.file.relative, record.pos), "free last record")
    return record


_PLACE_CHANGED = rules(RECORD_CHANGED, MOVED, RuleName.BATCH_UNIT_CONTENT)
_UNBROKEN = ANY_LOG - rules(
    RuleName.LOG_BOUNDARY_LOST, RuleName.LOG_TORN_TAIL, RuleName.RECORD_MALFORMED, RuleName.RECORD_BODY_CRC,
    RuleName.LOG_NO_RECORDS,
)  # fmt: skip
"""What changed bytes may cause besides a boundary that is lost."""


@damage(
    "C1", RuleName.LOG_TORN_TAIL, "a last record that no BLANK follows", _UNBROKEN, RuleName.LOG_TORN_TAIL
)
def torn_tail(job: Job) -> None:
    """The last record was written in part.

    Zeros replace its end, from a byte before its properties on.
    """
    record = _last_record(job, lambda record: record.topic_size)
    cut = record.pos + 8 + job.rng.randrange(record.topic_pos - record.pos - 8)
    job.editor.write(record.file.relative, cut, bytes(record.end - cut))
    _changed(job, record, f"everything from byte {cut} on")


@damage(
    "C1", RuleName.RECORD_PROPERTIES_NUL, "a last record with properties", RECORD_CHANGED, KEYS_CHANGED,
    RuleName.UNIT_TAGS_CODE, RuleName.EXT_UNIT_CONTENT, RuleName.MULTI_DISPATCH_LISTS,
    RuleName.BATCH_UNIT_CONTENT, RuleName.RECORD_DELAY_LEVEL, RuleName.RECORD_INNER_BATCH,
    RuleName.QUEUE_OFFSET_GAP, RuleName.RECORD_WITHOUT_TARGET, RuleName.RECORD_WITHOUT_UNIT,
    RuleName.UNIT_GHOST,
)  # fmt: skip
def properties_torn(job: Job) -> None:
    """The last record's properties end in zeros."""
    record = _last_record(job, lambda record: record.properties_size)
    size = 1 + job.rng.randrange(record.properties_size)
    job.editor.write(record.file.relative, record.end - size, bytes(size))
    _changed(job, record, f"the last {size} bytes of the properties")


@damage("C2", RuleName.LOG_BOUNDARY_LOST, "a record between two others in its file", RECORD_LOST)
def boundary_lost(job: Job) -> None:
    """The first bytes of a record are message text."""
    record = job.record("record between two others", _is_inner)
    job.editor.write(record.file.relative, record.pos, _LOST_TEXT)
    _changed(job, record, "the first 8 bytes")


@damage("C2", RuleName.BLANK_TOO_EARLY, "a record between two others in its file", _UNBROKEN)
def blank_early(job: Job) -> None:
    """A BLANK in the middle of a file hides the records after it.

    The BLANK takes the place of a record.
    """
    record = job.record("record between two others", _is_inner)
    left = job.log(record.file).size - record.pos
    job.editor.write(record.file.relative, record.pos, struct.pack(">ii", left, MAGIC_BLANK))
    _stated(job, record, "a BLANK in the place")
    offset = record.physical_offset + 8
    job.promise(PromisedPlace(record.file.relative, record.pos + 8, record.pos + left, offset))


@damage("C3", RuleName.STALE_TAIL, "room after the last record", options={"count": "how many records"})
def stale_tail(job: Job) -> None:
    """Old records follow the end of the log."""
    log = job.last_log()
    job.need(log.tail_is_sound, "room after its last record")
    job.need(job.is_free(log.file.relative, log.live_end), "room after its last record")
    count = min(job.number("count", 1 + job.rng.randrange(4)), len(log))
    newest = int(log.column("store_timestamp").max())
    pos, copies = log.live_end, b""
    records = [log.record(number) for number in range(len(log) - count, len(log))]
    for step, record in enumerate(records):
        data = bytearray(job.editor.read(log.file.relative, record.pos, record.end))
        spans = record.spans()
        stands = (log.file.start_offset or 0) + pos + len(copies)
        for field, value in (("physicalOffset", stands), ("storeTimestamp", newest - 60_000 + step)):
            low, high = (bound - record.pos for bound in spans[field])
            data[low:high] = value.to_bytes(high - low, "big", signed=True)
        if record.traits & Trait.PROPERTY_CRC:
            data[-props.PROPERTY_CRC_SIZE :] = props.property_crc_trailer(props.property_crc(bytes(data)))
        copies += bytes(data)
    end, offset = pos + len(copies), (log.file.start_offset or 0) + pos
    job.need(any(map(_takes_place, records)) and end + 8 <= log.size, "room after its last record")
    job.editor.write(log.file.relative, pos, copies)
    place = PromisedPlace(log.file.relative, pos, end, offset)
    job.done(f"{count} old records after the end at {offset}", place)


@damage("C3", RuleName.BYTES_BEHIND_END, "room after the last record", options={"size": "how many bytes"})
def garbage_tail(job: Job) -> None:
    """Bytes that are not a record follow the end of the log."""
    log = job.last_log()
    size = job.number("size", 200, 1, 1 << 20)
    gap = 64 + job.rng.randrange(64)
    pos = log.live_end + gap
    job.need(log.tail_is_sound and pos + size <= log.size, "room after its last record")
    job.need(job.is_free(log.file.relative, log.live_end), "room after its last record")
    job.editor.write(log.file.relative, pos, bytes(job.rng.randrange(1, 128) for _ in range(size)))
    job.note = f"{size:,} bytes of garbage, {gap:,} bytes after the end of the log"
    place = PromisedPlace(log.file.relative, pos, pos + size, (log.file.start_offset or 0) + pos)
    job.promise(place)


@damage("C3", RuleName.RECORD_PHYSICAL_OFFSET, "a record between two others in its file", RECORD_CHANGED)
def physical_offset(job: Job) -> None:
    """A record has a wrong physicalOffset."""
    record = job.record("record between two others", _is_inner)
    stated = record.physical_offset + 4096 * (1 + job.rng.randrange(100))
    _change_number(job, record, "physicalOffset", stated)


@damage("C4", RuleName.RECORD_BODY_CRC, "a record with a body", RECORD_CHANGED)
def body_flip(job: Job) -> None:
    """One bit of a body is flipped."""
    record = job.record("record with a body", lambda _, item: item.body_size > 0)
    pos = record.body_pos + job.rng.randrange(record.body_size)
    job.flip_bit(record.file.relative, pos)
    _changed(job, record, f"one bit of byte {pos}, in the body")


@damage("C4", RuleName.RECORD_BODY_CRC, "a record with a body", RECORD_CHANGED)
def body_crc(job: Job) -> None:
    """A record's bodyCRC is wrong."""
    record = job.record("record with a body", lambda _, item: item.body_size > 0)
    start, end = record.spans()["bodyCRC"]
    crc = int.from_bytes(job.editor.read(record.file.relative, start, end), "big")
    _set(job, record, "bodyCRC", (crc ^ job.rng.randrange(1, 1 << 31)).to_bytes(4, "big"))
    _changed(job, record, "bodyCRC")


@damage(
    "C4", RuleName.RECORD_PROPERTY_CRC, "records with property CRCs (5.2.0+)",
    RuleName.RECORD_PROPERTIES_SHAPE,
)  # fmt: skip
def property_crc(job: Job) -> None:
    """One digit of a record's property CRC is wrong."""
    record = job.record("record with a property CRC", lambda _, item: item.traits & Trait.PROPERTY_CRC)
    pos = record.end - 11 + job.rng.randrange(9)
    digit = job.editor.read(record.file.relative, pos, pos + 1)[0]
    job.editor.write(record.file.relative, pos, bytes([ord("0") + (digit - ord("0") + 1) % 10]))
    _changed(job, record, "a digit of __CRC32#")


@damage("C10", RuleName.RECORD_MALFORMED, "a record with a body between two others", RECORD_LOST)
def record_malformed(job: Job) -> None:
    """A record's bodyLength contradicts its totalSize."""
    what = "record between two others with a body"
    record = job.record(what, lambda log, item: _is_inner(log, item) and item.body_size > 0)
    _change_number(job, record, "bodyLength", record.body_size + 1 + job.rng.randrange(1000))


@damage("C10", RuleName.RECORD_SYS_FLAG, "a record", RECORD_CHANGED)
def sys_flag(job: Job) -> None:
    """A sysFlag has a bit that no version uses."""
    record = job.record("record")
    _change_number(job, record, "sysFlag", record.sys_flag | 1 << (11 + job.rng.randrange(8)))


@damage("C10", RuleName.RECORD_HOST_PORT, "a record", RECORD_CHANGED)
def host_port(job: Job) -> None:
    """A port is above 65535."""
    record = job.record("record")
    _, end = record.spans()["bornHost"]
    job.editor.write(record.file.relative, end - 4, struct.pack(">i", 65536 + job.rng.randrange(1 << 20)))
    _changed(job, record, "the port of bornHost")


@damage("C10", RuleName.RECORD_NEGATIVE_FIELD, "a record of no transaction", RECORD_CHANGED)
def negative_field(job: Job) -> None:
    """A record's preparedTransactionOffset is negative."""
    record = job.record("record of no transaction", lambda _, item: item.transaction == TRANSACTION_NOT)
    _change_number(job, record, "preparedTransactionOffset", -1 - job.rng.randrange(1 << 40))


@damage("C10", RuleName.RECORD_TOPIC, "a plain record", RECORD_CHANGED, KEYS_CHANGED, MOVED)
def topic_character(job: Job) -> None:
    """A record's topic has a control character."""
    record = job.record("record", lambda _, item: item.topic_size > 1 and _is_plain(item))
    pos = record.topic_pos + job.rng.randrange(record.topic_size)
    job.editor.write(record.file.relative, pos, bytes([1 + job.rng.randrange(31)]))
    _changed(job, record, "a character of the topic")


@damage(
    "C10", RuleName.RECORD_DELAY_LEVEL, "a message in SCHEDULE_TOPIC_XXXX", RECORD_CHANGED,
    RuleName.UNIT_TAGS_CODE, RuleName.EXT_UNIT_CONTENT,
)  # fmt: skip
def delay_level(job: Job) -> None:
    """A delayed message's DELAY is not a number."""
    wanted = Trait.SCHEDULE_TOPIC | Trait.DELAY
    _change_property(job, "delayed message", props.DELAY, wanted)


@damage("C10", RuleName.RECORD_INNER_BATCH, "an inner batch (5.0+)", _PLACE_CHANGED)
def inner_batch(job: Job) -> None:
    """An inner batch's INNER_NUM is not a number."""
    _change_property(job, "inner batch", props.INNER_NUM, Trait.INNER_BATCH)


def _value_pos(properties: bytes, name: str) -> int | None:
    mark = f"{name}\x01".encode()
    for prefix in (b"\x02", b""):
        at = properties.find(prefix + mark)
        if at >= 0 and (prefix or at == 0):
            return at + len(prefix) + len(mark)
    return None


@damage("C10", RuleName.RECORD_COMPRESSED_BODY, "a record with a plain body", RECORD_CHANGED)
def compressed_flag(job: Job) -> None:
    """sysFlag calls a plain body compressed."""
    record = job.record("record with a body that is not compressed", _has_plain_body)
    _change_number(job, record, "sysFlag", record.sys_flag | COMPRESSED)


@damage("C10", RuleName.PREPARED_RECORD_MISSING, "a committed transaction", RECORD_CHANGED)
def prepared_missing(job: Job) -> None:
    """A committed message does not name its half message."""

    def has_half(_: LogScene, item: LogRecord) -> bool:
        committed = item.transaction == TRANSACTION_COMMIT
        return committed and job.record_at(item.prepared_transaction_offset) is not None

    record = job.record("committed transaction whose half message exists", has_half)
    half = job.record_at(record.prepared_transaction_offset)
    assert half is not None
    job.rely(half.file.relative, half.pos, half.end)
    _change_number(job, record, "preparedTransactionOffset", record.prepared_transaction_offset + 4)


@damage(
    "C11", RuleName.STORE_TIMESTAMP_BACK, "a file in which time rises", RECORD_CHANGED,
    RuleName.UNIT_TAGS_CODE, RuleName.EXT_UNIT_CONTENT, RuleName.BATCH_UNIT_CONTENT, RuleName.ENTRY_TIME,
    RuleName.INDEX_HEADER_RANGE, RuleName.CHECKPOINT_BEHIND,
)  # fmt: skip
def time_back(job: Job) -> None:
    """A storeTimestamp is an hour ahead.

    The records after it have earlier times.
    """

    def alone(log: LogScene, record: LogRecord) -> bool:
        times = log.column("store_timestamp")
        return _is_inner(log, record) and bool((times[1:] >= times[:-1]).all())

    record = job.record("commit log file in which time rises", alone)
    following = job.log(record.file).record(record.number + 1)
    _set_number(job, record, "storeTimestamp", record.store_timestamp + _HOUR)
    _stated(job, record, "storeTimestamp")
    job.promise(PromisedPlace(record.file.relative, following.pos, physical_offset=following.physical_offset))


@damage("Q4", RuleName.QUEUE_OFFSET_REPEATED, "two neighbours of one queue", _PLACE_CHANGED)
def queue_offset_repeated(job: Job) -> None:
    """Two records carry one queueOffset.

    The later record has the queueOffset of the one before it in its queue.
    """
    before: dict[str, LogRecord] = {}

    def follows(log: LogScene, record: LogRecord) -> bool:
        if not _is_plain(record) or record.queue_offset < 2 or job.unit_of(record) is None:
            return False
        same = (log.column("queue_index") == log.column("queue_index")[record.number]).nonzero()[0]
        earlier = [number for number in same.tolist() if number < record.number]
        if not earlier:
            return False
        before["it"] = log.record(earlier[-1])
        return before["it"].queue_offset == record.queue_offset - 1 and _is_plain(before["it"])

    record = job.record("record that follows another of its queue", follows)
    job.rely(record.file.relative, before["it"].pos, before["it"].end)
    _change_number(job, record, "queueOffset", record.queue_offset - 1)


def _takes_place(record: LogRecord) -> bool:
    return record.transaction in (TRANSACTION_NOT, TRANSACTION_COMMIT)
