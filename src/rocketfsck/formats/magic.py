"""Magic codes, fixed sizes and sysFlag bits of commitlog records. Reference 2.1 to 2.4, 2.8, 2.10.

Numbers only, so that modules can use them without the layouts; `record` gives them too.
"""

from __future__ import annotations

from typing import Final

MAGIC_V1: Final = -626843481
"""0xDAA320A7: a message with a 1-byte topic length."""
MAGIC_V2: Final = -626843477
"""0xDAA320AB: a message with a 2-byte topic length, 5.1.0+."""
MAGIC_BLANK: Final = -875286124
"""0xCBD43194: the rest of the file holds nothing."""

MIN_RECORD_SIZE: Final = 91
"""Bytes of a V1 record with IPv4 hosts and empty body, topic and properties."""
BLANK_HEADER_SIZE: Final = 8
"""Bytes of a BLANK that mean something; a completed file ends with at least these."""
IPV4_HOST_SIZE: Final = 8
IPV6_HOST_SIZE: Final = 20
MAX_TOPIC_SIZE_V1: Final = 127
MAX_TOPIC_SIZE_V2: Final = 255

COMPRESSED: Final = 0x001
MULTI_TAGS: Final = 0x002
TRANSACTION_MASK: Final = 0x00C
TRANSACTION_NOT: Final = 0x000
TRANSACTION_PREPARED: Final = 0x004
TRANSACTION_COMMIT: Final = 0x008
TRANSACTION_ROLLBACK: Final = 0x00C
BORN_HOST_V6: Final = 0x010
STORE_HOST_V6: Final = 0x020
NEED_UNWRAP: Final = 0x040
INNER_BATCH: Final = 0x080
COMPRESSION_TYPE_MASK: Final = 0x700
COMPRESSION_TYPE_SHIFT: Final = 8
KNOWN_SYS_FLAGS: Final = 0x7FF

FENCE_TOPIC: Final = b"rocketfsck_fence"
"""The topic of filler that a repair puts where records were lost; short records have its first letters."""

TRANSACTION_NAMES: Final = {
    TRANSACTION_NOT: "none",
    TRANSACTION_PREPARED: "prepared",
    TRANSACTION_COMMIT: "commit",
    TRANSACTION_ROLLBACK: "rollback",
}
COMPRESSION_NAMES: Final = {0: "zlib (legacy)", 1: "lz4", 2: "zstd", 3: "zlib"}


def transaction_type(sys_flag: int) -> int:
    """The transaction bits of a sysFlag: one of the TRANSACTION_… constants."""
    return sys_flag & TRANSACTION_MASK


def compression_type(sys_flag: int) -> int:
    """0 legacy (zlib), 1 LZ4, 2 ZSTD, 3 zlib, 4..7 undefined; it means something only with COMPRESSED."""
    return (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT


def is_in_consume_queue(sys_flag: int) -> bool:
    """Whether dispatch puts the record into its consume queue: neither prepared nor rolled back."""
    return transaction_type(sys_flag) in (TRANSACTION_NOT, TRANSACTION_COMMIT)


def is_indexed(sys_flag: int) -> bool:
    """Whether dispatch indexes the record's keys: all but rollbacks."""
    return transaction_type(sys_flag) != TRANSACTION_ROLLBACK


def record_size(
    body_size: int, topic_size: int, properties_size: int, *, magic_code: int = MAGIC_V1, sys_flag: int = 0
) -> int:
    """The totalSize that these byte counts add up to; negative body and properties sizes count as 0."""
    return (
        MIN_RECORD_SIZE
        + (magic_code == MAGIC_V2)
        + (IPV6_HOST_SIZE - IPV4_HOST_SIZE) * (bool(sys_flag & BORN_HOST_V6) + bool(sys_flag & STORE_HOST_V6))
        + max(body_size, 0)
        + topic_size
        + max(properties_size, 0)
    )
