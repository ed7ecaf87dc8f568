"""The rules CL: each fires on the damage it is for, at its place, and not without it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log import tiling
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.log import bodies

from tests.conftest import Directory
from tests.unit.verify.damage import Damage
from tests.unit.verify.storemaker import NOW

FIRST = "commitlog/00000000000000000000"

Copy = Callable[[str], Damage]


@pytest.fixture
def copy(store_copy: Directory) -> Copy:
    return lambda name: Damage(store_copy(name))


def test_cl001_a_hole_of_garbage_in_the_middle(copy: Copy) -> None:
    store = copy("5.3.3-basic")
    records = store.records(FIRST)
    (start, first), (end, _) = records[10], records[12]
    store.write(FIRST, start, b"\x5a" * 100)
    store.write(FIRST, records[11][0], b"\x5a" * 60)
    result = store.check()
    finding = result.one("CL001")
    assert (finding.where.start, finding.where.end) == (start, end)
    assert finding.where.physical_offset == start
    assert finding.found["next_physical_offset"] == end
    assert finding.found["next_record_count"] == len(records) - 12
    assert finding.found["first_bytes_hex"] == "5a" * 8
    # the two messages are lost to their queues and keys, and nothing else is
    assert result.rules <= {"CL001", "CL028", "XR010", "XR029"}
    assert sum(int(f.found["unit_count"] or 0) for f in result.of("XR010")) == 2
    assert first.total_size + records[11][1].total_size == end - start


def test_cl001_a_hole_of_zeros_in_the_middle(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    start, record = store.records(FIRST)[5]
    store.write(FIRST, start, bytes(record.total_size))
    result = store.check()
    finding = result.one("CL001")
    assert (finding.where.start, finding.where.end) == (start, start + record.total_size)
    assert finding.found["reason"] == "all bytes are zero"
    assert "CL019" not in result.rules


@pytest.mark.parametrize("name", ["5.3.3-basic", "4.4.0-basic"])
def test_cl001_a_sound_record_without_its_magic_code(copy: Copy, name: str) -> None:
    store = copy(name)
    records = store.records(FIRST)
    start, record = records[4]
    store.set(FIRST, start, "magicCode", 0x11223344)
    result = store.check()
    finding = result.one("CL001")  # a broker does not look at its totalSize: the boundary is lost
    assert (finding.where.start, finding.where.end) == (start, start + record.total_size)
    assert finding.found["reason"] == "no known magic code"
    assert finding.found["next_record_count"] == len(records) - 5
    assert "CL003" not in result.rules
    classes = {item.fault_class for item in result.report.diagnoses}
    assert "C2" in classes
    assert "C10" not in classes


def test_cl001_a_last_record_without_its_magic_code_before_a_blank(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    start, record = store.records(FIRST)[-1]
    store.set(FIRST, start, "magicCode", 7)
    result = store.check()
    assert (result.one("CL001").where.start, result.one("CL001").where.end) == (
        start,
        start + record.total_size,
    )
    assert "CL003" not in result.rules


def test_cl002_a_torn_last_record(copy: Copy) -> None:
    store = copy("HEAD-basic")
    start, record = store.records(FIRST)[-1]
    store.write(FIRST, start + 100, bytes(record.total_size - 100))
    result = store.check()
    finding = result.one("CL002")
    assert finding.where.start == finding.where.physical_offset == start
    assert result.rules <= {"CL002", "XR010", "XR029"}


def test_cl003_a_record_whose_lengths_do_not_add_up(copy: Copy) -> None:
    store = copy("5.0.0-basic")
    start, record = store.records(FIRST)[3]
    store.set(FIRST, start, "bodyLength", len(record.body) + 1_000_000)
    result = store.check()
    finding = result.one("CL003")
    assert (finding.where.start, finding.where.end) == (start, start + record.total_size)
    assert result.rules <= {"CL003", "CL028", "XR010", "XR029"}


def test_cl003_as_the_last_record(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    start, record = store.records(FIRST)[-1]
    store.set(FIRST, start, "bodyLength", len(record.body) + 5)
    result = store.check()
    assert result.one("CL003").where.start == start
    assert "CL019" not in result.rules


def test_cl004_a_flipped_bit_and_a_negative_crc(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    file = store.files("commitlog")[2]
    records = store.records(file)
    pos, record = records[7]
    store.write(file, pos + 88, bytes([record.body[0] ^ 1]))
    other, _ = records[20]
    store.set(file, other, "bodyCRC", -5)
    result = store.check()
    assert result.rules == {"CL004"}
    first, second = result.of("CL004")
    assert (first.where.start, first.where.end) == (pos, pos + record.total_size)
    assert first.where.physical_offset == int(Path(file).name) + pos
    assert first.expected["crc"] == zlib.crc32(bytes([record.body[0] ^ 1]) + record.body[1:]) & 0x7FFFFFFF
    assert second.found["crc"] == -5
    assert store.check("cross").rules <= {"CL004"}


def test_cl004_neighbours_are_one_finding(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    records = store.records(FIRST)
    for pos, _ in records[30:34]:
        store.set(FIRST, pos, "bodyCRC", 1)
    finding = store.check().one("CL004")
    assert finding.count == 4
    assert (finding.where.start, finding.where.end) == (records[30][0], records[34][0])


def test_cl005_header_changed_under_its_property_crc(copy: Copy) -> None:
    store = copy("5.3.3-propcrc")
    assert store.check().rules == set()
    pos, _ = store.records(FIRST)[4]
    store.write(FIRST, pos + 16, b"\x01\x02\x03\x04")  # the producer's flag
    result = store.check()
    assert result.rules == {"CL005"}
    assert result.one("CL005").where.start == pos
    assert store.check("cross").rules == set()


def test_cl006_a_record_that_names_another_place(copy: Copy) -> None:
    store = copy("4.9.8-basic")
    pos, _ = store.records(FIRST)[9]
    store.set(FIRST, pos, "physicalOffset", 4711)
    result = store.check()
    assert result.rules == {"CL006"}
    assert result.one("CL006").found["stated_physical_offset"] == 4711


@pytest.mark.parametrize("sys_flag", [0x1000, 0x300, 0x401])
def test_cl007_unknown_flags(copy: Copy, sys_flag: int) -> None:
    store = copy("4.4.0-collisions")
    pos, record = store.records(FIRST)[2]
    store.set(FIRST, pos, "sysFlag", record.sys_flag | sys_flag)
    finding = store.check().one("CL007")
    assert finding.found["sys_flag"] == record.sys_flag | sys_flag


@pytest.mark.parametrize("field", ["bornPort", "storePort"])
def test_cl008_impossible_port(copy: Copy, field: str) -> None:
    store = copy("4.4.0-collisions")
    pos, _ = store.records(FIRST)[2]
    store.set(FIRST, pos, field, 70000)
    result = store.check()
    assert result.rules == {"CL008"}
    assert result.one("CL008").where.start == pos


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("queueId", "queueId"),
        ("queueOffset", "queueOffset"),
        ("preparedTransactionOffset", "preparedTransactionOffset"),
        ("storeTimestamp", "storeTimestamp"),
    ],
)
def test_cl009_negative_numbers(copy: Copy, field: str, name: str) -> None:
    store = copy("5.1.3-collisions")
    pos, _ = store.records(FIRST)[6]
    store.set(FIRST, pos, field, -3)
    result = store.check()
    finding = result.one("CL009")
    assert (finding.found["field"], finding.found["value"]) == (name, -3)
    assert finding.where.start == pos


def test_cl010_a_topic_that_would_nest_directories(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    pos, record = store.records(FIRST)[6]
    topic_pos = pos + 88 + len(record.body) + 1
    store.write(FIRST, topic_pos + 2, b"/")
    result = store.check()
    assert "'/'" in str(result.one("CL010").found["reason"])
    store.write(FIRST, topic_pos + 2, b"\xff")
    assert "UTF-8" in str(store.check().one("CL010").found["reason"])


def test_cl011_is_said_once_and_is_no_fault(copy: Copy) -> None:
    result = copy("4.4.0-legacybatch-propedge").check()
    finding = result.one("CL011")
    assert int(finding.found["record_count"] or 0) >= 8
    assert result.rules == set()


def test_cl012_properties_that_were_not_written(copy: Copy) -> None:
    store = copy("4.4.0-trans")
    pos, record = store.records(FIRST)[-1]
    store.write(FIRST, pos + record.total_size - 9, bytes(9))
    result = store.check()
    assert result.one("CL012").where.start == pos


def test_cl013_a_delay_that_is_no_number(copy: Copy) -> None:
    store = copy("4.9.8-delay")
    pos, record = next(item for item in store.records(FIRST) if item[1].topic == b"SCHEDULE_TOPIC_XXXX")
    data = store.read(FIRST, pos, record.total_size)
    store.write(FIRST, pos + data.index(b"DELAY\x01") + 6, b"x")
    result = store.check()
    assert result.one("CL013").where.start == pos


def test_cl014_an_inner_batch_with_another_base_or_count(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    assert store.check().rules == set()
    batches = [item for item in store.records(FIRST) if b"INNER_BASE\x01" in item[1].properties]
    pos, record = batches[2]
    data = store.read(FIRST, pos, record.total_size)
    at = data.index(b"INNER_NUM\x01") + 10
    store.write(FIRST, pos + at, bytes([data[at] + 1 if data[at] < 0x39 else 0x31]))
    result = store.check()
    finding = result.one("CL014")
    assert (finding.where.start, "INNER_NUM items" in str(finding.found["reason"])) == (pos, True)
    assert "XR014" in result.rules  # the unit has the true count
    at = data.index(b"INNER_BASE\x01") + 11
    store.write(FIRST, pos + at, b"x")
    assert store.check().one("CL014").found["reason"] == "INNER_NUM or INNER_BASE"


def test_cl014_an_inner_batch_with_damaged_items(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    pos, record = next(item for item in store.records(FIRST) if b"INNER_BASE\x01" in item[1].properties)
    body = struct.pack(">i", 2) + record.body[4:]
    store.write(FIRST, pos + 88, body)
    store.set(FIRST, pos, "bodyCRC", zlib.crc32(body) & 0x7FFFFFFF)
    assert store.check().rules == {"CL014"}


def test_cl015_a_record_in_the_last_8_bytes(copy: Copy) -> None:
    store = copy("4.4.0-trans")
    pos, record = store.records(FIRST)[-1]
    store.truncate(FIRST, pos + record.total_size)
    conf = store.root.parent / "broker.conf"
    conf.write_text(f"mappedFileSizeCommitLog={pos + record.total_size}")
    result = store.check(broker_conf=conf)
    assert result.one("CL015").where.start == pos


def _compressed(store: Damage) -> tuple[int, bytes]:
    """Position and body of a compressed record."""
    return next((pos, record.body) for pos, record in store.records(FIRST) if record.sys_flag & 1)


def _replace_body(store: Damage, pos: int, old: bytes, new: bytes, sys_flag: int) -> None:
    body = new + bytes(len(old) - len(new))
    store.write(FIRST, pos + 88, body)
    store.set(FIRST, pos, "bodyCRC", zlib.crc32(body) & 0x7FFFFFFF)
    store.set(FIRST, pos, "sysFlag", sys_flag)


def test_cl016_a_body_that_does_not_decompress(copy: Copy) -> None:
    store = copy("4.9.8-basic")
    pos, body = _compressed(store)
    _replace_body(store, pos, body, body[:-9], 1)
    assert store.check().rules == {"CL016"}
    _replace_body(store, pos, body, b"no zlib at all", 1)
    finding = store.check().one("CL016")
    assert (finding.where.start, finding.found["codec"]) == (pos, "zlib")
    assert store.check("cross").rules == set()
    # a wrong CRC says enough
    store.set(FIRST, pos, "bodyCRC", 1)
    assert store.check().rules == {"CL004"}


@pytest.mark.parametrize("kind", [0x100, 0x200])
def test_cl016_lz4_and_zstd(copy: Copy, kind: int) -> None:
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    store = copy("4.9.8-basic")
    pos, body = _compressed(store)
    packed = lz4.compress(b"abc" * 9) if kind == 0x100 else zstandard.compress(b"abc" * 9)
    _replace_body(store, pos, body, packed, 1 | kind)
    assert store.check().rules == set()
    _replace_body(store, pos, body, packed[: len(packed) // 2], 1 | kind)
    cut = store.check()
    _replace_body(store, pos, body, b"\x01\x02\x03\x04", 1 | kind)
    wrong = store.check()
    assert cut.rules == wrong.rules == {"CL016"}
    assert wrong.one("CL016").found["codec"] == ("lz4" if kind == 0x100 else "zstd")


def test_cl016_a_body_that_explodes(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_OUTPUT_SIZE", 100_000)
    lz4, zstandard = pytest.importorskip("lz4.frame"), pytest.importorskip("zstandard")
    store = copy("4.9.8-basic")
    pos, body = _compressed(store)
    bomb = bytes(10_000_000)
    for flag, packed in ((1, zlib.compress(bomb)), (0x201, zstandard.compress(bomb))):
        if len(packed) <= len(body):
            _replace_body(store, pos, body, packed, flag)
            assert store.check().one("CL016").found["reason"] == bodies.TOO_MUCH
    for decode, packed in (
        (bodies._zlib, zlib.compress(bomb)),
        (bodies._lz4, lz4.compress(bomb)),
        (bodies._zstd, zstandard.compress(bomb)),
    ):
        assert decode(iter([packed])) == bodies.TOO_MUCH


def test_cl017_a_codec_that_is_not_installed(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    store = copy("4.9.8-basic")
    pos, body = _compressed(store)
    _replace_body(store, pos, body, body, 0x101)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    result = store.check()
    finding = result.one("CL017")
    assert (finding.found["codec"], finding.found["record_count"]) == ("lz4", 1)
    assert result.rules == set()


def _blank(store: Damage, file: str) -> int:
    """Where the BLANK of a full file stands."""
    pos, record = store.records(file)[-1]
    return pos + record.total_size


def test_cl018_a_blank_of_another_size(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    blank = _blank(store, FIRST)
    store.write(FIRST, blank, struct.pack(">i", 12345678))
    result = store.check()
    assert result.rules == {"CL018"}
    finding = result.one("CL018")
    assert (finding.where.start, finding.where.end) == (blank, blank + 8)
    assert finding.found["size"] == 12345678


def test_cl019_a_file_without_its_blank(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    second = store.files("commitlog")[1]
    blank = _blank(store, second)
    store.write(second, blank, bytes(131072 - blank))
    result = store.check()
    finding = result.one("CL019")
    assert (finding.where.file, finding.where.start) == (second, blank)
    assert finding.found["next_file"] == store.files("commitlog")[2]
    assert result.rules == {"CL019"}


def test_cl019_not_at_the_end_of_the_log(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    (store.root / "commitlog/00000000000000655360").write_bytes(bytes(131072))
    assert store.check().rules == set()  # a file made in advance


def test_cl020_a_blank_in_the_middle(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    records = store.records(FIRST)
    pos = records[40][0]
    store.write(FIRST, pos, struct.pack(">ii", 131072 - pos, -875286124))
    result = store.check()
    assert (result.one("CL020").where.start, result.one("CL020").where.end) == (pos + 8, 131072)
    store.write(FIRST, pos, struct.pack(">ii", 20, -875286124))
    result = store.check()
    assert result.one("CL020").where.start == pos
    assert result.one("CL020").found["record_count"] == len(records) - 41
    assert {"CL018", "CL020"} <= result.rules


def test_cl021_records_of_before_a_truncation(copy: Copy) -> None:
    store = copy("4.9.8-ghosttail")
    result = store.check()
    finding = result.one("CL021")
    assert finding.where.file == "commitlog/00000000000000065536"
    assert finding.where.physical_offset == 77760  # the broker's own end of the log
    assert finding.found["record_count"] == 6
    store.write(str(finding.where.file), int(finding.where.start or 0), bytes(65536 - 12224))
    assert "CL021" not in store.check().rules


def test_cl021_an_earlier_life_that_joins_without_a_gap(copy: Copy) -> None:
    """A record that ends exactly where an old one starts makes the old chain reachable (reference 6.6)."""
    store = copy("4.4.0-collisions")
    records = store.records(FIRST)
    end, _ = records[-1]
    later = max(record.store_timestamp for _, record in records) + 1_000_000
    for pos, _ in records[:100]:
        store.set(FIRST, pos, "storeTimestamp", later)
    # the same records twice is what a queue's numbers tell: the last ones say numbers seen before
    pos, record = records[99]
    last_of_queue = {r.queue_id: r.queue_offset for _, r in records[:100]}
    tail = [item for item in records[100:] if item[1].queue_id == record.queue_id]
    store.set(FIRST, tail[0][0], "queueOffset", last_of_queue[record.queue_id])
    result = store.check()
    finding = result.one("CL021")
    assert (finding.where.start, finding.found["record_count"]) == (records[100][0], len(records) - 100)
    assert end > 0


def test_cl021_one_damaged_time_does_not_make_what_follows_stale(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    records = store.records(FIRST)
    store.set(FIRST, records[20][0], "storeTimestamp", 1 << 60)
    store.write(FIRST, records[21][0], b"\x5a" * 90)
    result = store.check()
    assert "CL021" not in result.rules
    assert "CL001" in result.rules


def test_cl022_bytes_behind_the_end(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    pos, record = store.records(FIRST)[-1]
    end = pos + record.total_size
    store.write(FIRST, end, b"\x11" * 500)
    result = store.check()
    assert result.rules == {"CL022"}
    finding = result.one("CL022")
    assert (finding.where.start, finding.where.end) == (end, end + 500)


def test_cl023_a_clock_step_back(copy: Copy) -> None:
    store = copy("4.9.8-realclock")
    assert store.check().of("CL023") == []
    pos, record = store.records(FIRST)[50]
    store.set(FIRST, pos, "storeTimestamp", record.store_timestamp + 3_600_000)
    result = store.check()
    finding = result.one("CL023")
    assert 3_590_000 < int(finding.found["largest_step_ms"] or 0) <= 3_600_000
    assert finding.found["step_count"] == 1
    assert result.rules == {"XR026"}  # the index has another time


def test_cl023_between_two_files(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    pos, record = store.records(FIRST)[-1]
    store.set(FIRST, pos, "storeTimestamp", record.store_timestamp + 3_600_000)
    finding = store.check().one("CL023")
    assert finding.where.file == store.files("commitlog")[1]


def test_cl024_a_producer_ahead(copy: Copy) -> None:
    store = copy("4.9.8-realclock")
    pos, record = store.records(FIRST)[50]
    store.set(FIRST, pos, "bornTimestamp", record.store_timestamp + 700_000)
    store.set(FIRST, store.records(FIRST)[60][0], "bornTimestamp", record.store_timestamp + 900_000_000)
    result = store.check()
    assert result.rules == set()
    finding = result.one("CL024")
    assert finding.where.start == pos
    assert finding.found["record_count"] == 2


def test_cl025_hosts(copy: Copy) -> None:
    finding = copy("4.9.8-ipv6").check().one("CL025")
    assert "[" in f"{finding.found['previous_host']}{finding.found['host']}"


@pytest.fixture
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of eight records in place of thousands, so that a small log has several."""
    monkeypatch.setattr(tiling, "batch_for", lambda _: new_batch(record_capacity=8))


