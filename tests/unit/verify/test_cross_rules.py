"""The rules XR: each fires on the damage it is for, at its unit, entry or record, and not without it."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import DETAIL_LIMIT
from rocketfsck.verify.index import entryfeed
from rocketfsck.verify.queues import unitjoin

from tests.conftest import Directory
from tests.unit.verify.damage import Damage
from tests.unit.verify.test_index_rules import Index

FIRST = "commitlog/00000000000000000000"
SEG = "consumequeue/Seg0/0"

Copy = Callable[[str], Damage]


@pytest.fixture
def copy(store_copy: Directory) -> Copy:
    return lambda name: Damage(store_copy(name))


@pytest.fixture
def index(copy: Copy) -> Index:
    """The second index file of a store with six."""
    return Index(copy("5.3.3-multiseg"), 1, 200)


def queue_end(store: Damage, file: str) -> int:
    """The number of units in a queue's file in front of its zeros."""
    return next(number for number, unit in enumerate(store.units(file)) if not unit[1])


def test_xr001_a_queue_that_is_behind(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    last = store.files(SEG)[-1]
    end = queue_end(store, last)
    store.write(last, 20 * (end - 4), bytes(80))
    result = store.check()
    assert result.rules == {"XR001"}
    finding = result.one("XR001")
    first = int(Path(last).name) // 20 + end - 4
    assert (finding.where.file, finding.where.start) == (last, 20 * (end - 4))
    assert (finding.where.queue_offset, finding.found["last_queue_offset"]) == (first, first + 3)
    assert finding.found["record_count"] == 4
    assert finding.found["reason"] == "the queue ends earlier"


def test_xr001_a_file_of_the_queue_is_gone(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    files = store.files(SEG)
    (store.root / files[0]).unlink()
    finding = store.check().one("XR001")
    assert (finding.where.queue_offset, finding.found["last_queue_offset"]) == (0, 59)
    assert finding.found["reason"] == "the queue begins later"
    (store.root / files[-1]).unlink()
    assert {str(f.found["reason"]) for f in store.check().of("XR001")} == {
        "the queue begins later",
        "the queue ends earlier",
    }


def test_xr001_one_finding_over_several_log_files(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    queue = store.files("consumequeue/Seg2/1")
    for file in queue:
        store.write(file, 0, bytes(2000))
    result = store.check()
    finding = result.one("XR001")
    assert finding.where.queue_offset == 0
    assert int(finding.found["record_count"] or 0) > 100


def test_xr002_a_queue_that_is_gone(copy: Copy) -> None:
    store = copy("5.1.3-basic")
    shutil.rmtree(store.root / "consumequeue/BetaBulk0/1")
    result = store.check()
    assert result.rules == {"XR002"}
    finding = result.one("XR002")
    assert (finding.where.topic, finding.where.queue_id) == ("BetaBulk0", 1)
    assert int(finding.found["record_count"] or 0) > 5


def test_xr002_many_are_cut_to_the_limit(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.verify.queues import crossqueues
    from rocketfsck.verify.tasks.task import capped

    monkeypatch.setattr(crossqueues, "capped", lambda findings, _limit: capped(findings, 5))
    store = copy("5.1.3-basic")
    queues = len(list((store.root / "consumequeue").glob("*/*")))
    shutil.rmtree(store.root / "consumequeue")
    result = store.check()
    assert len(result.of("XR002")) == 6
    assert sum(finding.count for finding in result.of("XR002")) == queues
    assert queues < DETAIL_LIMIT


def test_xr003_a_deleted_topic_is_normal(copy: Copy) -> None:
    store = copy("5.1.3-basic")
    topics = store.root / "config/topics.json"
    table = json.loads(topics.read_text())
    assert "BetaBulk0" in table["topicConfigTable"]
    shutil.rmtree(store.root / "consumequeue/BetaBulk0")
    assert store.check().rules == {"XR002"}
    del table["topicConfigTable"]["BetaBulk0"]
    topics.write_text(json.dumps(table))
    result = store.check()
    assert {f.where.topic for f in result.of("XR003")} == {"BetaBulk0"}
    assert "XR002" not in result.rules
    topics.write_text("{")
    assert "XR002" in store.check().rules
    topics.write_text("[]")
    assert "XR002" in store.check().rules


def test_xr004_units_behind_the_log(copy: Copy) -> None:
    store = copy("5.3.3-trans")
    file = store.files("consumequeue/RMQ_SYS_TRANS_HALF_TOPIC")[0]
    end = queue_end(store, file)
    store.unit(file, end, 30000, 120, 0)
    store.unit(file, end + 1, 1 << 50, 120, 0)
    result = store.check()
    finding = result.one("XR004")
    assert result.rules == {"XR004"}
    assert (finding.where.start, finding.where.queue_offset) == (20 * end, end)
    assert (finding.found["unit_count"], finding.found["log_end_offset"]) == (2, 11827)
    assert (finding.found["first_physical_offset"], finding.found["last_physical_offset"]) == (30000, 1 << 50)


def test_xr005_ghost_units(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    last = store.files("commitlog")[-1]
    records = store.records(last)
    base = int(Path(last).name)
    newest, record = records[-1]
    topic, queue_id = record.topic.decode(), record.queue_id
    file = store.files(f"consumequeue/{topic}/{queue_id}")[-1]
    end = queue_end(store, file)
    store.unit(file, end, base + newest + 3, 100, 0)
    result = store.check()
    assert result.one("XR005").found["reason"] == "no record starts there"
    assert result.rules <= {"XR005", "CQ002"}
    foreign = next(pos for pos, r in reversed(records) if (r.topic, r.queue_id) != (record.topic, queue_id))
    store.unit(file, end, base + foreign, 100, 0)
    assert store.check().one("XR005").found["reason"] == "a record of another queue is there"
    store.unit(file, end, base + newest, 100, 0)
    result = store.check()
    assert result.one("XR005").found["reason"] == "the record there has another queueOffset"


def test_xr005_a_unit_of_a_record_that_is_not_dispatched(copy: Copy) -> None:
    store = copy("4.4.0-trans")
    commits = [item for item in store.records(FIRST) if item[1].sys_flag & 0xC == 8]
    pos, record = commits[-1]
    store.set(FIRST, pos, "sysFlag", 0xC)
    result = store.check()
    finding = result.one("XR005")
    assert finding.found["reason"] == "the record there is not dispatched"
    assert finding.where.physical_offset == pos
    assert record.queue_offset == finding.where.queue_offset


def test_xr005_looks_are_limited(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.verify.queues.looseunits.LOOK_LIMIT", 1)
    store = copy("5.3.3-multiseg")
    file = store.files("consumequeue/Seg2/1")[0]
    units = store.units(file)
    for number in (10, 11, 12):
        offset, size, tags_code = units[number]
        store.unit(file, number, offset + 1, size, tags_code)
    finding = store.check().one("XR005")
    assert finding.found["unit_count"] == 3


@pytest.mark.parametrize("places", [-2, 3])
def test_xr006_units_that_moved(copy: Copy, places: int) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    units = [unit for unit in store.units(file) if unit[1]]
    start = 10
    moved = units[start:]
    for number in range(start, len(units)):
        store.unit(file, number, 0, 0, 0)
    if places > 0:
        for number in range(start, start + places):
            store.unit(file, number, moved[0][0] - 1 - (start + places - number), 1, 0)
    for number, unit in enumerate(moved):
        store.unit(file, start + places + number, *unit)
    result = store.check()
    finding = result.one("XR006")
    assert finding.found["shift"] == places
    assert (finding.found["first_queue_offset"], finding.count) == (start, len(moved))
    assert finding.where.queue_offset == start + places


def test_xr007_a_wrong_size(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    offset, size, tags_code = store.units(file)[4]
    store.unit(file, 4, offset, size + 1, tags_code)
    result = store.check()
    finding = result.one("XR007")
    assert result.rules == {"XR007"}
    assert (finding.where.file, finding.where.start, finding.where.end) == (file, 80, 100)
    assert (finding.found["size"], finding.expected["size"]) == (size + 1, size)


def test_xr008_a_wrong_tags_code(copy: Copy) -> None:
    store = copy("5.1.3-basic")
    file = store.files("consumequeue/BetaBulk0/0")[0]
    offset, size, tags_code = store.units(file)[4]
    store.unit(file, 4, offset, size, tags_code ^ 1)
    result = store.check()
    finding = result.one("XR008")
    assert result.rules == {"XR008"}
    assert (finding.where.start, finding.expected["tags_code"]) == (80, tags_code)


def _delayed(store: Damage) -> tuple[str, list[tuple[int, int, int]]]:
    """The queue of a delay level with the most units, and they."""
    files = store.files("consumequeue/SCHEDULE_TOPIC_XXXX")
    file = max(files, key=lambda file: sum(1 for unit in store.units(file) if unit[1]))
    return file, [unit for unit in store.units(file) if unit[1]]


def test_xr009_levels_that_all_units_agree_on(copy: Copy) -> None:
    store = copy("4.9.8-delay")
    result = store.check()
    assert result.rules == set()
    assert result.of("XR009")
    file, units = _delayed(store)
    level = int(file.split("/")[2]) + 1
    assert {f.found["level"] for f in result.of("XR009")} >= {level}
    # one unit that does not agree with the others of its level
    offset, size, deliver = units[1]
    store.unit(file, 1, offset, size, deliver + 5000)
    result = store.check()
    (finding,) = result.of("XR008")
    assert (finding.where.file, finding.where.start) == (file, 20)
    assert finding.found["level"] == level


def store_levels(store: Damage) -> list[str]:
    """The default list of delays."""
    return open_store(store.root).delay_levels.split(" ")


def test_xr008_levels_that_were_given(copy: Copy) -> None:
    store = copy("4.9.8-delay")
    result = store.check()
    stated = {int(f.found["level"] or 0): int(f.found["delay_ms"] or 0) // 1000 for f in result.of("XR009")}
    words = store_levels(store)
    levels = " ".join(f"{stated[n]}s" if n in stated else word for n, word in enumerate(words, 1))
    assert not {"XR008", "XR009"} & store.check(delay_levels=levels).all_rules
    result = store.check(delay_levels="77s " * 17 + "77s")
    assert result.rules == {"XR008"}
    assert result.of("XR009") == []


def test_xr010_units_into_damage(copy: Copy) -> None:
    store = copy("4.4.0-multiseg")
    records = store.records(FIRST)
    pos, record = records[25]
    store.write(FIRST, pos, b"\xee" * record.total_size)
    result = store.check()
    finding = result.one("XR010")
    assert finding.where.physical_offset == pos
    assert finding.where.queue_offset == record.queue_offset
    assert (finding.where.topic, finding.where.queue_id) == (record.topic.decode(), record.queue_id)
    assert result.one("XR029").found["entry_count"] == 1 + record.properties.count(b"UNIQ_KEY")


def test_xr011_and_xr030_a_missing_segment(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    lost = store.files("commitlog")[2]
    count = len(store.records(lost))
    (store.root / lost).unlink()
    result = store.check()
    assert result.rules == {"XR011", "XR030"}
    assert sum(int(f.found["unit_count"] or 0) for f in result.of("XR011")) == count


def test_xr012_extension_units_of_other_records(copy: Copy) -> None:
    store = copy("4.9.8-cqext")
    ext = store.files("consumequeue_ext")[0]
    tags_code = struct.unpack(">q", store.read(ext, 2, 8))[0]
    store.write(ext, 2, struct.pack(">q", tags_code + 1))
    store.write(ext, 10, struct.pack(">q", 7))
    result = store.check()
    assert result.rules == {"XR012"}
    stated = {str(f.found["field"]): (f.found["value"], f.where.queue_offset) for f in result.of("XR012")}
    assert stated == {"tagsCode": (tags_code + 1, 0), "msgStoreTime": (7, 0)}


def test_lmq_units(copy: Copy) -> None:
    store = copy("4.9.8-lmq")
    assert store.check().rules == set()
    file = store.files("consumequeue/%LMQ%" + _lmq(store))[0]
    offset, size, tags_code = store.units(file)[1]
    store.unit(file, 1, offset, size + 8, tags_code)
    result = store.check()
    assert result.rules == {"XR007"}
    assert (result.one("XR007").where.file, result.one("XR007").where.start) == (file, 20)
    store.write(file, 20, bytes(20))
    assert store.check().rules >= {"XR001"}


def _lmq(store: Damage) -> str:
    names = [path.name for path in (store.root / "consumequeue").iterdir() if path.name.startswith("%LMQ%")]
    return sorted(names)[0].removeprefix("%LMQ%")


def test_xr013_lists_of_different_lengths(copy: Copy) -> None:
    store = copy("4.9.8-lmq")
    for pos, record in store.records(FIRST):
        data = store.read(FIRST, pos, record.total_size)
        at = data.find(b"INNER_MULTI_QUEUE_OFFSET\x01")
        if at < 0:
            continue
        value = data[at + 25 :].split(b"\x02")[0]
        if b"," in value:
            store.write(FIRST, pos + at + 25, value.replace(b",", b"1"))
            break
    result = store.check()
    finding = result.one("XR013")
    assert finding.where.start == pos
    assert finding.found["offset_count"] == 1
    assert int(finding.found["queue_count"] or 0) > 1
    assert result.rules >= {"XR013", "XR005"}  # the units of the list have no record now


def test_xr014_batch_units(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    file = store.files("batchconsumequeue")[0]
    store.write(file, 46 * 4 + 20, struct.pack(">q", 5))
    result = store.check()
    finding = result.one("XR014")
    assert (finding.found["field"], finding.found["value"], finding.found["unit_number"]) == (
        "storeTime",
        5,
        4,
    )
    assert (finding.where.file, finding.where.start) == (file, 184)
    store.write(file, 46 * 4 + 8, struct.pack(">i", 1))
    assert store.check().rules == {"XR007", "XR014"}


@pytest.mark.parametrize("tags_code", [-(1 << 63), -(1 << 31) - 1, 5])
def test_xr008_batch_units_have_no_extension(copy: Copy, tags_code: int) -> None:
    store = copy("5.0.0-innerbatch")
    file = store.files("batchconsumequeue")[0]
    store.write(file, 46 * 4 + 12, struct.pack(">q", tags_code))
    result = store.check()
    finding = result.one("XR008")
    assert result.rules == {"XR008"}
    assert (finding.found["tags_code"], finding.where.file, finding.where.start) == (tags_code, file, 184)


def test_a_batch_queue_that_is_behind(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    file = store.files("batchconsumequeue")[0]
    data = store.read(file)
    end = max(n for n in range(len(data) // 46) if any(data[46 * n : 46 * n + 46]))
    store.write(file, 46 * (end - 1), bytes(92))
    finding = store.check().one("XR001")
    assert finding.found["record_count"] == 2


def test_xr020_records_behind_the_index(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    (store.root / store.files("index")[-1]).unlink()
    result = store.check()
    assert result.rules <= {"XR020", "XR021"}
    finding = result.one("XR020")
    last = store.files("commitlog")[-1]
    assert finding.found["last_physical_offset"] == int(Path(last).name) + store.records(last)[-1][0]
    assert finding.where.physical_offset == int(finding.where.file[-20:]) + int(finding.where.start or 0)


def test_xr020_two_ranges(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    files = store.files("index")
    (store.root / files[1]).unlink()
    (store.root / files[3]).unlink()
    assert len(store.check().of("XR020")) == 2


def test_xr021_and_xr024_one_key_under_another_hash(index: Index) -> None:
    key_hash, offset, _, _ = index.entry(300)
    index.put(300, key_hash=key_hash ^ 1)
    result = index.store.check()
    finding = result.one("XR024")
    assert (finding.where.entry, finding.where.physical_offset) == (300, offset)
    assert (finding.found["hash"], finding.expected["hash"]) == (key_hash ^ 1, key_hash)
    assert finding.where.start == index.pos(300)
    assert {"XR020", "XR021"}.isdisjoint(result.rules)


def test_xr021_a_key_without_entry(copy: Copy) -> None:
    result = copy("5.1.3-killed-restarted").check()
    finding = result.one("XR021")
    assert (finding.where.physical_offset, finding.found["missing_count"]) == (116494, 1)
    assert result.one("XR020").found["record_count"] == 50


def test_xr022_and_xr027_the_index_is_ahead(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    records = store.records(FIRST)
    pos, _ = records[-6]
    assert not {"XR022", "XR027"} & store.check().all_rules
    store.write(FIRST, pos, bytes(131072 - pos))
    result = store.check()
    assert result.one("XR027").found["log_end_offset"] == pos
    entries = result.one("XR022")
    assert (entries.found["first_physical_offset"], entries.found["log_end_offset"]) == (pos, pos)
    assert entries.found["last_physical_offset"] == records[-1][0]
    assert result.rules == {"XR004", "XR022", "XR027"}


def test_xr022_behind_the_last_file(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    (store.root / store.files("commitlog")[-1]).unlink()
    result = store.check()
    assert result.rules == {"XR004", "XR022", "XR027"}


def test_xr023_an_entry_into_the_middle(index: Index) -> None:
    offset = index.entry(300)[1]
    index.put(300, offset=offset + 1)
    result = index.store.check()
    finding = result.one("XR023")
    assert (finding.where.entry, finding.found["first_physical_offset"]) == (300, offset + 1)


def test_xr025_entries_of_the_last_record_again(copy: Copy) -> None:
    index = Index(copy("5.1.3-collisions"), 0, 29)
    last = index.count - 1
    key_hash, offset, time_diff, _ = index.entry(last)
    index.put(last + 1, key_hash=key_hash, offset=offset, time_diff=time_diff, previous=last)
    index.put_slot(key_hash % 29, last + 1)
    index.header(36, "i", last + 2)
    result = index.store.check()
    assert result.rules == set()
    assert result.one("XR025").where.entry == last + 1


def test_xr026_a_wrong_time(index: Index) -> None:
    time_diff = index.entry(300)[2]
    index.put(300, time_diff=time_diff + 5)
    result = index.store.check()
    finding = result.one("XR026")
    assert result.rules == {"XR026"}
    assert finding.where.entry == 300
    assert (finding.found["value"], finding.expected["value"]) == (time_diff + 5, time_diff)


def test_xr028_expired_entries_are_normal(copy: Copy) -> None:
    result = copy("4.9.8-expired").check()
    assert int(result.one("XR028").found["entry_count"] or 0) > 0
    assert result.rules == set()


def test_xr029_entries_of_a_torn_record(copy: Copy) -> None:
    store = copy("HEAD-basic")
    pos, record = store.records(FIRST)[-1]
    store.write(FIRST, pos + 100, bytes(record.total_size - 100))
    finding = store.check().one("XR029")
    assert finding.found["first_physical_offset"] == pos


def test_xr031_no_index_at_all_may_be_a_setting(copy: Copy, tmp_path: Path) -> None:
    store = copy("5.1.3-basic")  # whose only index file was never full: no trace of it is elsewhere
    shutil.rmtree(store.root / "index")
    result = store.check()
    assert result.rules == set()
    assert int(result.one("XR031").found["record_count"] or 0) > 50
    conf = tmp_path / "broker.conf"
    conf.write_text("messageIndexEnable=false\n")
    silent = check_store(open_store(store.root, broker_conf=conf))
    assert not {"XR031", "XR040"} & {finding.rule for finding in silent.findings}
    conf.write_text("brokerName=a\n")
    stated = check_store(open_store(store.root, broker_conf=conf))
    (finding,) = [finding for finding in stated.findings if finding.rule == "XR040"]
    assert finding.found["evidence"] == "broker.conf does not switch the index off"


def test_xr040_an_index_that_was_there_is_gone(copy: Copy) -> None:
    store = copy("5.1.3-basic")
    for file in store.files("index"):
        (store.root / file).unlink()
    assert "the directory index/ exists" in str(store.check().one("XR040").found["evidence"])


def test_xr040_the_checkpoint_tells_of_an_index(copy: Copy) -> None:
    full = copy("5.3.3-basic")  # whose first index file became full: the checkpoint has its time
    shutil.rmtree(full.root / "index")
    result = full.check()
    assert result.rules == {"XR040"}
    assert "indexMsgTimestamp (1700000138548)" in str(result.one("XR040").found["evidence"])


def test_index_files_in_disorder_are_joined_all_the_same(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    store = copy("5.3.3-multiseg")
    files = store.files("index")
    (store.root / files[4]).rename(store.root / "index/20261120220517000")
    assert store.check().rules == {"IX022"}
    index = Index(store, 2, 200)
    index.put(300, offset=index.entry(300)[1] - 40_000)
    result = store.check()
    assert result.one("XR020").found["record_count"] == 1  # the one whose only entry points elsewhere
    monkeypatch.setattr(entryfeed, "MAX_SORTED", 10)  # too many to put in order: still an answer
    assert "IX016" in store.check().rules


def test_units_are_joined_in_many_small_pieces(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unitjoin, "FLUSH_COUNT", 7)
    for name in ("4.9.8-lmq",):
        assert copy(name).check().rules == set()


def test_ranges_beyond_the_limit_are_counted(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unitjoin, "MAX_RANGES", 1)
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    for number in (3, 6, 9):
        store.write(file, 20 * number, bytes(20))
    result = store.check()
    assert "CQ001" in result.rules


def test_a_queue_file_named_far_away_is_not_walked_to(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    last = store.root / store.files(SEG)[-1]
    last.rename(last.with_name(f"{1 << 62:020d}"))
    result = store.check()
    assert "XR001" in result.rules
    last.with_name(f"{1 << 62:020d}").rename(last.with_name(f"{(1 << 63) - 1:020d}"))
    assert "XR001" in store.check().rules
