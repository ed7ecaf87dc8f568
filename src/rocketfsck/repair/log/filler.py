"""Fences: valid records that fill a range of the commit log which holds none, so that readers walk over it.

    fence := record+    sysFlag 0x00C (rollback), queueOffset 0, body of zeros, at their own physicalOffset

Every version's `checkMessageAndReturnSize` takes them (reference 2.15): frame, lengths and body CRC are
right, and so is the property CRC where the version has one. No dispatcher puts a rollback into a consume
queue or the index (reference 8), so brokers serve only what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.common.wording import count_of
from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import dialect_for, versions_with
from rocketfsck.formats.magic import FENCE_TOPIC, MIN_RECORD_SIZE, TRANSACTION_ROLLBACK
from rocketfsck.formats.properties import PROPERTY_CRC_SIZE, property_crc, property_crc_trailer
from rocketfsck.formats.record import Host, encode_record, make_record

RECORD_SIZE_LIMIT = 128 << 10
"""Bytes of the largest filler record: below every maxMessageSize in use (4 MiB is the default, 2.9)."""

NO_HOST = Host(bytes(4), 0)


def min_filler_size(*, property_crc: bool = False) -> int:
    """The smallest range in bytes that can be filled: a record with a topic of one letter.

    `property_crc`: its property CRC, 20 bytes more, must be there.
    """
    return MIN_RECORD_SIZE + 1 + (PROPERTY_CRC_SIZE if property_crc else 0)


def filler_records(
    start_offset: int,
    size: int,
    *,
    version: str,
    store_timestamp: int,
    store_host: Host = NO_HOST,
    property_crc: bool | None = None,
    record_size_limit: int = RECORD_SIZE_LIMIT,
) -> Iterator[bytes]:
    """The records, one by one, that fill exactly `size` bytes from the physical offset `start_offset` on.

    `store_timestamp` (ms) should be that of the record before: recovery chooses its first file by that of
    the file's first record, so it must not be 0. `property_crc`: True writes it in every record, False in
    none; None writes it where the version knows it (5.2.0+) and the range has room for it, as a broker with
    forceVerifyPropCRC demands. `record_size_limit` is in bytes. A size of 0 gives no records. Raises
    UsageError, before the first record, for a size that cannot be filled, a negative offset, a
    storeTimestamp that is not positive and a property CRC that the version does not have. Reference 2.15,
    6.4, 8.
    """
    dialect = dialect_for(version)
    if property_crc and not dialect.property_crc:
        first = versions_with(property_crc=True)[0]
        raise UsageError(f"{version} has no property CRC: it came with {first}")
    if start_offset < 0 or store_timestamp <= 0:
        raise UsageError(f"a fence at offset {start_offset} with storeTimestamp {store_timestamp}")
    least = min_filler_size(property_crc=bool(property_crc))
    if size < 0 or 0 < size < least:
        raise UsageError(
            f"{count_of(size, 'byte')} cannot hold a filler record: the smallest needs {least:,}"
        )
    if record_size_limit < 2 * least:
        raise UsageError(
            f"filler records of at most {count_of(record_size_limit, 'byte')}: the minimum is {2 * least:,}"
        )
    if property_crc is None:
        property_crc = dialect.property_crc and size >= min_filler_size(property_crc=True)
    return _records(start_offset, size, store_timestamp, store_host, property_crc, record_size_limit)


def _records(
    offset: int, size: int, store_timestamp: int, store_host: Host, with_crc: bool, limit: int
) -> Iterator[bytes]:
    count = -(-size // limit)
    for number in range(count):
        # parts as equal as they can be: none of them is smaller than half the limit, so each can be filled
        part_size = size // count + (number < size % count)
        yield _record(offset, part_size, store_timestamp, store_host, with_crc)
        offset += part_size


def _record(offset: int, size: int, store_timestamp: int, store_host: Host, with_crc: bool) -> bytes:
    room = size - MIN_RECORD_SIZE - (PROPERTY_CRC_SIZE if with_crc else 0)
    if len(store_host.address) == 16 and room <= 12:
        store_host = NO_HOST
    room -= len(store_host.address) - 4
    topic = FENCE_TOPIC[:room]
    body = bytes(room - len(topic))
    flag = 0
    while True:
        record = encode_record(
            make_record(
                topic=topic,
                queue_id=0,
                queue_offset=0,
                physical_offset=offset,
                born_timestamp=store_timestamp,
                born_host=NO_HOST,
                store_timestamp=store_timestamp,
                store_host=store_host,
                body=body,
                properties=bytes(PROPERTY_CRC_SIZE) if with_crc else b"",
                flag=flag,
                sys_flag=TRANSACTION_ROLLBACK,
            )
        )
        if not with_crc:
            return record
        crc = property_crc(record)
        if crc:
            return record[:-PROPERTY_CRC_SIZE] + property_crc_trailer(crc)
        flag += 1  # 5.2.0 to 5.3.1 refuse a CRC of 0 (2.7); nobody reads this field
