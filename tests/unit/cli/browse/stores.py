"""Stores that are made to be looked at: huge ones of holes, and ones whose names and bytes deceive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.magic import MAGIC_V1
from rocketfsck.formats.record import Host, Record, body_crc, encode_record

HOST = Host(b"\x0a\x00\x00\x01", 10911)
FILE_SIZE = 1 << 30
QUEUE_FILE_SIZE = 6_000_000
FIRST_TIME = 1_700_000_000_000


def record_bytes(
    offset: int,
    queue_offset: int,
    *,
    topic: bytes = b"Sparse",
    body: bytes = b"body",
    properties: bytes = b"",
    timestamp: int = FIRST_TIME,
) -> bytes:
    """One record of queue 0, at a physical offset."""
    record = Record(
        total_size=91 + len(body) + len(topic) + len(properties),
        magic_code=MAGIC_V1,
        body_crc=body_crc(body),
        queue_id=0,
        flag=0,
        queue_offset=queue_offset,
        physical_offset=offset,
        sys_flag=0,
        born_timestamp=timestamp,
        born_host=HOST,
        store_timestamp=timestamp,
        store_host=HOST,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_length=len(body),
        body=body,
        topic=topic,
        properties_length=len(properties),
        properties=properties,
    )
    return encode_record(record)


def sparse_store(root: Path, file_count: int, places: Sequence[int] = (0, FILE_SIZE // 2)) -> None:
    """A store with a commit log of `file_count` files of 1 GiB: some records at each of `places`, else holes.

    The units of the first 1000 records are in the queue; the index has one file, all of holes but its header.
    """
    log, queue = root / "commitlog", root / "consumequeue" / "Sparse" / "0"
    log.mkdir(parents=True)
    queue.mkdir(parents=True)
    units = []
    count = 0
    for number in range(file_count):
        base = number * FILE_SIZE
        with (log / f"{base:020}").open("wb") as file:
            file.truncate(FILE_SIZE)
            for place in places:
                pos = place
                for _ in range(20):
                    time = FIRST_TIME + 1000 * count
                    data = record_bytes(
                        base + pos, count, properties=b"KEYS\x01k%d\x02" % count, timestamp=time
                    )
                    file.seek(pos)
                    file.write(data)
                    units.append(UNIT.build({"offset": base + pos, "size": len(data), "tagsCode": 0}))
                    pos += len(data)
                    count += 1
    with (queue / f"{0:020}").open("wb") as file:
        file.write(b"".join(units[:1000]))
        file.truncate(QUEUE_FILE_SIZE)
