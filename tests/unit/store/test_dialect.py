"""Clues to the dialect, one by one, on broker-written stores that are altered and on made-up ones."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2, record_size
from rocketfsck.formats.record import Blank, Host, Record, encode_blank, encode_record
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import DialectEvidence
from rocketfsck.store.dialect import sampling
from rocketfsck.store.dialect.sampling import LogSample, sample_commitlog
from rocketfsck.store.model import MappedFile
from rocketfsck.store.reading import FileReader

Directory = Callable[[str], Path]

KEEPS_SEPARATOR = b"K\x01v\x02"
DROPS_SEPARATOR = b"K\x01v"


def record(
    offset: int, *, body: bytes = b"", properties: bytes = b"", sys_flag: int = 0, magic: int = MAGIC_V1
) -> Record:
    host = Host(b"\x7f\0\0\1", 10911)
    host_v6 = Host(b"\x20" * 16, 10911)
    size = record_size(len(body), 1, len(properties), magic_code=magic, sys_flag=sys_flag)
    return Record(
        total_size=size,
        magic_code=magic,
        body_crc=0,
        queue_id=0,
        flag=0,
        queue_offset=0,
        physical_offset=offset,
        sys_flag=sys_flag,
        born_timestamp=1,
        born_host=host_v6 if sys_flag & 0x10 else host,
        store_timestamp=1,
        store_host=host_v6 if sys_flag & 0x20 else host,
        reconsume_times=0,
        prepared_transaction_offset=0,
        body_length=len(body),
        body=body,
        topic=b"T",
        properties_length=len(properties),
        properties=properties,
    )


def write_log(
    root: Path, *records: Record, name: str = "0" * 20, size: int = 1 << 16, end: bytes = b""
) -> None:
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    data = b"".join(map(encode_record, records)) + end
    (root / "commitlog" / name).write_bytes(data.ljust(size, b"\0"))


def log_of(root: Path, count: int = 1, **what: Any) -> Path:
    offset = 0
    records = []
    for _ in range(count):
        records.append(record(offset, **what))
        offset += records[-1].total_size
    write_log(root, *records)
    return root


def versions(evidence: DialectEvidence) -> list[str]:
    return [str(version) for version in evidence.versions]


def stated(evidence: DialectEvidence) -> str:
    return " | ".join(f"{item.what}: {item.why}" for item in evidence.known_from)


@pytest.mark.parametrize(
    ("what", "oldest", "words"),
    [
        ({"magic": MAGIC_V2}, "5.1.0", "V2"),
        ({"sys_flag": 0x10}, "4.6.0", "IPv6"),
        ({"sys_flag": 0x20}, "4.6.0", "IPv6"),
        ({"sys_flag": 0x101}, "4.9.4", "compression"),
        ({"sys_flag": 0xC0}, "5.0.0-ALPHA", "inner batches"),
        ({"properties": b"__CRC32#\x010000000000\x02"}, "5.2.0", "CRC"),
        ({"properties": b"A\x01B\x02INNER_MULTI_QUEUE_OFFSET\x010\x02"}, "5.2.0", "multi-dispatch"),
        ({"properties": b"A\x01B\x02INNER_MULTI_QUEUE_OFFSET\x010"}, "4.9.3", "multi-dispatch"),
        ({"properties": b"CLUSTER\x01c\x02"}, "4.9.0", "CLUSTER"),
        ({"properties": b"A\x01B\x02CLUSTER\x01c"}, "4.9.1", "CLUSTER"),
        ({"properties": DROPS_SEPARATOR}, "4.0.0", "do not end in 0x02"),
    ],
)
def test_records(tmp_path: Path, what: dict[str, Any], oldest: str, words: str) -> None:
    evidence = open_store(log_of(tmp_path, **what)).dialect_evidence
    assert versions(evidence)[0] == oldest
    assert words in stated(evidence)
    assert not evidence.conflict


def test_a_type_without_compression_says_nothing(tmp_path: Path) -> None:
    assert open_store(log_of(tmp_path, sys_flag=0x100)).dialect_evidence.known_from == ()


def test_mixed_property_ends_say_nothing(tmp_path: Path) -> None:
    first = record(0, properties=KEEPS_SEPARATOR)
    write_log(tmp_path, first, record(first.total_size, properties=DROPS_SEPARATOR))
    assert open_store(tmp_path).dialect_evidence.known_from == ()


def test_the_newest_file_decides(tmp_path: Path) -> None:
    write_log(tmp_path, record(0, properties=DROPS_SEPARATOR))
    write_log(tmp_path, record(65536, properties=KEEPS_SEPARATOR), name=f"{65536:020d}")
    write_log(tmp_path, name=f"{131072:020d}")
    assert "5.1.4" not in versions(open_store(tmp_path).dialect_evidence)


def write_index(root: Path, offsets: Sequence[int], slots: int = 11, entries: int = 40) -> None:
    data = bytearray(40 + 4 * slots + 20 * entries)
    for number, offset in enumerate(offsets, 1):
        before = number - 1
        struct.pack_into(">iqii", data, 40 + 4 * slots + 20 * number, 0, offset, 0, before)
    struct.pack_into(">i", data, 40, len(offsets))
    struct.pack_into(">ii", data, 32, 1, len(offsets) + 1)
    (root / "index").mkdir()
    (root / "index/20200101000000000").write_bytes(data)


def test_the_records_of_the_newest_index_entries_decide(tmp_path: Path) -> None:
    """A file that 4.9.8 began and 5.3.3 went on with: its first records say nothing of the newest."""
    offset, offsets, records = 0, [], []
    for number in range(sampling.SAMPLE_COUNT + 20):
        ends = DROPS_SEPARATOR if number < sampling.SAMPLE_COUNT else KEEPS_SEPARATOR
        records.append(record(offset, properties=ends))
        offsets.append(offset)
        offset += records[-1].total_size
    write_log(tmp_path, *records)
    assert "5.3.3" not in versions(open_store(tmp_path).dialect_evidence)
    write_index(tmp_path, offsets[-20:])
    evidence = open_store(tmp_path).dialect_evidence
    assert "5.3.3" in versions(evidence)
    assert "properties end in 0x02" in stated(evidence)


def test_index_entries_that_point_nowhere(tmp_path: Path) -> None:
    log_of(tmp_path, 3, properties=DROPS_SEPARATOR)
    write_index(tmp_path, [-5, 1, 7, 95, 65535, 1 << 40, (1 << 63) - 1])
    store = open_store(tmp_path)
    sample = sample_commitlog(store.commitlog.files, store.indexes, 11)
    assert [item.physical_offset for item in sample.last] == [95]
    assert len(sample.newest) == 3
    store.commitlog.files[0].path.unlink()
    sample = sample_commitlog(store.commitlog.files, store.indexes, 11)
    assert (sample.last, sample.newest, sample.oldest, sample.filler) == ((), (), (), b"")
    store.indexes[0].path.unlink()
    assert sample_commitlog((), store.indexes, 11) == LogSample((), (), (), b"")


def test_a_walk_ends_at_what_is_no_record(tmp_path: Path) -> None:
    good = record(0)
    for number, end in enumerate(
        [
            b"\0\0\0\x64" + struct.pack(">i", MAGIC_V1) + b"\xff" * 92,  # lengths do not add up
            b"\0\0\0\x10" + struct.pack(">i", MAGIC_V1),  # too small
            b"\x7f\xff\xff\xff" + struct.pack(">i", MAGIC_V1),  # 2 GiB: stepped over, past the end
            b"\xff\xff\xff\xff" + struct.pack(">i", MAGIC_V1),
            b"\0\0\0\x64" + b"\xaa" * 96,
            b"\0\0",
            b"",
        ]
    ):
        root = tmp_path / str(number)
        write_log(root, good, end=end, size=0)
        assert open_store(root).commitlog.files[0].size == good.total_size + len(end)
        assert sample_commitlog(open_store(root).commitlog.files, (), 1).newest == (good,)


def test_large_records_are_stepped_over(tmp_path: Path) -> None:
    large = record(0, body=b"x" * (300 << 10))
    small = record(large.total_size, properties=DROPS_SEPARATOR)
    write_log(tmp_path, large, small, size=1 << 20)
    assert sample_commitlog(open_store(tmp_path).commitlog.files, (), 1).newest == (small,)


def test_long_bodies_are_stepped_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All else of the records is as it is, whatever their hosts."""
    records, offset, read = [], 0, 0
    for number in range(60):
        body = b"x" * (number * 197 % 9000)
        properties = b"K\x01" + b"v" * (number * 31 % 700) + b"\x02"
        records.append(record(offset, body=body, properties=properties, sys_flag=number % 4 * 0x10))
        offset += records[-1].total_size
    write_log(tmp_path, *records, size=1 << 20)
    files = open_store(tmp_path).commitlog.files
    read_into = FileReader.read_into

    def counted(reader: FileReader, view: memoryview | bytearray, pos: int = 0) -> None:
        nonlocal read
        read += len(view)
        read_into(reader, view, pos)

    monkeypatch.setattr(FileReader, "read_into", counted)
    found = sample_commitlog(files, (), 1).newest
    assert [replace(item, body=b"") for item in found] == [replace(item, body=b"") for item in records]
    assert read < 60 * 1200 < offset / 3