@pytest.mark.parametrize("name", ["5.3.3-basic", "4.9.8-ghosttail", "4.4.0-collisions"])
def test_batches_end_without_a_trace(name: str, copy: Copy, request: pytest.FixtureRequest) -> None:
    store = copy(name)
    whole = store.check().findings
    request.getfixturevalue("short_batches")
    assert store.check().findings == whole


@pytest.mark.usefixtures("short_batches")
@pytest.mark.parametrize("number", [8, 11, 15])
def test_cl025_in_a_later_batch(copy: Copy, number: int) -> None:
    """At the first record of a batch, in the middle, and at the last one, and back each time."""
    store = copy("5.3.3-basic")
    pos, _ = store.records(FIRST)[number]
    store.set(FIRST, pos, "storePort", 10912)
    finding = store.check().one("CL025")
    assert (finding.where.start, finding.found["change_count"]) == (pos, 2)
    assert str(finding.found["host"]).endswith(":10912")
    assert not str(finding.found["previous_host"]).endswith(":10912")


def test_cl025_at_the_first_record_of_a_batch_and_back(copy: Copy) -> None:
    store = copy("4.4.0-collisions")
    pos, _ = store.records(FIRST)[-1]
    store.set(FIRST, pos, "storePort", 10912)
    finding = store.check().one("CL025")
    assert str(finding.found["host"]).endswith(":10912")
    assert finding.found["change_count"] == 1


