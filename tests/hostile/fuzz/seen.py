"""Which fields a rule checks, so that a changed one must not pass a full check; and why others may.

Every field of every format is in one of three tables. What is in PARTLY or BLIND can be damaged so that exit
status 0 says "nothing is wrong"; the reason says why that is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rocketfsck.formats.dledger import INDEX_UNIT_SIZE

from tests.hostile.fuzz.drawing import Ground
from tests.hostile.fuzz.mutations import Mutation

CHECKED = frozenset({
    "record.totalSize", "record.magicCode", "record.bodyCRC", "record.queueId", "record.physicalOffset",
    "record.bodyLength", "record.body", "record.topicLength", "record.topic", "record.propertiesLength",
    "record.item.totalSize", "record.item.magicCode", "record.item.bodyCRC", "record.item.flag",
    "record.item.bodyLength", "record.item.propertiesLength",
    "blank.totalSize", "blank.magicCode",
    "consumequeue_unit.offset", "consumequeue_unit.size", "consumequeue_unit.tagsCode",
    "batch_consumequeue_unit.offset", "batch_consumequeue_unit.size", "batch_consumequeue_unit.storeTime",
    "batch_consumequeue_unit.msgBaseOffset", "batch_consumequeue_unit.batchSize",
    "batch_consumequeue_unit.compactedOffset", "batch_consumequeue_unit.reserved",
    "consumequeue_ext_unit.size", "consumequeue_ext_unit.tagsCode", "consumequeue_ext_unit.msgStoreTime",
    "consumequeue_ext_unit.bitMapSize",
    "index_header.beginTimestamp", "index_header.endTimestamp", "index_header.beginPhyOffset",
    "index_header.endPhyOffset", "index_header.indexCount",
    "index_slot.newestIndex", "index_entry.keyHash", "index_entry.phyOffset", "index_entry.prevIndex",
    "dledger_entry.size", "dledger_entry.index", "dledger_entry.term",
    "dledger_entry.pos", "dledger_entry.bodyLen",
    "dledger_index.pos", "dledger_index.size", "dledger_index.index", "dledger_index.term",
    "compaction record.totalSize", "compaction record.magicCode", "compaction record.queueId",
    "compaction record.queueOffset", "compaction record.physicalOffset", "compaction record.storeTimestamp",
    "compaction record.bodyLength", "compaction record.body", "compaction record.topicLength",
    "compaction record.topic", "compaction record.propertiesLength",
    "compaction blank.totalSize", "compaction blank.magicCode",
    "tiered record.totalSize", "tiered record.magicCode", "tiered record.queueId",
    "tiered record.queueOffset", "tiered record.physicalOffset", "tiered record.bodyLength",
    "tiered record.topicLength", "tiered record.topic", "tiered record.propertiesLength",
    "tiered record.bodyCRC", "tiered record.body",
    "tiered consumequeue_unit.offset", "tiered consumequeue_unit.size", "tiered consumequeue_unit.tagsCode",
    "tiered_coda.size", "tiered_coda.magicCode", "tiered_coda.maxStoreTimestamp",
    "tiered_index_header.magicCode", "tiered_index_header.beginTimestamp",
    "tiered_index_header.endTimestamp", "tiered_index_header.slotCount", "tiered_index_header.indexCount",
    "tiered_compacted_slot.length", "tiered_compacted_slot.position",
    "tiered_compacted_item.hash",
    "tiered_compacted_item.offset", "tiered_compacted_item.size",
    "tiered_index_file tiered_index_header.beginTimestamp",
    "tiered_index_file tiered_index_header.indexCount",
    "tiered_index_item.hash",
    "tiered_index_item.offset", "tiered_index_item.size", "tiered_index_item.prevItem",
})  # fmt: skip
"""Any other value is found."""

_OWN = "only its being there is checked, by which version writes it"
_CLOCK = "a clock's reading: compared with its neighbours, within what clocks do"
_OPAQUE = "a producer's or broker's own value, which nothing else repeats"

PARTLY: Mapping[str, str] = {
    "record.queueOffset": "0 in prepared and rolled back records, in which brokers never read it",
    "record.sysFlag": "bits that the record's other fields do not contradict",
    "record.bornTimestamp": _CLOCK,
    "record.storeTimestamp": _CLOCK + "; the index knows it to the second",
    "record.reconsumeTimes": _OPAQUE,
    "record.preparedTransactionOffset": "a place in front of the record can be right",
    "record.properties": "keys, tags, what dispatch reads and a CRC are checked; the rest is the user's own",
    "batch_consumequeue_unit.tagsCode": "brokers write the hash of the batch's TAGS, or 0",
    "index_entry.timeDiff": "seconds: brokers of some versions round otherwise",
    "index_header.hashSlotCount": "versions count slots or entries: the oldest file may be of both",
    "checkpoint.physicMsgTimestamp": _CLOCK,
    "checkpoint.logicsMsgTimestamp": _CLOCK,
    "checkpoint.indexMsgTimestamp": _CLOCK,
    "checkpoint.masterFlushedOffset": _OWN,
    "checkpoint.confirmPhyOffset": _OWN,
    "checkpoint.logicsPhysicalOffset": "any record's start, or a place in front of the log, can be right",
    "timer_check.lastReadTimeMs": _CLOCK,
    "timer_check.lastTimerLogFlushPos": "up to the end of the timer log",
    "timer_check.lastTimerQueueOffset": "up to the end of the queue",
    "dledger_entry.magic": "of three kinds; what is in entries is not read yet",
    "dledger record.physicalOffset": "compared with the entry's pos",
    "compaction record.bodyCRC": "brokers compare the checksum of a body that has bytes only",
    "compaction record.sysFlag": "bits that the record's other fields do not contradict",
    "compaction record.preparedTransactionOffset": "of a message of its own, any that is not negative",
    "compaction record.bornHost": "a port is",
    "compaction record.storeHost": "a port is",
    "compaction record.properties": "the tag and what keeps pairs apart; the rest is the user's own",
    "tiered record.sysFlag": "bits that the record's other fields do not contradict",
    "tiered record.storeTimestamp": _CLOCK + "; the metadata knows the first and the last",
    "tiered record.preparedTransactionOffset": "any that is not negative",
    "tiered record.bornHost": "a port is",
    "tiered record.storeHost": "a port is",
    "tiered record.properties": "keys and the tag are checked; the rest is the user's own",
    "tiered_compacted_item.topicId": "items of topics that were deleted stay",
    "tiered_index_item.topicId": "items of topics that were deleted stay",
    "tiered_compacted_item.queueId": "items of queues that expired as a whole stay",
    "tiered_index_item.queueId": "items of queues that expired as a whole stay",
    "tiered_compacted_item.timeDiff": "items of queues that were deleted and made anew are older",
    "tiered_index_item.timeDiff": "items of queues that were deleted and made anew are older",
    "tiered_index_file tiered_index_header.magicCode": "the begin magic and the end magic can be right",
    "tiered_index_file tiered_index_header.slotCount": "up to the number of slots that there are",
    "tiered_index_slot.newestItem": "in an empty slot what no item has is empty, too",
    "dledger record.magicCode": "what is no record's is not looked at",
}
"""Some other values are found."""

_RECORD_FIELDS = (
    "totalSize", "bodyCRC", "queueId", "flag", "queueOffset", "sysFlag", "bornTimestamp", "bornHost",
    "storeTimestamp", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyLength", "body",
    "body sealed", "topicLength", "topic", "propertiesLength", "properties",
)  # fmt: skip
_TIMER_FIELDS = {
    "timer_wheel_slot": ("slotTime", "firstPos", "lastPos", "num", "magic"),
    "timer_log_unit": (
        "size", "prevPos", "magic", "currWriteTime", "delayedTime", "offsetPy", "sizePy",
        "hashCodeOfRealTopic", "reservedValue",
    ),
}  # fmt: skip
BLIND: Mapping[str, str] = {
    "record.flag": _OPAQUE,
    "record.bornHost": _OPAQUE,
    "record.storeHost": _OPAQUE,
    "record.body sealed": "a body with its checksum is a body",
    "consumequeue_ext_unit.filterBitMap": "bits of a bloom filter of subscriptions that nobody has any more",
    "dledger_entry.channel": "DLedger's own",
    "dledger_entry.chainCrc": "DLedger's own",
    "dledger_entry.bodyCrc": "what is in entries is not read yet",
    "dledger_index.magic": "DLedger reads the entry's own",
    "dledger_blank.magic": "after the end entry of the index, where DLedger begins anew",
    "dledger_blank.size": "after the end entry of the index, where DLedger begins anew",
    "timer_check.masterTimerQueueOffset": "what the master said last",
    "timer_check.stateVersion": "of the data version, which only grows",
    "timer_check.timestamp": "of the data version, which only grows",
    "timer_check.counter": "of the data version, which only grows",
    **{f"dledger record.{name}": "what is in entries is not read yet" for name in _RECORD_FIELDS},
    "tiered record.flag": "compared with the commit log, while that has the message",
    "tiered record.bornTimestamp": _CLOCK,
    "tiered record.reconsumeTimes": _OPAQUE,
    "tiered record.body sealed": "compared with the commit log, while that has the message",
    "tiered_index_slot.unused": "brokers never read it",
    "tiered_index_file tiered_index_header.endTimestamp": "brokers write it anew with every item",
    "compaction record.flag": _OPAQUE,
    "compaction record.bornTimestamp": _CLOCK,
    "compaction record.reconsumeTimes": _OPAQUE,
    "compaction record.body sealed": "a body with its checksum is a body",
    **{
        f"{layout}.{name}": "timer wheel and log are listed, not read yet"
        for layout, names in _TIMER_FIELDS.items()
        for name in names
    },
}
"""No other value is found."""

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "dledger-4.9.8": ("consumequeue_unit.", "index_entry.", "index_header."),  # their records are DLedger's
    # the records of the first units, and of the first file's first entries, are gone
    "expired-4.9.8": ("consumequeue_unit.", "index_header.beginTimestamp", "index_entry.phyOffset"),
    # half messages and rolled back ones are in no queue and no index
    "trans-4.9.8": ("record.topic", "record.queueId"),
    "4.4.0-trans": ("record.topic", "record.queueId"),
    "5.3.3-trans": ("record.topic", "record.queueId"),
}
"""By subject: fields that point to something that is not there to be compared."""


SEGMENTS = ("commitlog", "consumequeue", "batchconsumequeue", "index")
"""Directories whose files are checked against each other: one that is cut, or gone, is missed there."""

LIKE_EXPIRY = "the first commit log file, and a whole index: brokers delete these themselves"
SWEPT = "consumequeue/RMQ_SYS_TRANS_OP_HALF_TOPIC/0"
"""Brokers up to 4.8.0 delete it with the queues of deleted topics, and leave the directory above."""


def unseen_damage(ground: Ground, store: Path, done: Sequence[Mutation]) -> Iterator[str]:
    """The changes that a rule must see and that are still in the store, where none was seen.

    Of several only fields are looked at: without the files that a field is compared with, and beside damage
    that makes the log another one, it may be anything.
    """
    if len(done) == 1 and done[0].kind in ("truncate", "remove"):
        if _is_lost(ground, done[0]):
            yield f"{done[0].kind} {done[0].file.partition('/')[0]}"
        return
    if any(mutation.kind != "set" for mutation in done):
        return
    for mutation in done:
        if mutation.label.startswith(ELSEWHERE.get(ground.subject.name, ("-",))):
            continue
        if mutation.label in CHECKED and _is_there(ground, store, mutation):
            yield mutation.label


def _is_lost(ground: Ground, mutation: Mutation) -> bool:
    """Whether bytes of segments go that are not zero, and not as brokers delete them (`LIKE_EXPIRY`)."""
    top = mutation.file.partition("/")[0]
    if top not in SEGMENTS or ground.subject.name == "dledger-4.9.8":
        return False
    names = [name for name in ground.files if f"{name}/".startswith(f"{mutation.file}/")]
    first = min((name for name in ground.files if name.startswith("commitlog/")), default="")
    if mutation.kind == "remove" and (top == "index" or first in names or mutation.file == SWEPT):
        return False
    size = mutation.arguments.get("size", 0)
    return any(any(ground.contents[name][size:]) for name in names)


def _is_there(ground: Ground, store: Path, mutation: Mutation) -> bool:
    """Whether the changed bytes are in the file, and are not what they were."""
    if mutation.kind != "set":
        return False
    data, pos = bytes.fromhex(mutation.arguments["data"]), mutation.arguments["pos"]
    path = store / mutation.file
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(pos)
        there = file.read(len(data))
    if mutation.label == "consumequeue_unit.size" and data == b"\x7f\xff\xff\xff" and pos == 8:
        return False  # of an empty unit: brokers begin queues with such (0, 2147483647, 0) units
    if mutation.label == "tiered_compacted_slot.position" and not any(data):
        length = ground.contents[mutation.file][pos + 4 : pos + 8]
        return length != bytes(4) and there == data  # an empty slot may have no position
    if mutation.label.startswith("dledger_index.") and _was_unused(ground.contents[mutation.file], pos):
        return False  # units are written one behind the other
    if mutation.label == "record.bodyCRC" and _has_no_body(ground.contents[mutation.file], pos - 8):
        return False  # brokers compare the checksum of a body that has bytes only
    return there == data and ground.contents[mutation.file][pos : pos + len(data)] != data


def _was_unused(data: bytes, pos: int) -> bool:
    start = pos - pos % INDEX_UNIT_SIZE
    return not any(data[start : start + INDEX_UNIT_SIZE])


def _has_no_body(data: bytes, start: int) -> bool:
    """Whether the bodyLength of the record that starts here is 0."""
    flags = int.from_bytes(data[start + 36 : start + 40], "big")
    at = start + 84 + 12 * bool(flags & 0x10) + 12 * bool(flags & 0x20)
    return data[at : at + 4] == bytes(4)