def test_sampling_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path, 300)
    files = open_store(tmp_path).commitlog.files
    assert len(sample_commitlog(files, (), 1).newest) == sampling.SAMPLE_COUNT
    monkeypatch.setattr(sampling, "MAX_SAMPLE_SIZE", 950)
    assert 0 < len(sample_commitlog(files, (), 1).newest) <= 950 // record(0).total_size


def test_a_file_that_shrinks_gives_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(tmp_path, 3)
    files = open_store(tmp_path).commitlog.files

    def fail(_file: MappedFile) -> bool:
        files[0].path.unlink()
        return True

    monkeypatch.setattr(sampling, "_has_data", fail)
    assert sample_commitlog(files, (), 1).newest == ()


def test_filler_behind_a_blank_is_only_a_hint(tmp_path: Path) -> None:
    first = record(0)
    rest = (1 << 16) - first.total_size
    write_log(tmp_path, first, end=encode_blank(Blank(rest)) + b"junk")
    evidence = open_store(tmp_path).dialect_evidence
    assert len(evidence.versions) == 40
    assert "BLANK" in stated(evidence)
    sample = sample_commitlog(open_store(tmp_path).commitlog.files, (), 1)
    assert sample.filler.startswith(b"junk\0")


@pytest.mark.parametrize(
    ("store", "pos", "value", "oldest", "words"),
    [
        ("4.9.8-lmq", 24, 7, "5.0.0", "masterFlushedOffset"),
        ("4.9.8-lmq", 32, 7, "5.1.1", "confirmPhyOffset"),
    ],
)
def test_checkpoint_fields(
    store_copy: Directory, store: str, pos: int, value: int, oldest: str, words: str
) -> None:
    root = store_copy(store)
    with (root / "checkpoint").open("r+b") as stream:
        stream.seek(pos)
        stream.write(struct.pack(">q", value))
    evidence = open_store(root).dialect_evidence
    assert versions(evidence)[0] == oldest
    assert f"{words} in the checkpoint is {value}" in stated(evidence)
    assert not evidence.conflict
    assert "there is no abort.bak: brokers keep abort.bak forever from 5.0.0 on; ignored" in stated(evidence)


