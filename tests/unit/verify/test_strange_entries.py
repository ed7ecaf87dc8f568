"""Index entries for none of a record's keys: regular ones are one note, odd ones are errors. ADR 0011."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.scan.machine import jit
from rocketfsck.verify.index import strangeentries
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import Directory
from tests.unit.verify.damage import Damage, Result
from tests.unit.verify.test_index_rules import Index

STRANGE = 0x1234567
SLOTS = 200
Entry = tuple[int, int, int]
Extra = Callable[[int, list[Entry]], list[Entry]]


class Extended:
    """The last index file of a store, put once more by the broker's rule with further entries."""

    def __init__(self, root: Path) -> None:
        self.store = Damage(root)
        self.index = Index(self.store, -1, SLOTS)

    def records(self) -> list[list[Entry]]:
        """keyHash, phyOffset and timeDiff of the entries, record by record."""
        found: dict[int, list[Entry]] = {}
        for entry in range(1, self.index.count):
            key_hash, offset, time_diff, _ = self.index.entry(entry)
            found.setdefault(offset, []).append((key_hash, offset, time_diff))
        return list(found.values())

    def put(self, extra: Extra) -> None:
        """Let `extra` give the entries of a record from its number and its entries."""
        records = self.records()
        entries = [item for number, record in enumerate(records) for item in extra(number, record)]
        slots: dict[int, int] = {}
        data = b""
        for number, (key_hash, offset, time_diff) in enumerate(entries, 1):
            data += struct.pack(">iqii", key_hash, offset, time_diff, slots.get(key_hash % SLOTS, 0))
            slots[key_hash % SLOTS] = number
        self.store.write(self.index.file, self.index.pos(1), data)
        for slot, number in slots.items():
            self.index.put_slot(slot, number)
        self.index.header(32, "i", len(slots))
        self.index.header(36, "i", len(entries) + 1)

    def check(self) -> Result:
        return self.store.check()


@pytest.fixture
def extended(store_copy: Directory) -> Extended:
    return Extended(store_copy("5.3.3-multiseg"))


def behind(numbers: range, *hashes: int, later: int = 0) -> Extra:
    """Further entries behind those of some records."""

    def extra(number: int, record: list[Entry]) -> list[Entry]:
        _, offset, time_diff = record[-1]
        more = [(key_hash, offset, time_diff + later) for key_hash in hashes] if number in numbers else []
        return [*record, *more]

    return extra


def test_many_regular_entries_are_one_note(extended: Extended) -> None:
    extended.put(behind(range(5, 15), STRANGE))
    result = extended.check()
    assert result.rules == set()
    finding = result.one("XR035")
    assert (finding.where.file, finding.where.entry) == ("index", None)
    assert (finding.found["entry_count"], finding.found["record_count"]) == (10, 10)
    assert (
        finding.found["entries_per_record_count"],
        finding.found["hash"],
        finding.found["hash_count"],
    ) == (1, STRANGE, 1)
    assert finding.found["first_physical_offset"] == extended.records()[5][0][1]
    assert set(unknown_areas(result.report.findings)) == {"index"}
    assert any(item.what == "index" and "not understood" in item.reason for item in result.report.not_checked)


def test_compiled_kernels_say_the_same(extended: Extended, monkeypatch: pytest.MonkeyPatch) -> None:
    extended.put(behind(range(5, 15), STRANGE))
    plain = extended.check().report.findings
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    assert jit.compiled_wanted(1)
    assert extended.check().report.findings == plain


def test_one_less_than_the_least_are_errors(extended: Extended) -> None:
    few = strangeentries.LEAST_RECORDS - 1
    extended.put(behind(range(5, 5 + few), STRANGE))
    result = extended.check()
    assert result.rules == {"XR024"}
    errors = result.of("XR024")
    assert [finding.found["hash"] for finding in errors] == [STRANGE] * few
    first = errors[0].where
    assert first.entry is not None
    assert extended.index.entry(first.entry)[:2] == (STRANGE, first.physical_offset)
    assert first.start == extended.index.pos(first.entry)
    assert "XR035" not in result.all_rules


@pytest.mark.parametrize("place", [0, 1], ids=["in front", "between"])
def test_entries_in_front_of_the_keys(extended: Extended, place: int) -> None:
    def extra(number: int, record: list[Entry]) -> list[Entry]:
        if not 5 <= number < 25 or len(record) < 2:
            return record
        return [*record[:place], (STRANGE + number, *record[0][1:]), *record[place:]]

    wanted = sum(len(record) > 1 for record in extended.records()[5:25])
    assert wanted >= strangeentries.LEAST_RECORDS
    extended.put(extra)
    result = extended.check()
    assert result.rules == set()
    assert result.one("XR035").found["entry_count"] == wanted


