"""Looking at single places of the commit log."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from rocketfsck.reader.probe import begins_record, file_of, read_header

from tests.unit.verify.storemaker import LOG_SIZE, NOW, Maker, record_at


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    made = Maker(tmp_path)
    made.log(LOG_SIZE)
    made.log(3 * LOG_SIZE)
    return made


def test_an_offset_lies_in_a_file_or_in_none(maker: Maker) -> None:
    queue = maker.open().commitlog
    found = [file_of(queue, offset) for offset in (0, LOG_SIZE, 2 * LOG_SIZE - 1, 2 * LOG_SIZE, 4 * LOG_SIZE)]
    assert [file.start_offset if file else None for file in found] == [None, LOG_SIZE, LOG_SIZE, None, None]
    assert not begins_record(queue, 0)
    assert begins_record(queue, 3 * LOG_SIZE)
    assert not begins_record(queue, 3 * LOG_SIZE + 1)


def test_a_header_tells_size_place_and_time(maker: Maker) -> None:
    header = read_header(maker.open().commitlog.files[0])
    assert header is not None
    assert (header.physical_offset, header.store_timestamp) == (LOG_SIZE, NOW)
    assert header.total_size == len(record_at(LOG_SIZE, NOW))


@pytest.mark.parametrize(
    ("size", "prefix"),
    [
        (67, b""),  # shorter than a header
        (LOG_SIZE, b"\0\0\0\1"),  # smaller than any record
        (LOG_SIZE, b"\x7f\xff\xff\xff"),  # past the end of the file
    ],
)
def test_what_cannot_be_a_record_is_none(maker: Maker, size: int, prefix: bytes) -> None:
    data = record_at(LOG_SIZE, NOW)
    maker.file("commitlog/00000000000000004096", prefix + data[len(prefix) :], size)
    assert read_header(maker.open().commitlog.files[0]) is None


def test_a_file_whose_name_is_no_offset_holds_no_place(maker: Maker) -> None:
    queue = maker.open().commitlog
    nameless = dataclasses.replace(queue.files[0], start_offset=None)
    assert not begins_record(dataclasses.replace(queue, files=(nameless,)), 0)
