"""Heads of single records."""

from __future__ import annotations

import dataclasses
import struct
from pathlib import Path

import pytest

from rocketfsck.formats.record import Blank, Host, encode_blank, encode_record, make_record
from rocketfsck.reader.heads import begins_record, decode_head, first_head, head_of
from rocketfsck.store.openfiles import OpenFiles

from tests.unit.verify.storemaker import LOG_SIZE, NOW, Maker, record_at


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path)
    made.log(LOG_SIZE)
    made.log(3 * LOG_SIZE)
    return made


def test_an_offset_lies_in_a_file_or_in_none(maker: Maker) -> None:
    queue = maker.open().commitlog
    with OpenFiles(queue) as files:
        offsets = (0, LOG_SIZE, 2 * LOG_SIZE - 1, 2 * LOG_SIZE, 4 * LOG_SIZE)
        assert [files.file_at(offset) for offset in offsets] == [None, 0, 0, None, None]
    assert not begins_record(queue, 0)
    assert begins_record(queue, 3 * LOG_SIZE)
    assert not begins_record(queue, 3 * LOG_SIZE + 1)


def test_a_head_tells_size_place_and_time(maker: Maker) -> None:
    head = first_head(maker.open().commitlog.files[0])
    assert head is not None
    assert (head.physical_offset, head.store_timestamp) == (LOG_SIZE, NOW)
    assert head.total_size == len(record_at(LOG_SIZE, NOW))


@pytest.mark.parametrize(
    ("size", "prefix"),
    [
        (75, b""),  # shorter than a head
        (80, b""),  # the record is cut off
        (LOG_SIZE, b"\0\0\0\1"),  # smaller than any record
        (LOG_SIZE, b"\x7f\xff\xff\xff"),  # past the end of the file
    ],
)
def test_what_cannot_be_a_record_is_none(maker: Maker, size: int, prefix: bytes) -> None:
    data = record_at(LOG_SIZE, NOW)
    maker.file("commitlog/00000000000000004096", prefix + data[len(prefix) :], size)
    assert first_head(maker.open().commitlog.files[0]) is None


def test_a_file_whose_name_is_no_offset_holds_no_place(maker: Maker) -> None:
    queue = maker.open().commitlog
    nameless = dataclasses.replace(queue.files[0], start_offset=None)
    assert not begins_record(dataclasses.replace(queue, files=(nameless,)), 0)


def test_an_ipv6_host_moves_the_time(maker: Maker) -> None:
    host = Host(bytes(15) + b"\1", 10911)
    record = make_record(
        topic=b"T",
        queue_id=3,
        queue_offset=4,
        physical_offset=LOG_SIZE,
        born_timestamp=1,
        born_host=host,
        store_timestamp=NOW,
        store_host=host,
        body=b"body",
    )
    data = encode_record(record)
    maker.file("commitlog/00000000000000004096", data, LOG_SIZE)
    log = maker.open().commitlog
    head = first_head(log.files[0])
    assert head is not None
    assert (head.queue_id, head.queue_offset, head.body_crc) == (3, 4, record.body_crc)
    assert head.store_timestamp == NOW
    assert head_of(log, LOG_SIZE) == head
    assert head_of(log, 0) is None
    assert decode_head(data, knows_ipv6=False).store_timestamp != NOW
    with pytest.raises(struct.error):
        decode_head(data[:75])


def test_a_blank_begins_what_a_file_ends_with(maker: Maker) -> None:
    blank = encode_blank(Blank(LOG_SIZE - 8))
    maker.file("commitlog/00000000000000004096", bytes(8) + blank, LOG_SIZE)
    queue = maker.open().commitlog
    assert begins_record(queue, LOG_SIZE + 8)
    assert not begins_record(queue, LOG_SIZE)
    assert not begins_record(queue, 2 * LOG_SIZE - 7)