def test_two_lines_of_evidence_that_conflict(store_copy: Directory) -> None:
    root = store_copy("4.4.0-basic")
    with (root / "checkpoint").open("r+b") as stream:
        stream.seek(32)
        stream.write(struct.pack(">q", 7))
    evidence = open_store(root).dialect_evidence
    assert evidence.conflict
    assert "4.4.0" in versions(evidence)
    assert (
        "confirmPhyOffset in the checkpoint is 7: brokers write the field from 5.1.1 on; ignored"
        in stated(evidence)
    )


def test_a_short_checkpoint_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b"\x01" * 39)
    assert open_store(tmp_path).dialect_evidence.known_from == ()


@pytest.mark.parametrize(
    ("content", "newest_has_pid", "words"),
    [(b"12345", True, "process id"), (b"", False, "abort is empty"), (b"junk", True, "")],
)
def test_abort(tmp_path: Path, content: bytes, newest_has_pid: bool, words: str) -> None:
    (tmp_path / "abort").write_bytes(content)
    evidence = open_store(tmp_path).dialect_evidence
    assert evidence.dialect.abort_has_pid is newest_has_pid
    assert words in stated(evidence)


def test_state_version_in_a_large_config(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").touch()
    (tmp_path / "config").mkdir()
    topics = tmp_path / "config/topics.json"
    topics.write_bytes(b"{" + b" " * 200_000 + b'"dataVersion":{"stateVersion":1}}')
    assert "has a stateVersion" in stated(open_store(tmp_path).dialect_evidence)
    topics.write_bytes(b"{" + b" " * 70_000 + b'"dataVersion":{}}')
    assert "has no stateVersion" in stated(open_store(tmp_path).dialect_evidence)
    topics.write_bytes(b"{}")
    assert open_store(tmp_path).dialect_evidence.known_from == ()


def test_a_file_that_vanishes_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may go while a store is opened; what was listed and cannot be read any more is no clue."""
    from rocketfsck.store.dialect import infer

    def refuse(path: object) -> object:
        raise StoreError("cannot be opened", path=str(path))

    log_of(tmp_path)
    write_index(tmp_path, [0, 0])
    (tmp_path / "abort").write_bytes(b"1")
    monkeypatch.setattr(infer, "FileReader", refuse)
    assert stated(open_store(tmp_path).dialect_evidence) == (
        "abort is empty: brokers write their process id into the file from 5.0.0 on"
    )


@pytest.mark.parametrize(
    ("place", "oldest"),
    [
        ("config/lmqConsumerOffset.json", "4.9.3"),
        ("config/consumerFilter.json", "4.1.0"),
        ("config/consumerOrderInfo.json", "5.0.0-PREVIEW"),
        ("config/topicQueueMapping.json", "5.0.0-ALPHA"),
        ("config/timermetrics", "5.0.0"),
        ("config/transactionMetrics", "5.2.0"),
        ("config/timercheck", "5.0.0"),
        ("config/users/CURRENT", "5.3.0"),
        ("timerwheel", "5.0.0"),
        ("brokerIdentity", "5.1.1"),
        ("epochFileCheckpoint", "5.0.0"),
        ("dledger-n0/data/x", "4.5.1"),
        ("consumequeue_ext/T/0/x", "4.1.0"),
        ("consumequeue/%LMQ%a/0/x", "4.9.3"),
        ("consumequeue/RMQ_SYS_TRANS_HALF_TOPIC/0/x", "4.3.0"),
        ("batchconsumequeue/T/0/x", "5.0.0-ALPHA"),
    ],
)
def test_names(tmp_path: Path, place: str, oldest: str) -> None:
    (tmp_path / "checkpoint").touch()
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert versions(open_store(tmp_path).dialect_evidence)[0] == oldest


@pytest.mark.parametrize(
    ("files", "oldest", "newest_before"),
    [
        ({"OPTIONS-000007": 1 << 20}, "5.3.2", False),
        ({"OPTIONS-000007": 0}, "5.2.0", True),
        ({"OPTIONS-000007": 1 << 20, "OPTIONS-000011": 0}, "5.2.0", True),  # the last opening decides
        ({"OPTIONS-000007": 0, "OPTIONS-000011": 1 << 20}, "5.3.2", False),
        ({"OPTIONS-x": 1 << 20}, "5.2.0", False),
    ],
)
def test_options_of_databases(
    tmp_path: Path, files: dict[str, int], oldest: str, newest_before: bool
) -> None:
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue" / "CURRENT").touch()
    for name, value in files.items():
        text = f"[DBOptions]\n  wal_bytes_per_sync=7\n  bytes_per_sync={value}\n"
        (tmp_path / "consumequeue" / name).write_text(text)
    found = versions(open_store(tmp_path).dialect_evidence)
    assert found[0] == oldest
    assert (found[-1] == "5.3.1") is newest_before


def test_hash_slot_counts(tmp_path: Path) -> None:
    write_index(tmp_path, [0] * 9)
    assert "the field counts used slots" in stated(open_store(tmp_path).dialect_evidence)
    path = tmp_path / "index/20200101000000000"
    data = bytearray(path.read_bytes())
    data[32:36] = struct.pack(">i", 9)
    path.write_bytes(data)
    evidence = open_store(tmp_path).dialect_evidence
    assert (versions(evidence)[-1], evidence.dialect.counts_entries_in_hash_slot_count) == ("4.7.0", True)
    data[32:36] = struct.pack(">i", 10)  # more than entries: damage, no clue
    path.write_bytes(data)
    assert open_store(tmp_path).dialect_evidence.known_from == ()


def test_entries_that_share_no_slot_do_not_tell(tmp_path: Path) -> None:
    write_index(tmp_path, [0])
    assert open_store(tmp_path).dialect_evidence.known_from == ()
