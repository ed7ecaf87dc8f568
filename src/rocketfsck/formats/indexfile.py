"""An index file: header, hash slots, index entries. Reference 4.1 to 4.4.

    file   := header[40] slot[4] * S entry[20] * N
    header := beginTimestamp endTimestamp beginPhyOffset endPhyOffset hashSlotCount indexCount
    slot   := number of the newest entry of the chain, 0 = none
    entry  := keyHash phyOffset timeDiff prevIndex

Entry 0 is never used; entries 1 .. indexCount-1 are. S and N are nowhere in the file: they come from the
broker's settings or must be found from the length, 40 + 4*S + 20*N, and from what the bytes allow.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.formats.javatext import INT32_MAX, int64, truncated_quotient
from rocketfsck.formats.layout import I32, I64, Buffer, Layout, declare, field

DEFAULT_SLOT_COUNT = 5_000_000
DEFAULT_ENTRY_COUNT = 20_000_000

HEADER: Layout = declare(
    "index_header",
    "Index file header",
    "4.1",
    field("beginTimestamp", I64, "ms", "storeTimestamp of the first put, or inherited"),
    field("endTimestamp", I64, "ms", "storeTimestamp of the last put"),
    field("beginPhyOffset", I64, "bytes", "commitlog offset of the first put, or inherited"),
    field("endPhyOffset", I64, "bytes", "commitlog offset of the last put"),
    field("hashSlotCount", I32, "", "puts (up to 4.7.0) or used slots (4.7.1+)"),
    field("indexCount", I32, "entries", "number of the next entry; 0 and 1 both mean empty"),
)
SLOT: Layout = declare(
    "index_slot",
    "Hash slot",
    "4.1",
    field("newestIndex", I32, "entries", "number of the newest entry of the chain, 0 = none"),
)
ENTRY: Layout = declare(
    "index_entry",
    "Index entry",
    "4.1",
    field("keyHash", I32, "", "absolute Java hash of topic#key, 0 .. 2**31-1"),
    field("phyOffset", I64, "bytes", "commitlog offset of the record"),
    field("timeDiff", I32, "s", "storeTimestamp less beginTimestamp, truncated"),
    field("prevIndex", I32, "entries", "previous entry of the same slot, 0 = none"),
)

INDEX_HEADER_SIZE = HEADER.size
SLOT_SIZE = SLOT.size
ENTRY_SIZE = ENTRY.size

# As many entries as this are compared when a geometry is tried on a file's bytes.
_SAMPLE_COUNT = 4096


@dataclass(frozen=True, slots=True)
class IndexHeader:
    """The 40 bytes at the start of an index file."""

    begin_timestamp: int
    end_timestamp: int
    begin_phy_offset: int
    end_phy_offset: int
    hash_slot_count: int
    index_count: int

    @property
    def entry_count(self) -> int:
        """Entries in use: the broker takes a stored count of 0 or less as 1, and entry 0 is never used."""
        return max(self.index_count, 1) - 1


def decode_header(data: Buffer, pos: int = 0) -> IndexHeader:
    """The header at `pos`; FormatError if fewer than 40 bytes are there."""
    return IndexHeader(*HEADER.parse(data, pos).values())


def encode_header(header: IndexHeader) -> bytes:
    """The 40 bytes of a header."""
    return HEADER.build({
        "beginTimestamp": header.begin_timestamp,
        "endTimestamp": header.end_timestamp,
        "beginPhyOffset": header.begin_phy_offset,
        "endPhyOffset": header.end_phy_offset,
        "hashSlotCount": header.hash_slot_count,
        "indexCount": header.index_count,
    })  # fmt: skip


def index_file_size(slot_count: int = DEFAULT_SLOT_COUNT, entry_count: int = DEFAULT_ENTRY_COUNT) -> int:
    """The exact length in bytes of an index file of this geometry."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * entry_count


def slot_of(key_hash: int, slot_count: int) -> int:
    """The slot whose chain holds entries of this hash."""
    return key_hash % slot_count


