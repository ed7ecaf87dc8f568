"""Places in records are where construct finds the fields, whatever the hosts."""

from __future__ import annotations

import itertools
import struct

import pytest

from rocketfsck.formats import columns
from rocketfsck.formats.magic import MAX_TOPIC_SIZE_V1
from rocketfsck.formats.record import Host, encode_record, make_record

V4, V6 = Host(bytes((10, 1, 2, 3)), 10911), Host(bytes(range(16)), 10911)


@pytest.mark.parametrize(("born", "store"), list(itertools.product((V4, V6), repeat=2)))
def test_fields_are_at_their_places(born: Host, store: Host) -> None:
    record = make_record(
        topic=b"T" * MAX_TOPIC_SIZE_V1,
        queue_id=3,
        queue_offset=1 << 40,
        physical_offset=1 << 41,
        born_timestamp=1_700_000_000_000,
        born_host=born,
        store_timestamp=1_700_000_000_001,
        store_host=store,
        body=b"body",
        flag=7,
        reconsume_times=5,
        prepared_transaction_offset=1 << 42,
    )
    data = encode_record(record)

    def long_at(place: int) -> int:
        return int(struct.unpack_from(">q", data, place)[0])

    def int_at(place: int) -> int:
        return int(struct.unpack_from(">i", data, place)[0])

    body = columns.body_place(record.sys_flag)
    hosts = body - columns.BODY_AT
    assert data[body : body + 4] == b"body"
    assert long_at(columns.store_timestamp_place(record.sys_flag)) == record.store_timestamp
    assert long_at(columns.QUEUE_OFFSET_AT) == record.queue_offset
    assert long_at(columns.PHYSICAL_OFFSET_AT) == record.physical_offset
    assert long_at(columns.BORN_TIMESTAMP_AT) == record.born_timestamp
    assert long_at(columns.PREPARED_OFFSET_AT + hosts) == record.prepared_transaction_offset
    assert int_at(columns.MAGIC_CODE_AT) == record.magic_code
    assert int_at(columns.BODY_CRC_AT) == record.body_crc
    assert int_at(columns.QUEUE_ID_AT) == record.queue_id
    assert int_at(columns.FLAG_AT) == record.flag
    assert int_at(columns.SYS_FLAG_AT) == record.sys_flag
    assert int_at(columns.RECONSUME_TIMES_AT + hosts) == record.reconsume_times
    assert int_at(columns.BODY_LENGTH_AT + hosts) == 4
    assert hosts <= columns.MAX_BODY_AT - columns.BODY_AT
