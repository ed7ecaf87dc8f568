"""Where the fields of records and index entries are, as numbers, derived from the declared layouts.

For those who read single fields: kernels, which cannot ask a layout, and probes that want a few bytes of a
record. Places count bytes from the structure's first one. Those of a record hold for IPv4 hosts; an IPv6
bornHost or storeHost moves all that follows it by IPV6_GROWTH. Reference 2.1, 4.1.
"""

from __future__ import annotations

from typing import Final

from rocketfsck.formats.indexfile import ENTRY
from rocketfsck.formats.magic import BORN_HOST_V6, IPV4_HOST_SIZE, IPV6_HOST_SIZE, STORE_HOST_V6
from rocketfsck.formats.record import RECORD_HEADER

MAGIC_CODE_AT: Final = RECORD_HEADER.offset("magicCode")
BODY_CRC_AT: Final = RECORD_HEADER.offset("bodyCRC")
QUEUE_ID_AT: Final = RECORD_HEADER.offset("queueId")
FLAG_AT: Final = RECORD_HEADER.offset("flag")
QUEUE_OFFSET_AT: Final = RECORD_HEADER.offset("queueOffset")
PHYSICAL_OFFSET_AT: Final = RECORD_HEADER.offset("physicalOffset")
SYS_FLAG_AT: Final = RECORD_HEADER.offset("sysFlag")
BORN_TIMESTAMP_AT: Final = RECORD_HEADER.offset("bornTimestamp")
BORN_HOST_AT: Final = RECORD_HEADER.offset("bornHost")
STORE_TIMESTAMP_AT: Final = RECORD_HEADER.offset("storeTimestamp")
STORE_HOST_AT: Final = RECORD_HEADER.offset("storeHost")
RECONSUME_TIMES_AT: Final = RECORD_HEADER.offset("reconsumeTimes")
PREPARED_OFFSET_AT: Final = RECORD_HEADER.offset("preparedTransactionOffset")
BODY_LENGTH_AT: Final = RECORD_HEADER.offset("bodyLength")
BODY_AT: Final = RECORD_HEADER.size

HEADER_SIZE: Final = SYS_FLAG_AT
"""totalSize to physicalOffset: what must be there before it is known that a record is at its own place."""
IPV6_GROWTH: Final = IPV6_HOST_SIZE - IPV4_HOST_SIZE
MAX_BODY_AT: Final = BODY_AT + 2 * IPV6_GROWTH

KEY_HASH_AT: Final = ENTRY.offset("keyHash")
PHY_OFFSET_AT: Final = ENTRY.offset("phyOffset")
TIME_DIFF_AT: Final = ENTRY.offset("timeDiff")
PREV_INDEX_AT: Final = ENTRY.offset("prevIndex")
ENTRY_SIZE: Final = ENTRY.size


def store_timestamp_place(sys_flag: int) -> int:
    """Where a record's storeTimestamp is."""
    return STORE_TIMESTAMP_AT + (IPV6_GROWTH if sys_flag & BORN_HOST_V6 else 0)


def store_host_place(sys_flag: int) -> int:
    """Where a record's storeHost is."""
    return STORE_HOST_AT + (IPV6_GROWTH if sys_flag & BORN_HOST_V6 else 0)


def body_place(sys_flag: int) -> int:
    """Where a record's body is."""
    is_v6 = bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6)
    return BODY_AT + IPV6_GROWTH * is_v6
