"""Header fields that nothing covers: each rule fires on the value no broker writes, and on nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from rocketfsck.formats.magic import FENCE_TOPIC, TRANSACTION_COMMIT, transaction_type
from rocketfsck.formats.record import Record
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.scan.log.live import LATEST_CLOCK_MS
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import STORE_NAMES, Directory
from tests.unit.verify.damage import NOW, Damage

FIRST = "commitlog/00000000000000000000"
HEADER_RULES = {"CL034", "CL035", "CL036", "CL037", "CL038", "CL041"}


@pytest.fixture
def store(store_copy: Directory) -> Damage:
    return Damage(store_copy("5.3.3-basic"))


@pytest.mark.parametrize(
    ("rule", "field", "value", "shown"),
    [
        ("CL034", "sysFlag", 0x40, "sys_flag"),
        ("CL034", "sysFlag", 0x80, "sys_flag"),
        ("CL034", "sysFlag", 0xC0, "sys_flag"),
        ("CL035", "preparedTransactionOffset", 1, "prepared_transaction_offset"),
        ("CL035", "preparedTransactionOffset", 2**63 - 1, "prepared_transaction_offset"),
        ("CL036", "sysFlag", 0x8, "sys_flag"),
        ("CL037", "reconsumeTimes", -1, "reconsume_times"),
        ("CL037", "reconsumeTimes", -(2**31), "reconsume_times"),
        ("CL037", "reconsumeTimes", 1 << 16, "reconsume_times"),
        ("CL037", "reconsumeTimes", 2**31 - 1, "reconsume_times"),
        ("CL038", "bornTimestamp", 0, "born_timestamp"),
        ("CL038", "bornTimestamp", -1, "born_timestamp"),
        ("CL038", "bornTimestamp", -(2**63), "born_timestamp"),
    ],
)
def test_a_value_that_no_broker_writes(store: Damage, rule: str, field: str, value: int, shown: str) -> None:
    pos, _ = next(item for item in store.records(FIRST)[10:] if item[1].sys_flag == 0)
    store.set(FIRST, pos, field, value)
    result = store.check("cross")
    finding = result.one(rule)
    assert (finding.where.start, finding.count, finding.found[shown]) == (pos, 1, value)
    assert result.rules == {rule}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reconsumeTimes", 0),
        ("reconsumeTimes", 16),
        ("reconsumeTimes", (1 << 16) - 1),
        ("bornTimestamp", 1),
        ("bornTimestamp", 2**63 - 1),
        ("sysFlag", 0x2),
        ("preparedTransactionOffset", 0),
    ],
)
def test_a_value_that_a_broker_may_write(store: Damage, field: str, value: int) -> None:
    pos, _ = next(item for item in store.records(FIRST)[10:] if item[1].sys_flag == 0)
    store.set(FIRST, pos, field, value)
    assert store.check("cross").rules == set()


def test_cl035_a_negative_offset_has_the_rule_of_negative_fields(store: Damage) -> None:
    pos, _ = store.records(FIRST)[10]
    store.set(FIRST, pos, "preparedTransactionOffset", -1)
    assert store.check("cross").rules == {"CL009"}


@pytest.mark.parametrize("value", [LATEST_CLOCK_MS + 1, 1 << 62, 2**63 - 1])
def test_cl041_a_time_that_no_clock_shows(store: Damage, value: int) -> None:
    before = store.check("cross")
    pos, record = store.records(FIRST)[-1]
    store.set(FIRST, pos, "storeTimestamp", value)
    result = store.check("cross")
    finding = result.one("CL041")
    assert (finding.where.start, finding.count, finding.found) == (pos, 1, {"store_timestamp": value})
    # the index knows the record's time to the second
    assert result.rules - before.rules <= {"CL041", "XR026", "IX004"}
    store.set(FIRST, pos, "storeTimestamp", record.store_timestamp)
    assert "CL041" not in store.check("cross").rules


def test_cl041_a_time_of_a_clock_that_is_far_ahead_may_be_one(store: Damage) -> None:
    pos, _ = store.records(FIRST)[-1]
    store.set(FIRST, pos, "storeTimestamp", LATEST_CLOCK_MS)
    assert "CL041" not in store.check("cross").rules


def test_a_time_that_no_clock_shows_dates_nothing(store: Damage) -> None:
    """One damaged record does not hide that the checkpoint is ahead of the log."""
    records = store.records(FIRST)
    later = records[-1][1].store_timestamp + 60_000
    store.write("checkpoint", 0, struct.pack(">qq", later, later))
    before = [finding for finding in store.check("cross").report.findings if finding.rule == "CP011"]
    assert len(before) == 2
    store.set(FIRST, records[5][0], "storeTimestamp", 1 << 62)
    after = [finding for finding in store.check("cross").report.findings if finding.rule == "CP011"]
    assert after == before


def test_neighbours_with_one_fault_are_one_finding(store: Damage) -> None:
    records = store.records(FIRST)[10:13]
    for pos, _ in records:
        store.set(FIRST, pos, "bornTimestamp", 0)
    finding = store.check("cross").one("CL038")
    last, record = records[-1]
    assert (finding.where.start, finding.where.end, finding.count) == (
        records[0][0],
        last + record.total_size,
        3,
    )


def test_cl036_one_of_the_two_properties_is_enough(store_copy: Directory) -> None:
    store = Damage(store_copy("5.3.3-trans"))
    committed = [
        (pos, record)
        for pos, record in store.records(FIRST)
        if transaction_type(record.sys_flag) == TRANSACTION_COMMIT
        and b"TRAN_MSG\x01" in record.properties
        and b"PGROUP\x01" in record.properties
    ]
    (first, record), (second, other) = committed[:2]
    blank(store, first, record, b"TRAN_MSG")
    assert store.check("cross").rules == set()
    blank(store, first, record, b"PGROUP")
    blank(store, second, other, b"PGROUP")
    assert store.check("cross").one("CL036").where.start == first


def blank(store: Damage, pos: int, record: Record, name: bytes) -> None:
    """Give a property another name."""
    at = store.read(FIRST, pos, record.total_size).rindex(name + b"\x01")
    store.write(FIRST, pos + at, b"X")


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("5.0.0-innerbatch", lambda record: record.sys_flag & 0xC0 == 0xC0),
        ("5.3.3-trans", lambda record: record.prepared_transaction_offset > 0),
        ("5.3.3-trans", lambda record: transaction_type(record.sys_flag) == TRANSACTION_COMMIT),
        ("4.4.0-basic", lambda record: record.reconsume_times > 0),
    ],
)
def test_what_brokers_write_is_sound(
    store_copy: Directory, name: str, chosen: Callable[[Record], bool]
) -> None:
    store = Damage(store_copy(name))
    assert any(chosen(record) for file in store.files("commitlog") for _, record in store.records(file))
    assert not HEADER_RULES & store.check("cross").all_rules


@pytest.mark.parametrize("name", STORE_NAMES)
def test_no_store_of_a_broker_has_such_a_record(store_copy: Directory, name: str) -> None:
    assert not HEADER_RULES & Damage(store_copy(name)).check("cross").all_rules


def test_filler_of_a_repair_is_sound(store_copy: Directory) -> None:
    store = Damage(store_copy("4.4.0-multiseg"))
    pos, record = store.records(FIRST)[5]
    store.write(FIRST, pos, bytes(record.total_size))
    opened = open_store(store.root)
    report = check_store(opened, CheckOptions(now_timestamp=NOW))
    apply_plan(make_plan(opened, report))
    assert any(record.topic == FENCE_TOPIC for _, record in store.records(FIRST))
    assert not HEADER_RULES & store.check("cross").all_rules
