"""The tiered store's local index file (5.1.0+). Reference 1.10.

    file := magic beginTimestamp endTimestamp slotCount indexCount slot[8]* item[32]*

A compacted file has items of 28 bytes without prevItem, and slots of position and length.
"""

from __future__ import annotations

from rocketfsck.formats.javatext import int32
from rocketfsck.formats.layout import I32, I64, Declared, Layout, declare, field

TIERED_INDEX_MAGIC_BEGIN = int32(0xCCDDEEFF ^ (1880681586 + 4))
TIERED_INDEX_MAGIC_END = int32(0xCCDDEEFF ^ (1880681586 + 8))

_ITEM: tuple[Declared, ...] = (
    field("hash", I32, "", "absolute Java hash of topic#key, -2**31 kept"),
    field("topicId", I32, "", "number of the topic in the metadata"),
    field("queueId", I32, "", "queue of the topic"),
    field("offset", I64, "bytes", "offset in the tiered commitlog"),
    field("size", I32, "bytes", "the record's totalSize"),
    field("timeDiff", I32, "ms", "storeTimestamp less beginTimestamp"),
)

TIERED_INDEX_HEADER: Layout = declare(
    "tiered_index_header",
    "Tiered index file header",
    "1.10",
    field("magicCode", I32, "", "begin magic, or end magic of a sealed file"),
    field("beginTimestamp", I64, "ms", "storeTimestamp of the first item"),
    field("endTimestamp", I64, "ms", "storeTimestamp of the last item"),
    field("slotCount", I32, "", "used slots"),
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
    "tiered_compacted_item",
    "Tiered index item, compacted",
    "1.10",
    *_ITEM,
)
TIERED_COMPACTED_SLOT: Layout = declare(
    "tiered_compacted_slot",
    "Tiered index slot, compacted",
    "1.10",
    field("position", I32, "bytes", "position of the slot's first item"),
    field("length", I32, "bytes", "size of the slot's items"),
)
