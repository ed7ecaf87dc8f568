"""Waiting messages that do not say where they go, and property CRCs that are not the last property."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rocketfsck.formats.record import Record

from tests.conftest import STORE_NAMES, Directory
from tests.unit.verify.damage import Damage

WAITING = (b"SCHEDULE_TOPIC_XXXX", b"RMQ_SYS_TRANS_HALF_TOPIC")


@pytest.fixture
def copy(store_copy: Directory) -> Damage:
    return Damage(store_copy("4.9.8-delay"))


def waiting(store: Damage, file: str) -> list[tuple[int, Record]]:
    return [item for item in store.records(file) if item[1].topic in WAITING]


def rename(store: Damage, file: str, pos: int, record: Record, name: bytes) -> None:
    at = store.read(file, pos, record.total_size).rindex(name + b"\x01")
    store.write(file, pos + at, b"X")


def test_cl032_delayed_messages_without_a_target(copy: Damage) -> None:
    file = copy.files("commitlog")[0]
    chosen = waiting(copy, file)
    assert len(chosen) > 3
    rename(copy, file, *chosen[0], b"REAL_TOPIC")
    rename(copy, file, *chosen[2], b"REAL_QID")
    rename(copy, file, *chosen[-1], b"REAL_TOPIC")
    rename(copy, file, *chosen[-1], b"REAL_QID")
    result = copy.check()
    assert result.rules == {"CL032"}
    assert [(item.where.start, item.found["missing"]) for item in result.of("CL032")] == [
        (chosen[0][0], "REAL_TOPIC"),
        (chosen[2][0], "REAL_QID"),
        (chosen[-1][0], "REAL_TOPIC and REAL_QID"),
    ]


def test_cl032_an_empty_value_and_a_name_that_only_ends_so(copy: Damage) -> None:
    file = copy.files("commitlog")[0]
    pos, record = waiting(copy, file)[1]
    at = copy.read(file, pos, record.total_size).rindex(b"REAL_QID\x01")
    copy.write(file, pos + at + 9, b"\x02")  # the only digit
    longer, other = waiting(copy, file)[3]
    at = copy.read(file, longer, other.total_size).rindex(b"\x02REAL_QID\x01")
    copy.write(file, longer + at, b"_")
    found = copy.check().of("CL032")
    assert [(item.where.start, item.found["missing"]) for item in found] == [
        (pos, "REAL_QID"),
        (longer, "REAL_QID"),
    ]


def test_cl032_half_messages(store_copy: Directory) -> None:
    store = Damage(store_copy("5.3.3-trans"))
    file = store.files("commitlog")[0]
    chosen = waiting(store, file)
    rename(store, file, *chosen[0], b"REAL_TOPIC")
    (finding,) = store.check().of("CL032")
    assert (finding.where.start, finding.where.topic) == (chosen[0][0], "RMQ_SYS_TRANS_HALF_TOPIC")


def test_cl032_not_for_others_that_lack_them(store_copy: Directory) -> None:
    copy = Damage(store_copy("5.3.3-trans"))
    file = copy.files("commitlog")[0]
    plain = [record for _, record in copy.records(file) if record.topic not in WAITING]
    assert plain
    assert not all(b"REAL_QID" in record.properties for record in plain)
    assert copy.check().rules == set()


@pytest.mark.parametrize("piece_size", [1, 300, 1 << 20])
def test_pieces_of_any_size_find_the_same(
    copy: Damage, monkeypatch: pytest.MonkeyPatch, piece_size: int
) -> None:
    monkeypatch.setattr("rocketfsck.verify.log.recordrules.PIECE_SIZE", piece_size)
    assert copy.check().rules == set()
    file = copy.files("commitlog")[0]
    for pos, record in waiting(copy, file)[::3]:
        rename(copy, file, pos, record, b"REAL_QID")
    assert [f.where.start for f in copy.check().of("CL032")] == [p for p, _ in waiting(copy, file)[::3]]


def test_cl033_a_property_crc_that_is_not_last(store_copy: Directory) -> None:
    store = Damage(store_copy("5.3.3-propcrc"))
    file = store.files("commitlog")[0]
    (pos, record), (other, second) = store.records(file)[4:6]
    for at, item in ((pos, record), (other, second)):
        trailer = item.properties[-20:]
        assert re.fullmatch(rb"__CRC32#\x01\d{10}\x02", trailer)
        start = at + item.total_size - len(item.properties)
        store.write(file, start, trailer + item.properties[:-20])
    result = store.check()
    assert result.rules == set()
    (finding,) = result.of("CL033")
    assert (finding.where.start, finding.count) == (pos, 2)


def test_cl033_and_cl005_apart(store_copy: Directory) -> None:
    store = Damage(store_copy("5.3.3-propcrc"))
    file = store.files("commitlog")[0]
    records = store.records(file)
    pos, record = records[2]
    start = pos + record.total_size - len(record.properties)
    store.write(file, start, record.properties[-20:] + record.properties[:-20])
    wrong, other = records[3]
    digit = store.read(file, wrong + other.total_size - 3, 1)
    store.write(file, wrong + other.total_size - 3, b"1" if digit != b"1" else b"2")
    result = store.check()
    assert [f.where.start for f in result.of("CL033")] == [pos]
    assert [f.where.start for f in result.of("CL005")] == [wrong]


@pytest.mark.parametrize("name", STORE_NAMES)
def test_no_broker_breaks_these_rules(store_dir: Directory, name: str) -> None:
    result = Damage(Path(store_dir(name))).check()
    assert not {"CL032", "CL033"} & result.all_rules
