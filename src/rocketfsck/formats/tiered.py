"""Tiered storage (5.1.0+): names of segments, the coda of a log segment, index files. Reference 1.10.

    <cluster directory>/<broker>/<topic>/<queueId>/{COMMIT_LOG,CONSUME_QUEUE}/<segment>
    <cluster directory>/<broker>/rmq_sys_INDEX/0/INDEX/<segment>
    cluster directory := 8 hex digits of md5(cluster), "_", cluster
    segment           := 8 hex digits of md5(offset), offset as 20 digits

    log segment   := record* coda?              physicalOffset is the place in this queue's own log
    queue segment := unit[20]*                  the consume queue unit; its offset is that place
    local index   := header slot[8]* item[32]*  in tiered_index_file/, with room for all its items
    index segment := header slot[8]* item[28]*  the same, compacted: no prevItem, slots of position and length
    5.1.x, local  := header slot[8]* item[32]* i32[3] i32   see `OLD_LOCAL_NAMES`

A coda has the size and the magic code of a BLANK record. Brokers from 5.1.0 to 5.2.0 write one when a segment
is full, later ones only read it. An index of 5.1.x has its number of slots in `slotCount` (later ones the
number of slots in use), times in ms (later ones in s), and 4 bytes more at its end: a magic code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rocketfsck.formats.javatext import int32
from rocketfsck.formats.layout import I32, I64, Declared, Layout, declare, field

TIERED_INDEX_MAGIC_BEGIN = int32(0xCCDDEEFF ^ (1880681586 + 4))
TIERED_INDEX_MAGIC_END = int32(0xCCDDEEFF ^ (1880681586 + 8))

INDEX_TOPIC = "rmq_sys_INDEX"
"""The topic in whose name the index segments of a broker are kept; queue 0."""
SEGMENT_TYPES = ("COMMIT_LOG", "CONSUME_QUEUE", "INDEX")
"""Names of the directories, by the `type` that the metadata has for them."""
OLD_LOCAL_NAMES = ("0000", "1111")
"""The local index files of 5.1.x: the one that takes items, and the one that waits to be compacted.