def test_another_number_is_an_error_beside_the_note(extended: Extended) -> None:
    usual, odd = behind(range(5, 25), STRANGE), behind(range(30, 31), STRANGE, STRANGE + 1)
    extended.put(lambda number, record: odd(number, usual(number, record)))
    result = extended.check()
    assert result.rules == {"XR024"}
    assert (result.one("XR024").count, result.one("XR035").found["record_count"]) == (2, 20)


def test_a_damaged_hash_beside_the_note(extended: Extended) -> None:
    extended.put(behind(range(5, 25), STRANGE))
    entry = extended.index.count - 1
    key_hash = extended.index.entry(entry)[0]
    extended.index.put(entry, key_hash=key_hash ^ 1)
    result = extended.check()
    assert "XR024" in result.rules
    finding = result.one("XR024")
    assert (finding.where.entry, finding.expected["hash"]) == (entry, key_hash)
    assert result.one("XR035").found["record_count"] == 20


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (behind(range(5, 25), STRANGE, later=3), "another time"),
        (behind(range(5, 25), -5), "no hash at all"),
        (
            lambda number, record: [(STRANGE, *item[1:]) if 5 <= number < 25 else item for item in record],
            "taken",
        ),
    ],
)
def test_what_does_not_agree_is_damage(extended: Extended, extra: Extra, why: str) -> None:
    extended.put(extra)
    result = extended.check()
    assert "XR024" in result.rules, why
    assert "XR035" not in result.all_rules


def test_too_many_odd_ones_among_them(extended: Extended) -> None:
    usual, odd = behind(range(5, 15), STRANGE), behind(range(20, 22), STRANGE, later=9)
    extended.put(lambda number, record: odd(number, usual(number, record)))
    result = extended.check()
    assert sum(finding.count for finding in result.of("XR024")) == 12
    assert "XR035" not in result.all_rules


def test_more_than_are_kept(extended: Extended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangeentries, "MAX_KEPT", 9)
    extended.put(behind(range(5, 25), STRANGE))
    found = extended.check().one("XR035").found
    assert (found["entry_count"], found["record_count"]) == (20, 9)


def test_a_long_run_is_no_feature(extended: Extended, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strangeentries, "RUN_LIMIT", 2)
    extended.put(behind(range(5, 25), STRANGE, STRANGE, STRANGE))
    result = extended.check()
    assert result.rules == {"XR024"}
    assert sum(finding.count for finding in result.of("XR024")) == 60


def test_a_run_of_entries_is_told_as_a_whole() -> None:
    """Mismatch 0 is a run over the records 5 and 6, mismatch 1 one over 6 and 7; 8 has one for itself."""
    number, row = np.array([0, 0, 1, 1, 2]), np.array([5, 6, 6, 7, 8])
    spoiled = np.array([True, False, False])
    found = strangeentries._spoil(spoiled, number, row, np.array([6, 7, 8]))
    assert (found.tolist(), spoiled.tolist()) == ([6, 7], [True, True, False])
    spoiled = np.array([False, False, True])  # nothing that another record shares
    assert not len(strangeentries._spoil(spoiled, number, row, np.array([5, 6, 7])))
    assert spoiled.tolist() == [False, False, True]


def test_hashes_are_taken_one_for_one_from_the_front() -> None:
    rows, keys = np.array([1, 1, 1, 2, 2]), np.array([7, 8, 7, 7, -9])
    wanted_rows, wanted_keys = np.array([1, 2, 2, 3]), np.array([7, -9, -9, 7])
    left, unmet = strangeentries.difference(rows, keys, wanted_rows, wanted_keys)
    assert left.tolist() == [False, True, True, True, False]
    assert unmet.tolist() == [False, False, True, True]


def test_only_so_many_entries_are_looked_at(extended: Extended, monkeypatch: pytest.MonkeyPatch) -> None:
    extended.put(behind(range(5, 25), STRANGE))
    monkeypatch.setattr(strangeentries, "LOOK_LIMIT", 12)
    result = extended.check()
    assert (len(result.of("XR024")), result.one("XR035").found["record_count"]) == (8, 12)
