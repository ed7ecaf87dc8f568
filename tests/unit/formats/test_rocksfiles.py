"""RocksDB's own files: CURRENT, the log format, manifests. What RocksDB wrote is the measure."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.errors import FormatError
from rocketfsck.formats.rocksfiles import (
    BLOCK_SIZE,
    CutOffError,
    crc32c,
    decode_current,
    decode_manifest,
    log_records,
    masked,
    names_of,
)

from tests.conftest import Directory

DATABASES = (
    ("5.5.0-rocksdb-cq", "consumequeue"),
    ("5.5.0-rocksdb-cq", "config/topics"),
    ("5.5.0-rocksdb-all", "rocksdbstore"),
    ("5.5.0-rocksdb-config-v2", "config/rdb"),
    ("5.5.0-pop-kv-killed", "kvStore"),
)


def manifest_of(directory: Path) -> bytes:
    return (directory / decode_current((directory / "CURRENT").read_bytes())).read_bytes()


def log_of(*records: bytes) -> bytes:
    """Records in the log format, each in as many fragments as it needs."""
    data = bytearray()
    for record in records:
        rest, first = record, True
        while first or rest:
            left = BLOCK_SIZE - len(data) % BLOCK_SIZE
            if left < 7:
                data += bytes(left)
                continue
            piece, rest = rest[: left - 7], rest[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest]
            body = bytes([kind]) + piece
            data += struct.pack("<IH", masked(crc32c(body)), len(piece)) + body
            first = False
    return bytes(data)


def varints(*values: int) -> bytes:
    out = bytearray()
    for value in values:
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
    return bytes(out)


@pytest.mark.parametrize(("store", "database"), DATABASES)
def test_manifests_name_the_files_that_are_there(real_dir: Directory, store: str, database: str) -> None:
    directory = real_dir(store) / database
    manifest = decode_manifest(manifest_of(directory))
    there = {path.name: path.stat().st_size for path in directory.glob("*.sst")}
    assert {name: table.size for name, table in names_of(manifest).items()} == there
    assert any(int(path.stem) >= manifest.log_number for path in directory.glob("*.log"))


def test_families_of_a_manifest(real_dir: Directory) -> None:
    manifest = decode_manifest(manifest_of(real_dir("5.5.0-rocksdb-all") / "rocksdbstore"))
    assert manifest.families == {0: "default", 1: "timer", 2: "trans"}


def test_a_wal_that_a_killed_broker_left(real_dir: Directory) -> None:
    data = (real_dir("5.5.0-pop-kv-killed") / "kvStore" / "000004.log").read_bytes()
    found = list(log_records(data))
    assert len(found) == 35
    assert found[0].start == 0
    assert found[-1].end == len(data)


def test_a_known_crc() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.lists(st.binary(max_size=200) | st.integers(0, 3 * BLOCK_SIZE).map(bytes), max_size=6))
def test_records_come_back(records: list[bytes]) -> None:
    assert [record.data for record in log_records(log_of(*records))] == records


def test_a_fragment_without_bytes() -> None:
    """A block with room for a head has it, where a record begins."""
    records = [bytes(BLOCK_SIZE - 14), b"second"]
    data = log_of(*records)
    assert data[BLOCK_SIZE - 3 : BLOCK_SIZE] == b"\0\0\x02", (
        "no bytes, of the first type, and no room for more"
    )
    assert [record.data for record in log_records(data)] == records


def test_room_taken_in_advance_is_no_fault() -> None:
    assert [record.data for record in log_records(log_of(b"one") + bytes(4096))] == [b"one"]


@pytest.mark.parametrize("size", [1, 6, 7, 9])
def test_a_log_that_was_being_written(size: int) -> None:
    data = log_of(b"first") + log_of(b"second")[:size]
    with pytest.raises(CutOffError) as caught:
        list(log_records(data))
    assert caught.value.offset == 12


def test_a_record_without_an_end() -> None:
    data = log_of(bytes(BLOCK_SIZE + 100))[:BLOCK_SIZE]
    with pytest.raises(CutOffError) as caught:
        list(log_records(data))
    assert caught.value.offset == 0


@pytest.mark.parametrize(("at", "value"), [(0, 1), (4, 9), (5, 200), (6, 9), (6, 3), (8, 1)])
def test_a_log_that_is_damaged(at: int, value: int) -> None:
    data = bytearray(log_of(b"first", b"second"))
    data[at] ^= value
    with pytest.raises(FormatError) as caught:
        list(log_records(bytes(data)))
    assert caught.value.offset == 0


def test_a_fragment_ends_in_its_block() -> None:
    """Also where its bytes are all there and have their CRC."""
    body = b"\x01" + bytes(BLOCK_SIZE)
    data = struct.pack("<IH", masked(crc32c(body)), BLOCK_SIZE) + body + bytes(BLOCK_SIZE)
    with pytest.raises(FormatError, match="does not fit into its block") as caught:
        list(log_records(data))
    assert caught.value.offset == 0


@pytest.mark.parametrize(
    "data", [b"", b"MANIFEST-5", b"manifest-000005\n", b"MANIFEST-../x\n", b"MANIFEST-000005\nx"]
)
def test_a_current_that_names_nothing(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_current(data)


def test_current() -> None:
    assert decode_current(b"MANIFEST-000005\n") == "MANIFEST-000005"


def new_file(number: int, size: int) -> bytes:
    ends = varints(1) + b"a" + varints(1) + b"z"
    return varints(103, 0, number, size) + ends + varints(1, 2, 5, 1) + b"x" + varints(1)


def test_numbers_of_several_bytes() -> None:
    manifest = decode_manifest(log_of(new_file(128, 300)))
    assert {name: table.size for name, table in names_of(manifest).items()} == {"000128.sst": 300}


def test_the_number_of_a_file_may_have_a_path_in_it() -> None:
    manifest = decode_manifest(log_of(new_file(1 << 62 | 10, 100)))
    assert list(names_of(manifest)) == ["000010.sst"]


def test_the_sum_of_edits() -> None:
    edits = [
        varints(1, 3) + b"cmp" + varints(2, 4, 3, 9, 4, 0, 9, 0, 203, 2),
        varints(200, 1, 201, 5) + b"extra",
        varints(200, 1, 2, 7) + new_file(10, 100),
        varints(200, 0, 2, 8) + new_file(11, 200),
        varints(200, 0)
        + varints(6, 0, 11)
        + new_file(12, 300)
        + varints(8200, 2)
        + b"??"
        + varints(5, 0, 1)
        + b"k",
        varints(200, 2, 201, 4) + b"gone" + new_file(13, 1),
        varints(200, 2, 202),
    ]
    manifest = decode_manifest(log_of(*edits))
    assert manifest.families == {0: "default", 1: "extra"}
    assert {name: table.size for name, table in names_of(manifest).items()} == {
        "000010.sst": 100,
        "000012.sst": 300,
    }
    assert manifest.log_number == 7


@pytest.mark.parametrize(
    "added",
    [
        varints(7, 0, 10, 500) + varints(1) + b"a" + varints(1) + b"z",
        varints(100, 0, 10, 500) + varints(1) + b"a" + varints(1) + b"z" + varints(3, 4),
        varints(102, 0, 10, 0, 500) + varints(1) + b"a" + varints(1) + b"z" + varints(3, 4),
    ],
    ids=["first form", "with sequence numbers", "with a path"],
)
def test_files_as_earlier_versions_add_them(added: bytes) -> None:
    """What follows is read where the file ends: here the number of a log."""
    manifest = decode_manifest(log_of(added + varints(2, 8)))
    assert {name: table.size for name, table in names_of(manifest).items()} == {"000010.sst": 500}
    assert manifest.log_number == 8


@pytest.mark.parametrize(
    "edit",
    [
        varints(77),
        varints(77, 0),
        varints(1, 200),
        varints(2),
        b"\xff" * 12,
        varints(103, 0, 1, 1, 0, 0, 0, 0, 99, 0, 1),
    ],
)
def test_an_edit_that_cannot_be_read(edit: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode_manifest(log_of(varints(2, 4), edit))
    assert caught.value.offset == 9


def test_a_manifest_of_nothing() -> None:
    with pytest.raises(FormatError):
        decode_manifest(b"")


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_read(data: bytes) -> None:
    for text in (data, log_of(data)):
        try:
            decode_manifest(text)
        except FormatError as error:
            assert error.offset is not None
            assert 0 <= error.offset <= len(text)
