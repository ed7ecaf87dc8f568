"""The bytes of a checkpoint after its known fields: zeros, damage, or fields of a newer broker. ADR 0011.

    tail := zero*  |  long[1..FIELD_LIMIT] zero*      each long 0, an offset, a time or a number

Reference 5.1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.checkpoint import CHECKPOINT, CHECKPOINT_SIZE
from rocketfsck.reader.heads import begins_record, first_head
from rocketfsck.store.elsewhere import has_log_elsewhere
from rocketfsck.store.model import MappedFileQueue, Store, StoreFile
from rocketfsck.store.openfiles import OpenFiles
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.tasks.facts import Known

FIELD_LIMIT = 8
"""Longs behind the known fields that may be fields of a newer broker; what is further behind is damage."""

_LAST_KNOWN = "logicsPhysicalOffset"
NUMBER_BITS = 53
"""Numbers of 2^53 or more are later than any time in microseconds: most random bytes are."""
_LONG = struct.Struct(">q")
_STARTS = struct.Struct(">qq")
"""The two times that every checkpoint of a broker with messages has."""


def check_tail(store: Store, file: StoreFile, data: bytes, known: Known) -> Iterator[Finding]:
    """Finds CP026 on each field that the store's version does not write, or CP008 where the bytes are not
    such fields. Fields of versions that left no other traces are looked at, too: a stray value is damage."""
    known_size = (
        CHECKPOINT.size if _LAST_KNOWN in store.dialect.checkpoint_fields else CHECKPOINT.offset(_LAST_KNOWN)
    )
    tail = data[known_size:]
    if not any(tail):
        return
    first = known_size + len(tail) - len(tail.lstrip(b"\0"))
    end = known_size + len(tail.rstrip(b"\0"))
    fields = [(pos, value) for pos, (value,) in _longs(tail, known_size) if value]
    sound = len(data) == CHECKPOINT_SIZE and end <= known_size + FIELD_LIMIT * _LONG.size
    whole = all(value > 0 for value in _STARTS.unpack_from(data)) if sound else False
    kinds = [_kind(store, value, known, whole) if sound else None for _, value in fields]
    if None in kinds:
        where = Where(file=file.relative, start=first, end=end)
        yield Finding(
            RuleName.CHECKPOINT_TAIL, where, {"bytes_hex": data[first : min(end, first + 16)].hex()}
        )
        return
    for (pos, value), kind in zip(fields, kinds, strict=True):
        where = Where(file=file.relative, start=pos, end=pos + _LONG.size)
        yield Finding(RuleName.CHECKPOINT_FIELD_UNKNOWN, where, {"value": value, "kind": kind})


def _kind(store: Store, value: int, known: Known, whole: bool) -> str | None:
    """`kind_of`; in a checkpoint that is `whole` in its known fields, any other "number", too."""
    return kind_of(store, value, known) or ("number" if whole and is_number(value) else None)


def is_number(value: int) -> bool:
    """Whether a long is such as programs write, a count or a time in microseconds, and not a flipped bit, nor
    a long that was written across two."""
    return 0 < value < 1 << NUMBER_BITS and value & (value - 1) != 0 and value & 0xFFFFFFFF != 0


def _longs(tail: bytes, first: int) -> Iterator[tuple[int, tuple[int]]]:
    whole = tail[: len(tail) // _LONG.size * _LONG.size]
    return zip(range(first, CHECKPOINT_SIZE, _LONG.size), _LONG.iter_unpack(whole), strict=False)


def kind_of(store: Store, value: int, known: Known) -> str | None:
    """What a number of a newer broker's can be: "offset" of a record or of the log's end, "time" of the log's
    records; None: neither, as far as the log is here to tell. Raises StoreError."""
    if value <= 0:
        return None
    log = store.commitlog
    end = log.end_offset if known.end_offset is None else known.end_offset
    if has_log_elsewhere(store) or log.start_offset is None or end is None:
        return "offset"  # nothing here contradicts that
    if value < max(log.start_offset, 1):
        return "offset"  # an older broker leaves the field as it is while the log continues
    if value <= end and (value == end or begins_record(log, value)):
        return "offset"
    if value < end and known.end_offset is None and not any(_bytes_at(log, value)):
        return "offset"  # of the log's end, as far as a look at a few bytes tells
    oldest, newest = known.min_store_timestamp, known.max_store_timestamp
    if oldest is None or newest is None:
        head = first_head(log.files[0])
        oldest, newest = (head.store_timestamp if head is not None else value + 1, value)
    return "time" if oldest <= value <= newest else None


def _bytes_at(log: MappedFileQueue, physical_offset: int) -> bytes:
    with OpenFiles(log) as files:
        place = files.at(physical_offset)
        return b"?" if place is None else place[0].read_upto(place[1], 8)
