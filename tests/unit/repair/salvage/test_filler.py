"""Fences: every record of them is valid for every version, they fill their range and dispatch to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import ALL_VERSION_NAMES, dialect_for
from rocketfsck.formats.magic import TRANSACTION_ROLLBACK, is_in_consume_queue, is_indexed, transaction_type
from rocketfsck.formats.properties import parse_properties, property_crc, property_crc_value
from rocketfsck.formats.record import Host, Record, body_crc, decode_record
from rocketfsck.repair import log
from rocketfsck.repair.log import RECORD_SIZE_LIMIT, filler_records, min_filler_size

WHEN = 1_700_000_000_000


def records_of(data: bytes) -> list[tuple[int, Record]]:
    """The records that fill these bytes, with their positions."""
    found, pos = [], 0
    while pos < len(data):
        record = decode_record(data, pos)
        found.append((pos, record))
        pos += record.total_size
    assert pos == len(data)
    return found


def assert_valid(data: bytes, start_offset: int) -> None:
    for pos, record in records_of(data):
        assert record.physical_offset == start_offset + pos
        assert record.body_crc == body_crc(record.body)
        assert record.topic
        assert transaction_type(record.sys_flag) == TRANSACTION_ROLLBACK
        assert not is_in_consume_queue(record.sys_flag)
        assert not is_indexed(record.sys_flag)
        assert record.queue_offset == 0
        assert record.store_timestamp == WHEN
        assert record.total_size <= RECORD_SIZE_LIMIT


@pytest.mark.parametrize("version", ALL_VERSION_NAMES)
@pytest.mark.parametrize("size", [92, 93, 107, 111, 112, 113, 127, 128, 4096, 3 * RECORD_SIZE_LIMIT + 1])
def test_a_fence_fills_its_range_with_valid_records(version: str, size: int) -> None:
    data = b"".join(filler_records(123_456_789_012, size, version=version, store_timestamp=WHEN))
    assert len(data) == size
    assert_valid(data, 123_456_789_012)
    dialect = dialect_for(version)
    for pos, record in records_of(data):
        properties = parse_properties(record.properties, dialect.property_parser)
        if dialect.property_crc and size >= 112:
            assert properties is not None
            stated = property_crc_value(properties["__CRC32#"])
            assert stated == property_crc(data[pos : pos + record.total_size]) > 0
        else:
            assert properties is None


@given(st.integers(92, 5000), st.integers(0, 1 << 62), st.integers(224, 600), st.booleans(), st.booleans())
def test_any_size_can_be_filled(size: int, offset: int, limit: int, v6: bool, crc: bool) -> None:
    host = Host(bytes(16 if v6 else 4), 10911)
    if crc and size < 112:
        return
    data = b"".join(
        filler_records(
            offset,
            size,
            version="5.3.3",
            store_timestamp=WHEN,
            store_host=host,
            property_crc=crc,
            record_size_limit=limit,
        )
    )
    assert len(data) == size
    assert_valid(data, offset)
    found = records_of(data)
    assert all(record.total_size <= limit for _, record in found)
    assert all(bool(record.properties) == crc for _, record in found)
    assert max(record.total_size for _, record in found) - min(r.total_size for _, r in found) <= 1
    if size >= 130:
        assert all(record.store_host == host for _, record in found if record.total_size > 124)


def test_nothing_takes_no_records() -> None:
    assert b"".join(filler_records(0, 0, version="4.0.0", store_timestamp=WHEN)) == b""


def test_the_smallest_fence() -> None:
    assert min_filler_size() == len(b"".join(filler_records(0, 92, version="4.4.0", store_timestamp=WHEN)))
    assert min_filler_size(property_crc=True) == 112
    assert (
        records_of(b"".join(filler_records(0, 92, version="4.4.0", store_timestamp=WHEN)))[0][1].topic == b"r"
    )


@pytest.mark.parametrize(
    ("offset", "size", "when", "more"),
    [
        (0, 91, WHEN, {}),
        (0, 1, WHEN, {}),
        (0, -1, WHEN, {}),
        (0, 111, WHEN, {"property_crc": True}),
        (-1, 100, WHEN, {}),
        (0, 100, 0, {}),
        (0, 100, WHEN, {"record_size_limit": 183}),
    ],
)
def test_what_cannot_be_filled_is_refused(offset: int, size: int, when: int, more: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        b"".join(filler_records(offset, size, version="5.3.3", store_timestamp=when, **more))


def test_a_version_without_property_crc_is_refused_one() -> None:
    with pytest.raises(UsageError, match=r"5\.2\.0"):
        b"".join(filler_records(0, 500, version="5.1.4", store_timestamp=WHEN, property_crc=True))


def test_a_property_crc_of_zero_is_avoided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions 5.2.0 to 5.3.1 take 0 for no CRC at all."""
    answers = iter([0, 0, 77])
    monkeypatch.setattr(log, "property_crc", lambda _record: next(answers))
    data = b"".join(filler_records(0, 112, version="5.2.0", store_timestamp=WHEN))
    assert decode_record(data).flag == 2
    assert data.endswith(b"__CRC32#\x017700000000\x02")


def test_the_compiled_scan_finds_no_fault() -> None:
    from rocketfsck.scan.columns import new_batch
    from rocketfsck.scan.compiled.records import scan_records
    from rocketfsck.scan.options import ScanOptions, Stop
    from rocketfsck.scan.queues import QueueTable

    data = b"".join(filler_records(4096, 300_000, version="5.3.3", store_timestamp=WHEN))
    batch = new_batch()
    buffer = np.frombuffer(data, np.uint8)
    pos, stop = scan_records(buffer, 0, len(data), 0, 4096, len(data) + 8, ScanOptions(), batch, QueueTable())
    assert (pos, stop) == (len(data), Stop.LIMIT)
    assert batch.record_count == 3
    assert not batch["faults"].any()