Slots and prevItem count items from 0, and -1 means none. The header holds 0 slots, and -1 for both times
up to the first item. The last 4 bytes hold -1, and the end magic once the file takes no more items; the 12
bytes in front of them stay unused, because brokers reckon with the 40 bytes of another header.
"""
OLD_LOCAL_COMPACTING = "2222"
"""What 5.1.x compacts `1111` into. Brokers never read this file, and delete it before they write it."""
OLD_LOCAL_TAIL_SIZE = 16
NO_TIMESTAMP = 2**63 - 1
"""The begin and the end of a segment to which nothing was appended yet."""

MAX_INDEX_SIZE = 2**31 - 1
"""Positions in an index file are int32, and so is the length of a local one."""

_HASH_SIZE = 8
_OFFSET_SIZE = 20

_ITEM: tuple[Declared, ...] = (
    field("hash", I32, "", "absolute Java hash of topic#key, -2**31 kept"),
    field("topicId", I32, "", "number of the topic in the metadata"),
    field("queueId", I32, "", "queue of the topic"),
    field("offset", I64, "bytes", "offset in the queue's tiered log"),
    field("size", I32, "bytes", "the record's totalSize"),
    field("timeDiff", I32, "s", "storeTimestamp minus beginTimestamp, in ms up to 5.1.x"),
)

TIERED_INDEX_HEADER: Layout = declare(
    "tiered_index_header",
    "Tiered index file header",
    "1.10",
    field("magicCode", I32, "", "begin magic, or end magic of a file that is compacted or full"),
    field("beginTimestamp", I64, "ms", "when the file was created; the file's name in tiered_index_file/"),
    field("endTimestamp", I64, "ms", "largest storeTimestamp of its items"),
    field("slotCount", I32, "", "used slots; all slots up to 5.1.x"),
    field("indexCount", I32, "items", "number of items"),
)
TIERED_INDEX_ITEM: Layout = declare(
    "tiered_index_item",
    "Tiered index item",
    "1.10",
    *_ITEM,
    field("prevItem", I32, "items", "previous item of the same slot"),
)
TIERED_COMPACTED_ITEM: Layout = declare(
    "tiered_compacted_item", "Tiered index item, compacted", "1.10", *_ITEM
)
TIERED_COMPACTED_SLOT: Layout = declare(
    "tiered_compacted_slot",
    "Tiered index slot, compacted",
    "1.10",
    field("position", I32, "bytes", "position of the slot's first item"),
    field("length", I32, "bytes", "size of the slot's items"),
)
TIERED_INDEX_SLOT: Layout = declare(
    "tiered_index_slot",
    "Tiered index slot",
    "1.10",
    field("newestItem", I32, "items", "number of the slot's newest item, 0 = none"),
    field("unused", I32, "", "0"),
)
TIERED_CODA: Layout = declare(
    "tiered_coda",
    "Coda of a tiered log segment",
    "1.10",
    field("size", I32, "bytes", "16"),
    field("magicCode", I32, "", "0xCBD43194, as of a BLANK record"),
    field("maxStoreTimestamp", I64, "ms", "storeTimestamp of the segment's last record"),
)


def cluster_directory(cluster: str) -> str:
    """The directory of a cluster in the root of the tiered store."""
    return f"{_hash(cluster)}_{cluster}"


def is_cluster_directory(name: str) -> bool:
    """Whether a broker gives a directory this name: the hash is that of what follows it."""
    return name[_HASH_SIZE : _HASH_SIZE + 1] == "_" and name == cluster_directory(name[_HASH_SIZE + 1 :])


def segment_name(offset: int) -> str:
    """The name of the segment that begins at an offset of its log, queue or index."""
    return f"{_hash(str(offset))}{offset:020}"


def segment_offset(name: str) -> int | None:
    """The offset at which the segment of that name begins; None for a name that no segment has."""
    digits = name[_HASH_SIZE:]
    if len(digits) != _OFFSET_SIZE or not (digits.isascii() and digits.isdecimal()):
        return None
    offset = int(digits)
    return offset if offset < 2**63 and name == segment_name(offset) else None


def _hash(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return hashlib.md5(data, usedforsecurity=False).hexdigest()[:_HASH_SIZE]


@dataclass(frozen=True, slots=True)
class IndexShape:
    """How an index file is laid out: its slots and items, which end at `end` (bytes).

    `old`: 5.1.x wrote the file, with times in ms and a magic code behind the items. `first_item` is the
    number of the first item: 1 in the local files of 5.2.0 and later, in which 0 means none.
    """

    slot_count: int
    item_count: int
    item_size: int
    old: bool
    first_item: int = 0

    @property
    def items_start(self) -> int:
        """The position of item 0."""
        return TIERED_INDEX_HEADER.size + self.slot_count * TIERED_COMPACTED_SLOT.size

    @property
    def end(self) -> int:
        return self.items_start + (self.first_item + self.item_count) * self.item_size

    @property
    def no_item(self) -> int:
        """What a slot or prevItem of a local file holds where there is no item."""
        return self.first_item - 1


def compacted_shape(size: int, slot_count: int, item_count: int) -> IndexShape | None:
    """The shape of an index segment of `size` bytes with these numbers in its header; None if none fits."""
    if item_count < 0 or slot_count < 0 or size > MAX_INDEX_SIZE:
        return None
    item_size = TIERED_COMPACTED_ITEM.size
    old = IndexShape(slot_count, item_count, item_size, True)
    if slot_count and size == old.end + 4:
        return old
    slots, rest = divmod(size - TIERED_INDEX_HEADER.size - item_count * item_size, TIERED_COMPACTED_SLOT.size)
    if rest or slots < max(slot_count, 1):
        return None
    return IndexShape(slots, item_count, item_size, False)
