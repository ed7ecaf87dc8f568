"""Databases against their manifests, the log and each other: each kind of damage is found, at its place."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.rocks import (
    DISPATCHED_KEY,
    BoundKey,
    OffsetKey,
    PopKey,
    Table,
    TimerKey,
    TransKey,
    UnitKey,
    decode_timer_key,
    encode_bound_key,
    encode_config_key,
    encode_i64,
    encode_pop_key,
    encode_timer_key,
    encode_trans_key,
    encode_unit_key,
)
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.rocks import reading
from rocketfsck.store.rocks.reading import RocksError
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.rules.catalog import RULES, describe

from tests.conftest import Directory
from tests.databases import bound, change_rows, copied_store, database_of, rows_of, unit

NOW = 1_800_000_000_000

QUEUES, ALL, CONFIG, POP = (
    "5.5.0-rocksdb-cq",
    "5.5.0-rocksdb-all",
    "5.5.0-rocksdb-config-v2",
    "5.5.0-pop-kv-killed",
)
OF_A_KILL = {"RK018", "RK019"}
"""What that store of a killed broker has: rows that were not flushed, topics that are never written."""
Copied = Callable[[str], Path]


@pytest.fixture
def copied(real_dir: Directory, tmp_path: Path) -> Copied:
    return lambda name: copied_store(real_dir(name), tmp_path / "store")


def check(root: Path, level: str = "full") -> Report:
    return check_store(open_store(root), CheckOptions(level=level, now_timestamp=NOW))  # type: ignore[arg-type]


def found_in(root: Path, *, notes: bool = False) -> list[Finding]:
    """The findings of databases; with `notes` those on what is only worth knowing, too."""
    return [
        finding
        for finding in check(root).findings
        if finding.rule.startswith("RK") and (notes or RULES[finding.rule].severity > Severity.INFO)
    ]


def only(root: Path, rule: str) -> Finding:
    """The one finding of databases, which is of that rule, besides what a killed broker had not flushed."""
    (finding,) = (item for item in found_in(root) if item.rule not in OF_A_KILL)
    assert finding.rule == rule, describe(finding)
    assert "?" not in describe(finding)
    return finding


def unit_row(root: Path, topic: str, queue_id: int, place: int) -> tuple[bytes, bytes]:
    key = encode_unit_key(UnitKey(topic.encode(), queue_id, place))
    return key, rows_of(database_of(root, "consumequeue"))["default"][key]


@pytest.mark.parametrize("name", [QUEUES, ALL, CONFIG, POP, "5.5.0-combine"])
def test_a_sound_store(real_dir: Directory, name: str) -> None:
    report = check(real_dir(name))
    worst = {finding.rule for finding in report.findings if finding.rule.startswith("RK")}
    assert worst <= {"RK017"} | (OF_A_KILL if name == CONFIG else set())
    said = {item.what for item in report.not_checked}
    assert not said & {"consumequeue", "consumequeue_rocksdb", "rocksdbstore", "kvStore", "config/rdb"}
    assert report.checked["databases"].file_count


@pytest.mark.parametrize(
    ("store", "file"),
    [
        (QUEUES, "consumequeue/CURRENT"),
        (QUEUES, "consumequeue/MANIFEST-000005"),
        (QUEUES, "consumequeue/000010.sst"),
        (QUEUES, "consumequeue/000004.log"),
        (QUEUES, "config/topics/000011.sst"),
        (CONFIG, "config/rdb/000004.log"),
        (POP, "kvStore/000004.log"),
        (ALL, "rocksdbstore/000014.sst"),
    ],
)
def test_a_missing_file_is_named(copied: Copied, store: str, file: str) -> None:
    root = copied(store)
    (root / file).unlink()
    named_as = "config/rdb/*.log" if file == "config/rdb/000004.log" else file  # it was never flushed
    for level in ("quick", "full"):
        named = [finding for finding in check(root, level).findings if finding.rule == "RK001"]
        assert [finding.where.file for finding in named] == [named_as], level
    unread = [finding for finding in found_in(root) if finding.rule == "RK004"]
    assert bool(unread) == (not file.endswith(".log"))


@pytest.mark.parametrize(
    ("file", "size"),
    [
        ("consumequeue/CURRENT", 10),
        ("consumequeue/MANIFEST-000005", 300),
        ("consumequeue/000010.sst", 5000),
        ("config/consumerOffsets/000009.sst", 0),
    ],
)
def test_a_torn_file_is_named(copied: Copied, file: str, size: int) -> None:
    root = copied(QUEUES)
    with (root / file).open("r+b") as opened:
        opened.truncate(size)
    named = [finding for finding in check(root, "quick").findings if finding.rule == "RK002"]
    assert [finding.where.file for finding in named] == [file]


@pytest.mark.parametrize(
    ("store", "module", "name", "database"),
    [
        (QUEUES, "rocketfsck.store.rocks.spilling", "spill_queues", "consumequeue"),
        (ALL, "rocketfsck.verify.databases.run", "check_messages", "rocksdbstore"),
    ],
)
@pytest.mark.parametrize("failing", [1, 2])
def test_a_database_is_read_twice_before_damage_is_declared(
    copied: Copied,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    module: str,
    name: str,
    database: str,
    failing: int,
) -> None:
    """A disk or a cable may give wrong bytes once: then nobody knows what the database holds."""
    read = getattr(import_module(module), name)
    tries = []

    def read_badly(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) <= failing:
            raise RocksError("block checksum mismatch", path=database)
        return read(*arguments)

    monkeypatch.setattr(f"{module}.{name}", read_badly)
    report = check(copied(store))
    said = [item.rule for item in report.findings if item.where.file == database]
    assert [rule for rule in said if rule in ("RK004", "ST048")] == (["ST048"] if failing == 1 else ["RK004"])
    assert report.account is not None
    assert (report.account.count("unreachable") > 0) == (store == QUEUES and failing == 2)
    assert len(tries) == 2


@pytest.mark.parametrize("lost", ["CURRENT", "000010.sst", ""])
def test_messages_of_a_lost_database_of_queues_cannot_be_consumed(copied: Copied, lost: str) -> None:
    root = copied(QUEUES)
    served = check(root).account
    if lost:
        (root / "consumequeue" / lost).unlink()
    else:
        shutil.rmtree(root / "consumequeue")
    account = check(root).account
    assert served is not None and account is not None
    assert (served.count("unreachable"), account.count("served")) == (0, 0)
    assert account.count("unreachable") == served.count("served") > 0


def test_a_flipped_bit_of_each_file_is_found(copied: Copied) -> None:
    root = copied(QUEUES)
    for file in ("CURRENT", "MANIFEST-000005", "000010.sst", "000011.sst"):
        path = root / "consumequeue" / file
        sound = path.read_bytes()
        data = bytearray(sound)
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
        places = {finding.where.file for finding in found_in(root)}
        assert f"consumequeue/{file}" in places
        path.write_bytes(sound)


@pytest.mark.parametrize(("killed", "rule"), [(True, "RK003"), (False, "RK002")])
def test_a_log_that_is_cut_off(copied: Copied, killed: bool, rule: str) -> None:
    root = copied(POP)
    if not killed:
        (root / "abort").unlink()
    path = root / "kvStore/000004.log"
    path.write_bytes(path.read_bytes()[:-11])
    (finding,) = (finding for finding in check(root, "quick").findings if finding.rule.startswith("RK"))
    assert (finding.rule, finding.where.file) == (rule, "kvStore/000004.log")
    assert finding.where.start is not None


def test_a_unit_that_is_gone(copied: Copied) -> None:
    root = copied(QUEUES)
    key, value = unit_row(root, "RockOrder", 0, 7)
    change_rows(root, "consumequeue", "default", {key: None})
    finding = only(root, "RK007")
    assert finding.where.physical_offset == int.from_bytes(value[:8], "big")
    assert (finding.where.topic, finding.where.queue_id, finding.where.queue_offset) == ("RockOrder", 0, 7)
    assert finding.where.file == "consumequeue"


def test_a_unit_with_another_size_or_tag(copied: Copied) -> None:
    root = copied(QUEUES)
    key, value = unit_row(root, "RockOrder", 0, 7)
    for at, problem in ((11, "unit-size"), (19, "unit-tags-code")):
        data = bytearray(value)
        data[at] ^= 1
        change_rows(root, "consumequeue", "default", {key: bytes(data)})
        (finding, *_) = (finding for finding in found_in(root) if finding.rule == "RK006")
        assert finding.found["problem"] == problem
        assert finding.where.queue_offset == 7


def test_a_unit_of_another_place(copied: Copied) -> None:
    root = copied(QUEUES)
    key, value = unit_row(root, "RockOrder", 0, 7)
    data = bytearray(value)
    data[7] ^= 4
    change_rows(root, "consumequeue", "default", {key: bytes(data)})
    rules = {finding.rule for finding in found_in(root)}
    assert {"RK007", "RK008"} <= rules


def test_a_unit_behind_the_log(copied: Copied) -> None:
    root = copied(QUEUES)
    change_rows(root, "consumequeue", "default", dict([unit("Warm", 0, 1, 1 << 30)]))
    change_rows(root, "consumequeue", "offset", dict([bound("Warm", 0, "max", 1, 1 << 30)]))
    assert {"RK008", "RK010"} <= {finding.rule for finding in found_in(root)}


def test_a_time_of_a_unit(copied: Copied) -> None:
    root = copied(QUEUES)
    key, value = unit_row(root, "RockBulk0", 1, 3)
    change_rows(root, "consumequeue", "default", {key: value[:20] + encode_i64(5)})
    finding = only(root, "RK011")
    assert (finding.where.queue_offset, finding.found["value"]) == (3, 5)
    assert finding.where.physical_offset == int.from_bytes(value[:8], "big")


@pytest.mark.parametrize("place", [3, 30])
def test_a_greatest_queue_offset(copied: Copied, place: int) -> None:
    root = copied(QUEUES)
    change_rows(root, "consumequeue", "offset", dict([bound("RockBulk0", 0, "max", place, 60000)]))
    rules = {finding.rule for finding in found_in(root)}
    assert "RK009" in rules
    assert ("RK007" in rules) == (place == 3)


def test_a_greatest_queue_offset_that_is_gone(copied: Copied) -> None:
    root = copied(QUEUES)
    change_rows(root, "consumequeue", "offset", {encode_bound_key(BoundKey(b"RockBulk0", 0, True)): None})
    assert {"RK007", "RK009"} <= {finding.rule for finding in found_in(root)}


def test_a_least_queue_offset_that_hides_messages(copied: Copied) -> None:
    root = copied(QUEUES)
    _, value = unit_row(root, "RockBulk0", 0, 5)
    offset = int.from_bytes(value[:8], "big")
    change_rows(root, "consumequeue", "offset", dict([bound("RockBulk0", 0, "min", 5, offset)]))
    finding = next(finding for finding in found_in(root) if finding.rule == "RK009")
    assert (finding.found["bound"], finding.found["value"]) == ("least", 5)


@pytest.mark.parametrize("mark", [None, -1, 100, 1 << 40])
def test_the_mark_of_what_was_dispatched(copied: Copied, mark: int | None) -> None:
    root = copied(QUEUES)
    value = None if mark is None else encode_i64(mark)
    change_rows(root, "consumequeue", "offset", {DISPATCHED_KEY: value})
    assert only(root, "RK010").found["value"] == ("missing" if mark is None else mark)


def test_what_was_not_dispatched_yet_is_not_missing(copied: Copied) -> None:
    root = copied(QUEUES)
    rows = rows_of(database_of(root, "consumequeue"))
    offsets = {key: int.from_bytes(value[:8], "big") for key, value in rows["default"].items()}
    last = max(offsets, key=lambda key: offsets[key])
    name = UnitKey(b"TRANS_CHECK_MAX_TIME_TOPIC", 0, 3)
    assert last == encode_unit_key(name)
    before = max(offset for key, offset in offsets.items() if key != last)
    change_rows(root, "consumequeue", "default", {last: None})
    changes = dict([bound("TRANS_CHECK_MAX_TIME_TOPIC", 0, "max", 2, before)])
    change_rows(root, "consumequeue", "offset", changes | {DISPATCHED_KEY: encode_i64(offsets[last])})
    assert not found_in(root)


def test_rows_of_no_shape(copied: Copied) -> None:
    root = copied(QUEUES)
    key, value = unit_row(root, "Warm", 0, 0)
    change_rows(root, "consumequeue", "default", {key + b"x": value})
    finding = only(root, "RK005")
    assert finding.found["row_count"] == 1
    assert finding.found["key"] == (key + b"x").hex()


def test_index_rows(copied: Copied) -> None:
    root = copied(ALL)
    rows = rows_of(database_of(root, "rocksdbstore"))["default"]
    gone = next(key for key in rows if b"@K@tx-1@" in key)
    change_rows(root, "rocksdbstore", "default", {gone: None})
    finding = only(root, "RK013")
    assert finding.where.physical_offset == int.from_bytes(gone[-8:], "big")
    assert finding.found["row_count"] == 1

    other = gone.replace(b"tx-1", b"tx-9")
    change_rows(root, "rocksdbstore", "default", {other: rows[gone]})
    missing, dangling = sorted(found_in(root), key=lambda found: found.rule, reverse=True)
    assert (missing.rule, dangling.rule) == ("RK013", "RK012")
    assert dangling.where.physical_offset == int.from_bytes(other[-8:], "big")
    assert dangling.found["row_count"] == 1


def test_an_index_in_a_database_is_not_absent(copied: Copied) -> None:
    root = copied(ALL)
    shutil.rmtree(root / "index")
    (root / "checkpoint").unlink()

    def said() -> bool:
        return "XR031" in {finding.rule for finding in check_store(open_store(root)).findings}

    assert not said()
    (root / "rocksdbstore" / "CURRENT").write_bytes(b"?")
    assert not said()
    shutil.rmtree(root / "rocksdbstore")
    assert said()


def test_an_index_row_of_another_time(copied: Copied) -> None:
    root = copied(ALL)
    rows = rows_of(database_of(root, "rocksdbstore"))["default"]
    key = next(key for key in rows if b"@U@" in key)
    change_rows(root, "rocksdbstore", "default", {key: encode_i64(3)})
    assert {finding.rule for finding in found_in(root)} == {"RK012", "RK013"}


def test_an_index_row_of_no_shape(copied: Copied) -> None:
    root = copied(ALL)
    change_rows(root, "rocksdbstore", "default", {b"\0" * 30: encode_i64(3)})
    assert only(root, "RK005").where.file == "rocksdbstore"


@pytest.mark.parametrize(("at", "value"), [(3, b"\1"), (11, b"\1")])
def test_a_timer_of_another_record(copied: Copied, at: int, value: bytes) -> None:
    root = copied(ALL)
    rows = rows_of(database_of(root, "rocksdbstore"))["timer"]
    key = next(key for key in rows if len(rows[key]) == 12)
    data = rows[key][:at] + value + rows[key][at + 1 :]
    change_rows(root, "rocksdbstore", "timer", {key: data})
    assert only(root, "RK014").found["family"] == "timer"


def test_a_timer_of_another_time_or_key(copied: Copied) -> None:
    root = copied(ALL)
    rows = rows_of(database_of(root, "rocksdbstore"))["timer"]
    key = next(key for key in rows if len(rows[key]) == 12)
    old = decode_timer_key(key)
    later = TimerKey(old.deliver_time + 1, old.unique_key)
    change_rows(root, "rocksdbstore", "timer", {key: None, encode_timer_key(later): rows[key]})
    assert "delivery time" in str(only(root, "RK014").found["reason"])
    change_rows(root, "rocksdbstore", "timer", {encode_timer_key(later): None, key[:8] + b"other": rows[key]})
    assert "unique key" in str(only(root, "RK014").found["reason"])
    change_rows(root, "rocksdbstore", "timer", {key[:8] + b"other": None, b"short": b""})
    assert only(root, "RK005").found["family"] == "timer"


def test_a_timer_that_is_gone(copied: Copied) -> None:
    root = copied(ALL)
    rows = rows_of(database_of(root, "rocksdbstore"))["timer"]
    due = {key: decode_timer_key(key).deliver_time for key in rows if len(rows[key]) == 12}
    last = max(due, key=lambda key: due[key])
    change_rows(root, "rocksdbstore", "timer", {last: None})
    finding = only(root, "RK014")
    assert finding.found["reason"] == f"the row is missing, and the message is due at {due[last]}"
    assert finding.where.physical_offset == int.from_bytes(rows[last][4:], "big")
    first = min(due, key=lambda key: due[key])  # that one was delivered: its row may stay or go
    change_rows(root, "rocksdbstore", "timer", {last: rows[last], first: None})
    assert not found_in(root)


def test_a_transaction_of_no_record(copied: Copied) -> None:
    root = copied(ALL)
    key = encode_trans_key(TransKey(17685, b"AllTx", b"C000020225994E0E2F2A6DDAC32A0035"))
    change_rows(root, "rocksdbstore", "trans", {key: bytes(8)})
    assert "bytes" in str(only(root, "RK014").found["reason"])
    away = encode_trans_key(TransKey(17686, b"AllTx", b"any"))
    change_rows(root, "rocksdbstore", "trans", {key: None, away: bytes(8)})
    assert only(root, "RK014").found["reason"] == "no record starts there"


@pytest.mark.parametrize(("topic", "unique_key"), [(b"Other", None), (None, b"other")])
def test_a_transaction_of_another_record(
    copied: Copied, topic: bytes | None, unique_key: bytes | None
) -> None:
    root = copied(ALL)
    from rocketfsck import iter_messages

    half = next(message for message in iter_messages(open_store(root), topic="RMQ_SYS_TRANS_HALF_TOPIC"))
    properties = half.properties or {}
    real, unique = properties["REAL_TOPIC"].encode(), properties["UNIQ_KEY"].encode()
    value = (0).to_bytes(4, "big") + half.total_size.to_bytes(4, "big")
    sound = encode_trans_key(TransKey(half.physical_offset, real, unique))
    change_rows(root, "rocksdbstore", "trans", {sound: value})
    assert not found_in(root)
    wrong = encode_trans_key(TransKey(half.physical_offset, topic or real, unique_key or unique))
    change_rows(root, "rocksdbstore", "trans", {sound: None, wrong: value})
    assert "another" in str(only(root, "RK014").found["reason"])


def test_pop_records(copied: Copied) -> None:
    root = copied(POP)
    sound = {"popTime": 1000, "invisibleTime": 500, "groupId": "g", "topicId": "t", "queueId": 1, "offset": 7}
    key = PopKey(1500, b"g", b"t", 1, 7)
    change_rows(root, "kvStore", "popState", {encode_pop_key(key): json.dumps(sound).encode()})
    assert not found_in(root)
    for name, value in (
        ("invisibleTime", 501),
        ("groupId", "h"),
        ("topicId", "u"),
        ("queueId", 2),
        ("offset", 8),
    ):
        change_rows(
            root, "kvStore", "popState", {encode_pop_key(key): json.dumps(sound | {name: value}).encode()}
        )
        finding = only(root, "RK015")
        assert (finding.where.topic, finding.where.queue_id, finding.where.queue_offset) == ("t", 1, 7)
    change_rows(root, "kvStore", "popState", {encode_pop_key(key): b"[1]"})
    assert only(root, "RK015").found["group"] == "g"
    change_rows(root, "kvStore", "popState", {encode_pop_key(key): b"\xff"})
    assert only(root, "RK005").found["family"] == "popState"


def test_offsets_of_consumers_in_a_database(copied: Copied) -> None:
    root = copied(QUEUES)
    row = {b"RockOrder@g": b'{"offsetTable":{"0":24,"1":-5}}', b"Warm@g": b'{"offsetTable":{"0":900}}'}
    change_rows(root, "config/consumerOffsets", "default", row)
    findings = [item for item in found_in(root, notes=True) if item.where.file == "config/consumerOffsets"]
    assert {(item.rule, item.found["problem"], item.where.topic) for item in findings} == {
        ("RK016", "consumer-offset-negative", "RockOrder"),
        ("RK016", "consumer-offset-ahead", "Warm"),
    }


def test_a_config_row_of_no_shape(copied: Copied) -> None:
    root = copied(QUEUES)
    change_rows(root, "config/topics", "default", {b"Odd": b"{no json"})
    finding = only(root, "RK005")
    assert (finding.where.file, finding.found["key"]) == ("config/topics", b"Odd".hex())
    change_rows(root, "config/topics", "default", {b"Odd": b'{"topicName":"Other"}'})
    assert "'Other' in the value, but 'Odd' in the key" in str(only(root, "RK005").found["reason"])


def test_the_second_form_of_configs(copied: Copied) -> None:
    root = copied(CONFIG)
    key = encode_config_key(OffsetKey(Table.CONSUMER_OFFSET, b"g", b"CfgOrder", 0))
    change_rows(root, "config/rdb", "default", {key: encode_i64(-1)})
    assert only(root, "RK016").found["problem"] == "consumer-offset-negative"
    change_rows(root, "config/rdb", "default", {key: b"short"})
    assert only(root, "RK005").where.file == "config/rdb"


def test_no_repair_of_files_for_what_a_database_lacks(copied: Copied) -> None:
    root = copied(QUEUES)
    key, _ = unit_row(root, "RockOrder", 0, 7)
    change_rows(root, "consumequeue", "default", {key: None})
    (root / "config/topics/CURRENT").unlink()
    report = check(root)
    plan = make_plan(open_store(root), report)
    assert {action.name for action in plan.actions} == {"rebuild-queue-database"}
    assert "RK001" in {item.rule for item in plan.unanswered}


def test_without_rocksdict(copied: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copied(QUEUES)
    monkeypatch.setattr(reading, "find_spec", lambda _name: None)
    report = check(root)
    assert report.worst == Severity.INFO
    for name in ("consumequeue", "config/topics", "rocksdbstore"):
        said = [item.reason for item in report.not_checked if item.what == name]
        assert any("pip install rocksdict" in reason for reason in said)
    (root / "consumequeue/000010.sst").unlink()
    assert {finding.rule for finding in found_in(root)} == {"RK001"}


def test_rows_are_left_to_higher_levels_and_the_whole(real_dir: Directory) -> None:
    report = check(real_dir(QUEUES), "quick")
    said = [item.reason for item in report.not_checked if item.what == "consumequeue"]
    assert "only the levels cross and full read its rows" in said


def test_a_database_that_a_broker_changes(copied: Copied) -> None:
    root = copied(QUEUES)
    (root / "rocksdbstore/000004.log").write_bytes(b"\1" * 100)
    store = open_store(root)
    from dataclasses import replace

    from rocketfsck.store.circumstances import LockState

    live = replace(store.live, state=LockState.HELD)
    report = check_store(replace(store, live=live), CheckOptions(now_timestamp=NOW))
    assert "RK004" not in {finding.rule for finding in report.findings}


def test_every_rule_of_databases_is_proved_here() -> None:
    text = Path(__file__).read_text("utf-8")
    assert not [rule for rule in RULES if rule.startswith("RK") and f'"{rule}"' not in text]