def slot_pos(slot: int) -> int:
    """Position of a slot in the file."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot


def entry_pos(entry: int, slot_count: int) -> int:
    """Position of an index entry in the file."""
    return INDEX_HEADER_SIZE + SLOT_SIZE * slot_count + ENTRY_SIZE * entry


def time_diff(store_timestamp: int, begin_timestamp: int) -> int:
    """The timeDiff (seconds) that a put writes while the header still holds `begin_timestamp` (ms)."""
    if begin_timestamp <= 0:
        return 0
    seconds = truncated_quotient(int64(store_timestamp - begin_timestamp), 1000)
    return min(max(seconds, 0), INT32_MAX)


def _geometry(
    length: int, *, slot_count: int | None = None, entry_count: int | None = None
) -> tuple[int, int] | None:
    room = length - INDEX_HEADER_SIZE
    if slot_count is None:
        assert entry_count is not None
        slot_count, rest = divmod(room - ENTRY_SIZE * entry_count, SLOT_SIZE)
    else:
        entry_count, rest = divmod(room - SLOT_SIZE * slot_count, ENTRY_SIZE)
    return None if rest or slot_count < 1 or entry_count < 1 else (slot_count, entry_count)


def _used_length(data: Buffer) -> int:
    """Bytes up to the last one that is not zero."""
    view = memoryview(data)
    end = len(view)
    while end:
        start = max(end - 65536, 0)
        kept = len(bytes(view[start:end]).rstrip(b"\0"))
        if kept:
            return start + kept
        end = start
    return 0


def fits_geometry(data: Buffer, slot_count: int, entry_count: int) -> bool:
    """Whether a file's bytes can have been put with this geometry.

    Entry 0 must be zero, hashes not negative, `prevIndex` lower than the entry and in the same slot, and
    every chain's newest sampled entry reachable from a slot that points at it or at a later one. `data` may
    be the file's beginning: only what is there is compared.
    """
    first = entry_pos(0, slot_count)
    if len(data) < INDEX_HEADER_SIZE:
        return True
    used = decode_header(data).entry_count
    if used >= entry_count:
        return False
    if any(data[first : first + ENTRY_SIZE]):
        return False
    newest: dict[int, int] = {}
    for number in range(1, min(used, _SAMPLE_COUNT) + 1):
        pos = entry_pos(number, slot_count)
        if pos + ENTRY_SIZE > len(data):
            break
        key_hash, previous = _word(data, pos), _word(data, pos + 16)
        if key_hash < 0 or previous != newest.get(slot_of(key_hash, slot_count), 0):
            return False
        newest[slot_of(key_hash, slot_count)] = number
    return all(_word(data, slot_pos(slot)) >= number for slot, number in newest.items())


def _word(data: Buffer, pos: int) -> int:
    return int.from_bytes(data[pos : pos + 4], "big", signed=True)


def infer_geometry(
    length: int,
    *,
    slot_count: int | None = None,
    entry_count: int | None = None,
    header: IndexHeader | None = None,
    data: Buffer | None = None,
) -> list[tuple[int, int]]:
    """The (slot count, entry count) that a file of this length can have, the likeliest first.

    A count that is known settles it. Else the broker's defaults are tried, then the entry count of a full
    file (its indexCount), then, with `data` (the file's bytes, or its beginning), every geometry whose last
    used entry ends where the bytes do. Candidates that contradict `data` are left out; an empty list means
    that the length is not possible or that nothing tells.
    """
    if data is not None and header is None and len(data) >= INDEX_HEADER_SIZE:
        header = decode_header(data)
    candidates: list[tuple[int, int] | None] = []
    if slot_count is not None or entry_count is not None:
        candidates.append(_geometry(length, slot_count=slot_count, entry_count=entry_count))
        if None not in (slot_count, entry_count) and candidates != [(slot_count, entry_count)]:
            return []
        return [found for found in candidates if found]
    if length == index_file_size():
        candidates.append((DEFAULT_SLOT_COUNT, DEFAULT_ENTRY_COUNT))
    if header is not None and header.index_count > 1:
        candidates.append(_geometry(length, entry_count=header.index_count))
        if data is not None:
            candidates += _geometries_by_last_entry(length, header.entry_count, _used_length(data))
    distinct = dict.fromkeys(found for found in candidates if found)
    return [found for found in distinct if data is None or fits_geometry(data, *found)]


def _geometries_by_last_entry(length: int, used: int, used_length: int) -> list[tuple[int, int] | None]:
    """Geometries in which the last used entry holds the file's last byte that is not zero."""
    first = used_length - INDEX_HEADER_SIZE - ENTRY_SIZE * (used + 1)
    # The last entry may end in zero bytes: a prevIndex of 0, and so on back to its hash.
    lengths = (slots for slots in range(max(first, 0), first + ENTRY_SIZE) if slots % SLOT_SIZE == 0)
    return [_geometry(length, slot_count=slots // SLOT_SIZE) for slots in lengths]
