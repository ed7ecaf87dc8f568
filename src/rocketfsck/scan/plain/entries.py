"""DLedger's entries around the records of a log: what is at a place where one may begin.

    data := item*          item := header record | no-op | blank | bare record
    header := magic:i32 size:i32 index:i64 term:i64 pos:i64 channel:i32 chainCrc:i32 bodyCrc:i32 bodyLen:i32
    blank  := -1:i32 remaining:i32

As brokers read it, the second word decides: one of a record's magic codes is that of a bare record, as it is
after a header that is lost. The record's own frame says how long an entry with magic 1 is, not its header,
whose numbers the check compares (`verify.log.entries`). Entries of another kind hold no record and are as
long as they say. Reference 2.14.
"""

from __future__ import annotations

from rocketfsck.formats import dledger
from rocketfsck.formats.dledger import MAGIC_BLANK as ENTRY_BLANK
from rocketfsck.formats.layout import Buffer
from rocketfsck.formats.magic import BLANK_HEADER_SIZE, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from rocketfsck.formats.record import BLANK
from rocketfsck.scan.options import Stop
from rocketfsck.store.reading import FileReader

_HEAD = BLANK.packer()
_HEADER = dledger.DLEDGER_ENTRY.packer()
_RECORD_MAGICS = (MAGIC_V1, MAGIC_V2, MAGIC_BLANK)

STOP_IN_ENTRY = {Stop.ZERO: Stop.MAGIC, Stop.BLANK: Stop.MAGIC, Stop.SHORT: Stop.SIZE}
"""What stops a run where something else than a record follows an entry's header."""


def entry_lead(data: Buffer, at: int, given: int, left: int) -> tuple[int, bool] | Stop:
    """The bytes from `data[at]` to what is read next, and whether that is the entry's own record.

    `given` bytes are in `data` from there on, `left` in the file. (0, False): no entry begins here. A Stop
    says why nothing can be read.
    """
    if given < BLANK_HEADER_SIZE:
        return 0, False
    magic, size = _HEAD.unpack_from(data, at)
    if size in _RECORD_MAGICS:
        return 0, False
    if magic == ENTRY_BLANK:
        return Stop.BLANK
    if not dledger.MAGIC_NORMAL <= magic <= dledger.MAGIC_CONFIG_CHANGE:
        return 0, False
    if left < dledger.ENTRY_HEADER_SIZE:
        return Stop.SIZE
    if magic == dledger.MAGIC_NORMAL:
        return (dledger.ENTRY_HEADER_SIZE, True) if given >= dledger.ENTRY_HEADER_SIZE else Stop.NEED_BYTES
    if not dledger.ENTRY_HEADER_SIZE <= size <= left:
        return Stop.SIZE
    return (size, False) if given >= size else Stop.NEED_BYTES


def record_pos(reader: FileReader, pos: int) -> int:
    """Where the record of what is at a file position begins: after an entry's header, or there."""
    return _after_lead(reader, pos, with_record=True)


def after_entry(reader: FileReader, pos: int) -> int:
    """Where the file continues after an entry that holds no record; `pos` if no such entry is there."""
    return _after_lead(reader, pos, with_record=False)


def _after_lead(reader: FileReader, pos: int, *, with_record: bool) -> int:
    head = reader.read_upto(pos, BLANK_HEADER_SIZE)
    lead = entry_lead(head, 0, reader.size - pos, reader.size - pos) if len(head) == BLANK_HEADER_SIZE else 0
    return pos + lead[0] if isinstance(lead, tuple) and lead[1] is with_record else pos


def framed_size(reader: FileReader, pos: int, base_offset: int, file_size: int) -> int | None:
    """The size of the entry at a file position if its header is sound: it is in the file, its two lengths
    agree, and it says that this is its place. None otherwise."""
    head = reader.read_upto(pos, dledger.ENTRY_HEADER_SIZE)
    if len(head) < dledger.ENTRY_HEADER_SIZE:
        return None
    magic, size, _, _, stated, _, _, _, body_size = _HEADER.unpack(head)
    known = magic in (dledger.MAGIC_NORMAL, dledger.MAGIC_NOOP, dledger.MAGIC_CONFIG_CHANGE)
    sound = known and stated == base_offset + pos and size == dledger.ENTRY_HEADER_SIZE + body_size
    return int(size) if sound and dledger.ENTRY_HEADER_SIZE <= size <= file_size - pos else None


def is_entry_blank(reader: FileReader, pos: int, *sizes: int) -> bool:
    """Whether a blank of DLedger's is at a file position and ends where a file of one of these sizes does."""
    head = reader.read_upto(pos, BLANK_HEADER_SIZE)
    if len(head) < BLANK_HEADER_SIZE:
        return False
    magic, left = _HEAD.unpack(head)
    return magic == ENTRY_BLANK and any(pos + left == size for size in sizes)