def test_cl026_a_commit_without_its_half_message(copy: Copy) -> None:
    store = copy("5.3.3-trans")
    assert store.check().rules == set()
    records = store.records(FIRST)
    commits = [item for item in records if item[1].sys_flag & 0xC == 8]
    (one, _), (two, _) = commits[:2]
    store.set(FIRST, one, "preparedTransactionOffset", 7)
    store.set(FIRST, two, "preparedTransactionOffset", 1 << 40)
    result = store.check()
    assert result.rules == {"CL026"}
    assert [(f.where.start, f.found["prepared_transaction_offset"]) for f in result.of("CL026")] == [
        (one, 7),
        (two, 1 << 40),
    ]


def test_cl027_and_cl028_numbers_given_twice_and_left_out(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    records = store.records(FIRST)
    pos, record = records[40]
    store.set(FIRST, pos, "queueOffset", record.queue_offset - 1)
    result = store.check()
    repeated, skipped = result.one("CL027"), result.one("CL028")
    assert repeated.where.start == pos
    assert repeated.found["queue_offset"] == record.queue_offset - 1
    assert repeated.expected["queue_offset"] == record.queue_offset
    assert skipped.expected["queue_offset"] == record.queue_offset


def test_cl027_and_cl028_across_files(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    second = store.files("commitlog")[1]
    first_of_queue: dict[tuple[bytes, int], int] = {}
    for pos, record in store.records(second):
        first_of_queue.setdefault((record.topic, record.queue_id), pos)
    places = sorted(first_of_queue.values())
    (one, two) = places[:2]
    by_pos = dict(store.records(second))
    store.set(second, one, "queueOffset", by_pos[one].queue_offset - 2)
    store.set(second, two, "queueOffset", by_pos[two].queue_offset + 2)
    result = store.check()
    repeated = next(f for f in result.of("CL027") if f.where.start == one)
    skipped = next(f for f in result.of("CL028") if f.where.start == two)
    assert repeated.expected["queue_offset"] == by_pos[one].queue_offset
    assert skipped.expected["queue_offset"] == by_pos[two].queue_offset


def test_cl028_is_left_to_the_units_where_a_file_is_missing(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    (store.root / store.files("commitlog")[3]).unlink()
    assert store.check().rules == {"XR011", "XR030"}
    for file in store.files("consumequeue/Seg1/1"):
        (store.root / file).unlink()
    (store.root / "consumequeue/Seg1/1").rmdir()
    result = store.check()
    finding = result.one("CL028")
    assert (finding.where.topic, finding.where.queue_id) == ("Seg1", 1)


def test_cl029_more_queues_than_are_followed(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.scan.queues import QueueTable

    monkeypatch.setattr("rocketfsck.verify.queues.unitranges.QueueTable", lambda: QueueTable(max_queues=1))
    result = copy("4.4.0-collisions").check()
    assert int(result.one("CL029").found["record_count"] or 0) > 0


def test_cl030_a_file_without_any_record(copy: Copy) -> None:
    store = copy("4.4.0-collisions")
    store.write(FIRST, 0, b"\x33" * 131072)
    result = store.check()
    assert result.one("CL030").where.start == 0


def test_cl031_records_that_an_older_broker_takes_for_damage(store_dir: Directory) -> None:
    def check(version: str | None) -> list[Finding]:
        store = open_store(store_dir("5.3.3-basic"), version=version)
        report = check_store(store, CheckOptions(now_timestamp=NOW))
        return [finding for finding in report.findings if finding.rule == "CL031"]

    assert check(None) == check("5.1.0") == []
    (finding,) = check("5.0.0")
    assert (finding.found["record_count"], finding.where.physical_offset) == (4, 14295)
