"""The rules ST of segment chains: gaps, overlaps, twins, alignment, zeros."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.store.segments import check_segments
from rocketfsck.verify.tasks.task import Context, Known

from tests.unit.verify.storemaker import (
    LOG_SIZE,
    NOW,
    QUEUE_SIZE,
    Maker,
    knowing,
    log_facts,
    queue_facts,
    rules,
)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


def test_st010_a_missing_segment_is_a_gap_of_its_size(maker: Maker) -> None:
    maker.log(LOG_SIZE)  # expiry removes segments from the front: no gap
    maker.log(2 * LOG_SIZE)
    assert maker.found(check_segments) == []
    maker.log(5 * LOG_SIZE)
    (finding,) = maker.found(check_segments)
    assert (finding.rule, finding.where.file) == ("ST010", "commitlog/00000000000000020480")
    assert finding.found["missing_byte_count"] == 2 * LOG_SIZE
    assert finding.found["first_file"] == "00000000000000012288"
    assert finding.found["last_file"] == "00000000000000016384"


def test_st010_not_between_files_of_another_length_than_configured(maker: Maker) -> None:
    for number in range(3):
        maker.log(2 * LOG_SIZE * number, size=2 * LOG_SIZE)
    assert rules(maker.found(check_segments)) == ["ST001"] * 3
    maker.log(10 * LOG_SIZE, size=2 * LOG_SIZE)
    assert rules(maker.found(check_segments)) == ["ST001"] * 4 + ["ST010"]


@pytest.mark.parametrize(("end", "expected"), [
    (LOG_SIZE, ["ST015"]),  # of two files made ahead, the later one is left
    (LOG_SIZE + 1, ["ST010", "ST015"]),  # a unit leads into the file that is missing
])  # fmt: skip
def test_st010_before_files_made_ahead_only_where_a_unit_leads(
    maker: Maker, end: int, expected: list[str]
) -> None:
    maker.log(0)
    maker.log(2 * LOG_SIZE, stored=None)
    logs = (log_facts(0), log_facts(2 * LOG_SIZE, all_zero=True))
    assert rules(maker.found(check_segments, knowing(queue_facts("T", 0, 0, 3, end=end), logs=logs))) == (
        expected
    )
    assert rules(maker.found(check_segments)) == ["ST010", "ST015"]  # the units are not known


def test_st010_in_queues_extensions_and_the_timer_log(maker: Maker) -> None:
    maker.log(0)
    maker.queue("T", 3)
    maker.queue("T", 3, 2 * QUEUE_SIZE)
    for start in ("00000000000000000000", "00000000000000008192"):
        maker.file(f"timerlog/{start}", b"\1", 4096)
        maker.file(f"consumequeue_ext/T/3/{start}", b"\1", 4096)
    found = maker.found(check_segments, version="5.1.3")
    assert rules(found) == ["ST010"] * 3
    assert [finding.found["area"] for finding in found] == ["consumequeue", "consumequeue_ext", "timerlog"]


def test_st011_overlapping_segments(maker: Maker) -> None:
    maker.log(0)
    maker.log(LOG_SIZE // 2)
    found = maker.found(check_segments)
    assert rules(found) == ["ST013", "ST011"]
    assert found[1].expected == {"start_offset": LOG_SIZE}


def test_st012_the_same_segment_on_two_paths(maker: Maker, tmp_path: Path) -> None:
    maker.log(0)
    other = tmp_path / "second"
    other.mkdir()
    (other / "00000000000000000000").write_bytes(bytes(LOG_SIZE))
    (other / "00000000000000004096").write_bytes(bytes(LOG_SIZE))
    store = open_store(
        maker.root,
        broker_conf=maker.conf,
        version="4.9.8",
        commitlog_paths=[maker.root / "commitlog", other],
    )
    found = [f for f in check_segments(Context(store, "quick", NOW), Known()) if isinstance(f, Finding)]
    assert [finding.rule for finding in found].count("ST012") == 1
    twin = next(finding for finding in found if finding.rule == "ST012")
    assert twin.found["zero_file_count"] == 1
    assert {str(twin.found["twin"]), twin.where.file} == {
        "commitlog/00000000000000000000",
        str(other / "00000000000000000000"),
    }


def test_st013_alignment_is_told_once_for_all_that_follow(maker: Maker) -> None:
    for number in range(3):
        maker.log(100 + number * LOG_SIZE)
    (finding,) = maker.found(check_segments)
    assert (finding.rule, finding.found["start_offset"]) == ("ST013", 100)


def test_st014_a_queue_file_begins_with_a_whole_unit(maker: Maker) -> None:
    maker.queue("T", 0, 7)
    (finding,) = maker.found(check_segments)
    assert (finding.rule, finding.expected["multiple"]) == ("ST014", 20)
    maker.queue("U", 0, 20)
    assert rules(maker.found(check_segments)) == ["ST014", "ST013"]


def test_st015_two_files_may_be_allocated_ahead(maker: Maker) -> None:
    maker.log(0, stored=None)
    assert maker.found(check_segments) == []  # a store that was never written to
    maker.log(0)
    maker.log(LOG_SIZE, stored=None)
    maker.log(2 * LOG_SIZE, stored=None)
    assert rules(maker.found(check_segments)) == ["ST015", "ST015"]


def test_st016_three_zero_files_are_not_allocation(maker: Maker) -> None:
    maker.log(0)
    for number in (1, 2, 3):
        maker.log(number * LOG_SIZE, stored=None)
    (finding,) = maker.found(check_segments)
    assert (finding.rule, finding.found["file_count"]) == ("ST016", 3)
    assert finding.where.file == "commitlog/00000000000000004096"


def test_st017_zeros_between_segments_with_data(maker: Maker) -> None:
    maker.log(0)
    maker.log(LOG_SIZE, stored=None)
    maker.log(2 * LOG_SIZE)
    (finding,) = maker.found(check_segments)
    assert (finding.rule, finding.where.file) == ("ST017", "commitlog/00000000000000004096")
    assert finding.where.physical_offset == LOG_SIZE


def test_what_the_scan_knows_of_zeros_counts_more_than_the_first_page(maker: Maker) -> None:
    maker.log(0)
    maker.file("commitlog/00000000000000004096", bytes(LOG_SIZE - 1) + b"\1")
    known = knowing(logs=(log_facts(0), log_facts(LOG_SIZE)))
    assert maker.found(check_segments, known) == []
    assert rules(
        maker.found(check_segments, knowing(logs=(log_facts(0), log_facts(LOG_SIZE, all_zero=True))))
    ) == ["ST015"]


def test_a_segment_that_cannot_be_read_is_said_and_the_rest_goes_on(maker: Maker) -> None:
    maker.log(0)
    maker.log(LOG_SIZE)
    maker.log(3 * LOG_SIZE)
    store = maker.open()
    (maker.root / "commitlog/00000000000000004096").unlink()
    items = list(check_segments(Context(store, "quick", NOW), Known()))
    assert [item.rule for item in items if isinstance(item, Finding)] == ["ST010"]
    (left_out,) = [item for item in items if isinstance(item, NotChecked)]
    assert left_out.operational
    assert left_out.what == "commitlog/00000000000000004096"
