"""Confidence, choice and places: tables of records without any file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.repair.carve.carve import COLUMNS, CarvedRecords
from rocketfsck.repair.carve.confidence import (
    LEVEL_POINTS,
    REASONS,
    Confidence,
    Level,
    Reason,
    judge,
    level_of,
    names_of,
)
from rocketfsck.repair.salvage.choose import (
    FATES,
    Fate,
    Placement,
    choose,
    fits_file,
    place_kept,
    place_packed,
)
from rocketfsck.scan.columns import Fault, Trait
from rocketfsck.scan.queues import QueueTable

FILE_SIZE = 1000
DEFAULTS: dict[str, int] = {"total_size": 100, "body_size": 5, "batch_size": 1, "store_timestamp": 1000}


def found_of(*rows: dict[str, Any]) -> CarvedRecords:
    """Records of these fields; `topic` and `queue_id` name the queue, `crc` differs unless it is given."""
    table = QueueTable()
    columns = {name: np.zeros(len(rows), kind) for name, kind in COLUMNS.items()}
    for number, row in enumerate(rows):
        values = DEFAULTS | {"crc": number + 1} | row
        topic = values.pop("topic", b"T")
        values["queue_index"] = table.intern(topic, values.pop("queue_id", 0))
        for name, value in values.items():
            columns[name][number] = value
    return CarvedRecords(columns, table)


def judged(found: CarvedRecords, *bases: int) -> Confidence:
    return judge(found, np.array(bases or (0,), np.int64))


def reasons(found: CarvedRecords, *bases: int) -> list[list[str]]:
    return [names_of(bits) for bits in judged(found, *bases).reasons.tolist()]


def fates(found: CarvedRecords, *, in_place: bool = True, level: Level = Level.MEDIUM) -> list[str]:
    chosen = choose(found, judged(found), level, in_place=in_place)
    return [FATES[Fate(fate)][0] for fate in chosen.tolist()]


def test_the_table_of_reasons_is_whole() -> None:
    assert [row.reason for row in REASONS] == list(Reason)
    assert len({row.name for row in REASONS}) == len(REASONS)
    assert set(FATES) == set(Fate)


def test_what_speaks_for_a_record() -> None:
    found = found_of(
        {"pos": 0, "physical_offset": 0},
        {"pos": 100, "physical_offset": 100},
        {"pos": 300, "physical_offset": 300, "body_size": 0, "traits": int(Trait.PROPERTY_CRC)},
        {"source": 1, "pos": 0, "physical_offset": 0, "crc": 1},
        {"source": 1, "pos": 500, "physical_offset": 7000},
    )
    assert reasons(found, 0, -1) == [
        ["frame", "plausible", "body-crc", "in-place", "adjoins", "copies"],
        ["frame", "plausible", "body-crc", "in-place", "adjoins"],
        ["frame", "plausible", "property-crc", "in-place"],
        ["frame", "plausible", "body-crc", "copies"],
        ["frame", "plausible", "body-crc"],
    ]
    assert reasons(found, 0, 0)[4] == ["frame", "plausible", "body-crc", "out-of-place"]
    assert judged(found, 0, -1).first_copy.tolist() == [0, 1, 2, 0, 4]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"faults": int(Fault.BODY_CRC)}, "body-crc-wrong"),
        ({"faults": int(Fault.BODY_CRC_NEGATIVE)}, "body-crc-wrong"),
        ({"faults": int(Fault.PROPERTY_CRC), "traits": int(Trait.PROPERTY_CRC)}, "property-crc-wrong"),
        ({"faults": int(Fault.PORT)}, "implausible"),
        ({"faults": int(Fault.PROPERTY_NUL)}, "implausible"),
        ({"physical_offset": -5}, "implausible"),
        ({"physical_offset": (1 << 63) - 1}, "implausible"),
    ],
)
def test_what_speaks_against_it_outweighs_the_rest(fields: dict[str, int], name: str) -> None:
    """Even in its place, between neighbours, found twice."""
    rows = [{"pos": 100 * n, "physical_offset": 100 * n} for n in range(3)]
    rows[1] |= {"crc": 9, **fields}
    found = found_of(*rows, {**rows[1], "source": 1, "crc": 9})
    confidence = judged(found, 0, 0)
    assert name in names_of(int(confidence.reasons[1]))
    assert level_of(int(confidence.points[1])) is Level.LOW
    assert level_of(int(confidence.points[0])) is Level.HIGH


def test_a_record_against_its_neighbours() -> None:
    rows = [{"pos": 100 * n, "physical_offset": 100 * n} for n in range(5)]
    rows[2]["physical_offset"] = 7777
    found = found_of(*rows)
    names = reasons(found, -1)
    assert "against-neighbours" in names[2]
    assert not any("against-neighbours" in names[n] for n in (0, 1, 3, 4))
    assert level_of(int(judged(found, -1).points[2])) is Level.LOW
    # a log that goes on from another offset is no contradiction
    rows[3]["physical_offset"], rows[4]["physical_offset"] = 7877, 7977
    assert not any("against-neighbours" in found for found in reasons(found_of(*rows), -1))


def test_levels() -> None:
    assert level_of(0) is Level.LOW
    assert level_of(LEVEL_POINTS[Level.MEDIUM]) is Level.MEDIUM
    assert level_of(LEVEL_POINTS[Level.HIGH] - 1) is Level.MEDIUM
    assert level_of(100) is Level.HIGH


def test_no_records_are_no_trouble() -> None:
    found = found_of()
    assert len(judged(found).points) == 0
    assert fates(found) == []
    placed = place_kept(found, np.zeros(0, np.int64), FILE_SIZE)
    assert isinstance(placed, Placement)
    assert placed.start_offset == 0
    assert len(place_packed(found, np.zeros(0, np.int64), FILE_SIZE).offsets) == 0


def test_of_copies_the_surest_is_taken() -> None:
    found = found_of(
        {"source": 1, "pos": 50, "physical_offset": 0, "crc": 5},
        {"source": 0, "pos": 0, "physical_offset": 0, "crc": 5},
        {"source": 1, "pos": 500, "physical_offset": 0, "crc": 6, "faults": int(Fault.BODY_CRC)},
    )
    chosen = choose(found, judged(found, 0, -1), Level.MEDIUM, in_place=True)
    assert chosen.tolist() == [Fate.COPY, Fate.TAKEN, Fate.DAMAGED_COPY]


def test_unsure_ones_are_left() -> None:
    found = found_of({"physical_offset": 0, "faults": int(Fault.BODY_CRC)})
    assert fates(found) == ["unsure"]
    assert fates(found, level=Level.LOW) == ["taken"]


def test_an_earlier_life_of_the_log_is_left() -> None:
    """Queue offsets 3 to 5 were given out again at later times, before the old ones in the log."""
    times = [*range(0, 300, 100), 900, 1000, 1100]
    rows = [
        {"physical_offset": 100 * n, "queue_offset": n, "store_timestamp": time, "pos": 100 * n}
        for n, time in enumerate(times)
    ]
    old = [
        {
            "physical_offset": 600 + 100 * n,
            "queue_offset": 4 + n,
            "store_timestamp": 400 + n,
            "pos": 600 + 100 * n,
        }
        for n in range(4)
    ]
    assert fates(found_of(*rows, *old)) == ["taken"] * 6 + ["earlier-life"] * 2 + ["taken"] * 2


def test_numbers_given_again_by_a_broker_with_a_short_queue_are_both_kept() -> None:
    rows = [
        {"physical_offset": 100 * n, "queue_offset": offset, "store_timestamp": 100 * n, "pos": 100 * n}
        for n, offset in enumerate((0, 1, 2, 1, 2))
    ]
    assert fates(found_of(*rows)) == ["taken"] * 5


def test_rolled_back_records_repeat_no_queue_offset() -> None:
    rows = [
        {"physical_offset": 100 * n, "sys_flag": 0xC, "store_timestamp": 500 - n, "pos": 100 * n}
        for n in range(3)
    ]
    assert fates(found_of(*rows)) == ["taken"] * 3


def test_filler_of_an_earlier_repair_is_no_record() -> None:
    fence = {"topic": b"rocketfsck_fence", "sys_flag": 0xC, "crc": 3}
    found = found_of(
        {"physical_offset": 0, **fence},
        {"physical_offset": 100, "topic": b"rocke", "sys_flag": 0xC, "body_size": 0, "queue_id": 4},
        {"physical_offset": 200, "topic": b"rocketfsck_fence", "queue_id": 3},
        {"physical_offset": 300, "topic": b"rocke", "sys_flag": 0xC, "queue_id": 4},
        {"physical_offset": 0, "source": 1, **fence},
    )
    chosen = choose(found, judged(found, 0, 0), Level.MEDIUM, in_place=True)
    assert [Fate(fate) for fate in chosen.tolist()] == [
        Fate.FENCE, Fate.FENCE, Fate.TAKEN, Fate.TAKEN, Fate.FENCE,
    ]  # fmt: skip


def test_of_records_that_overlap_the_surer_then_the_newer_stays() -> None:
    found = found_of(
        {"physical_offset": 0, "queue_id": 0},
        {"physical_offset": 50, "queue_id": 1, "traits": int(Trait.PROPERTY_CRC), "source": 1},
        {"physical_offset": 120, "queue_id": 2, "source": 1, "pos": 300},
        {"physical_offset": 400, "queue_id": 3, "store_timestamp": 5, "source": 1, "pos": 600},
        {"physical_offset": 410, "queue_id": 4, "store_timestamp": 6, "source": 1, "pos": 900},
        {"physical_offset": 510, "queue_id": 5, "source": 1, "pos": 1200},
    )
    confidence = judged(found, -1, -1)
    chosen = choose(found, confidence, Level.MEDIUM, in_place=True)
    assert [FATES[Fate(fate)][0] for fate in chosen.tolist()] == [
        "overlapped", "taken", "overlapped", "overlapped", "taken", "taken",
    ]  # fmt: skip
    assert set(choose(found, confidence, Level.MEDIUM, in_place=False).tolist()) == {Fate.TAKEN}


def rows_at(*offsets: int, size: int = 100) -> CarvedRecords:
    return found_of(*({"physical_offset": offset, "total_size": size} for offset in offsets))


def kept(found: CarvedRecords) -> Placement:
    placed = place_kept(found, np.arange(len(found)), FILE_SIZE)
    assert isinstance(placed, Placement), placed
    return placed


def test_records_keep_their_places() -> None:
    placed = kept(rows_at(100, 0, 300, 2400, 4000))
    assert placed.offsets.tolist() == [0, 100, 300, 2400, 4000]
    assert placed.rows.tolist() == [1, 0, 2, 3, 4]
    assert placed.fences == ((200, 300), (1000, 1992), (2000, 2400), (3000, 3992))
    assert placed.blanks == ((400, 1000), (1992, 2000), (2500, 3000), (3992, 4000))


def test_a_log_that_begins_inside_a_file_is_fenced_from_its_start() -> None:
    placed = kept(rows_at(5300))
    assert placed.start_offset == 5000
    assert placed.fences == ((5000, 5300),)


@pytest.mark.parametrize(
    ("offsets", "why"),
    [
        ((0, 191), "too small for a filler record"),
        ((50,), "too small for a filler record"),
        ((950,), "does not fit into one file"),
        ((893,), "does not fit into one file"),
        ((0, 10_000_000), "empty files"),
    ],
)
def test_what_cannot_keep_its_place(offsets: tuple[int, ...], why: str) -> None:
    placed = place_kept(rows_at(*offsets), np.arange(len(offsets)), FILE_SIZE)
    assert isinstance(placed, str)
    assert why in placed


def test_packed_records_follow_each_other() -> None:
    found = rows_at(*range(50_000, 52_000, 100), size=300)
    placed = place_packed(found, np.arange(20), FILE_SIZE)
    assert placed.offsets.tolist()[:4] == [1000, 1300, 1600, 2000]
    assert placed.blanks[0] == (1900, 2000)
    assert placed.fences == ()


@given(st.lists(st.tuples(st.integers(91, 992), st.integers(0, 3), st.integers(0, 9)), max_size=40))
def test_packed_records_never_overlap_or_leave_their_file(items: list[tuple[int, int, int]]) -> None:
    following = [0] * 4
    rows = []
    for number, (size, queue, skipped) in enumerate(items):
        following[queue] += skipped
        rows.append(
            {
                "physical_offset": 10_000 * number,
                "total_size": size,
                "queue_id": queue,
                "queue_offset": following[queue],
            }
        )
        following[queue] += 1
    found = found_of(*rows)
    placed = place_packed(found, np.arange(len(rows)), FILE_SIZE)
    ranges = [
        *zip(
            placed.offsets.tolist(), (placed.offsets + found["total_size"][placed.rows]).tolist(), strict=True
        ),
        *placed.fences,
        *placed.blanks,
    ]
    ranges.sort()
    reached = FILE_SIZE
    for low, high in ranges:
        assert low == reached
        assert high > low
        assert low // FILE_SIZE == (high - 1) // FILE_SIZE
        reached = high
    assert all(high - low >= 112 for low, high in placed.fences)
    assert all(high % FILE_SIZE == 0 and high - low >= 8 for low, high in placed.blanks)
    # what a queue misses had room
    last: dict[int, tuple[int, int]] = {}
    for row, offset in zip(placed.rows.tolist(), placed.offsets.tolist(), strict=True):
        queue = int(found["queue_index"][row])
        number = int(found["queue_offset"][row])
        if queue in last:
            end, before = last[queue]
            assert offset - end >= 91 * (number - before - 1)
        last[queue] = (offset + int(found["total_size"][row]), number)


def test_a_jump_that_no_log_explains_gets_no_room() -> None:
    found = found_of({"physical_offset": 0}, {"physical_offset": 100, "queue_offset": 1 << 40})
    assert place_packed(found, np.arange(2), FILE_SIZE).fences == ()


def test_what_a_file_can_hold() -> None:
    found = found_of({"total_size": 992}, {"total_size": 993}, {"total_size": 91})
    assert fits_file(found, FILE_SIZE).tolist() == [0, 2]
