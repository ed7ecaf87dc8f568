"""The model of a consume queue: recovery, truncation, minimum, appends."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.dialect import dialect_for
from rocketfsck.query.start.load import LoadedFile, LoadedQueue
from rocketfsck.query.start.queues import AppendedColumns, QueueModel, StartFailedError
from rocketfsck.store.model import QueueKind

FILE_SIZE = 100  # five units
BLANK = (0, (1 << 31) - 1)
ZERO = (0, 0)


def queue(
    root: Path,
    *files: list[tuple[int, int]],
    start: int = 0,
    version: str = "5.3.3",
    kind: QueueKind = "file",
    file_size: int = FILE_SIZE,
) -> QueueModel:
    """A queue whose files hold units (offset, size), filled with zeros; of 46 bytes with base = number."""
    root.mkdir(exist_ok=True)
    opened = []
    for number, units in enumerate(files):
        offset = start + number * file_size
        path = root / f"{offset:020d}"
        if kind == "file":
            data = b"".join(struct.pack(">qiq", *unit, 0) for unit in units)
        else:
            data = b"".join(
                struct.pack(">qiqqqhii", *unit, 0, 0, 3 * place, 3, -1, 0) for place, unit in enumerate(units)
            )
        path.write_bytes(data.ljust(file_size, b"\0"))
        opened.append(LoadedFile(str(path), f"q/{path.name}", offset, file_size, file_size))
    return QueueModel(LoadedQueue("T", 0, kind, "q", file_size, opened), dialect_for(version))


def units(first: int, *offsets: int) -> AppendedColumns:
    count = len(offsets)
    return AppendedColumns(
        np.arange(first, first + count),
        np.array(offsets, np.int64),
        np.full(count, 10, np.int64),
        np.zeros(count, np.int64),
    )


def run(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, 10) for offset in offsets]


@pytest.mark.parametrize(("version", "last"), [("4.4.0", 60), ("4.5.1", 70)])
def test_recovery_ends_at_the_first_invalid_unit(version: str, last: int, tmp_path: Path) -> None:
    found = queue(
        tmp_path, run(0, 10, 20, 30, 40), [(50, 10), (60, 10), ZERO, (80, 10)], run(90), version=version
    )
    found.recover()
    assert (found.end_pos, found.max_offset, found.max_physic_offset) == (140, 7, last)
    assert [file.start_offset for file in found.files] == [0, 100]
    assert (found.found_count, found.hidden_count) == (7, 2)
    assert found.covered_offset == 60


def test_only_three_files_are_looked_into(tmp_path: Path) -> None:
    holed = [ZERO, *run(10, 20, 30, 40)]
    found = queue(tmp_path, holed, run(50, 60, 70, 80, 90), run(100, 110, 120, 130, 140), run(150))
    found.recover()
    assert (found.max_offset, found.found_count) == (16, 16)


def test_a_queue_without_files(tmp_path: Path) -> None:
    found = queue(tmp_path)
    found.recover()
    found.truncate(50)
    found.correct_min(10)
    assert (found.min_offset, found.max_offset, found.max_physic_offset) == (0, 0, 50)


def test_truncation_drops_what_is_behind_the_cut(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40), run(50, 60, 70))
    found.recover()
    found.truncate(45)
    assert [file.start_offset for file in found.files] == [0]
    assert (found.max_offset, found.max_physic_offset, found.cut_count) == (5, 50, 3)
    assert (found.covered_offset, found.covered_before) == (40, 70)
    found.truncate(20)
    assert (found.max_offset, found.max_physic_offset, found.cut_count) == (2, 20, 6)


def test_truncation_that_leaves_nothing_counts_from_the_cut(tmp_path: Path) -> None:
    for version, left in (("4.4.0", 29), ("4.9.8", 30)):
        found = queue(tmp_path / version, run(40, 50), version=version)
        found.recover()
        found.truncate(30)
        assert (found.files, found.max_physic_offset, found.covered_offset) == ([], left, -1)
        assert found.cut_count == 2


def test_the_first_unit_of_the_last_file_stays_whatever_it_is(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40), [])
    found.recover()
    assert (found.max_offset, found.files[-1].wrote_pos) == (5, 0)
    found.truncate(35)
    assert (found.max_offset, found.max_physic_offset) == (6, 0)  # a unit of zeros


def test_files_of_one_unit_are_truncated_for_ever(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0), run(10), file_size=20)
    found.recover()
    with pytest.raises(StartFailedError, match="never ends") as caught:
        found.truncate(5)
    assert caught.value.file.endswith("0" * 20)


def test_appended_units_survive_a_truncation_that_reads_the_disk(tmp_path: Path) -> None:
    stale = [(0, 10), (10, 10), ZERO, (900, 10), (910, 10)]
    found = queue(tmp_path / "a", stale)
    found.recover()
    found.append(units(2, 20, 30))
    found.truncate(100)
    assert (found.max_offset, found.max_physic_offset, found.cut_count) == (4, 40, 0)
    # behind what was appended the disk is read again: a unit that is valid comes back
    found = queue(tmp_path / "b", [(0, 10), (10, 10), ZERO, (5, 10), ZERO])
    found.recover()
    found.append(units(2, 20))
    found.truncate(100)
    assert (found.max_offset, found.max_physic_offset) == (4, 15)


def test_appended_files_survive_too(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40))
    found.recover()
    found.append(units(5, 50, 60))
    assert [file.relative for file in found.files] == ["q/" + "0" * 20, "q/" + f"{100:020d}"]
    found.truncate(100)
    assert (found.max_offset, found.max_physic_offset, found.added_count) == (7, 70, 2)
    empty = queue(tmp_path / "e", run(0, 10, 20, 30, 40), [])
    empty.recover()
    empty.append(units(5, 50))
    empty.truncate(100)
    assert (empty.max_offset, empty.max_physic_offset) == (6, 60)


def test_what_is_appended_at_another_place_is_counted(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10))
    found.recover()
    found.append(units(4, 20, 30))
    assert (found.shifted_count, found.max_offset) == (2, 4)


def test_a_new_queue_begins_with_blank_units(tmp_path: Path) -> None:
    found = queue(tmp_path)
    found.append(units(7, 500))
    assert [file.start_offset for file in found.files] == [100]
    assert (found.min_offset, found.max_offset, found.shifted_count) == (7, 8, 0)
    found.correct_min(0)
    assert found.min_offset == 7
    older = queue(tmp_path, version="4.9.8")
    older.append(units(7, 500))
    older.correct_min(400)
    assert older.min_offset == 7
    older.correct_min(0)
    assert older.min_offset == 5  # blank units count


@pytest.mark.parametrize(
    ("version", "least", "expected"),
    [
        ("4.9.8", 25, 3),
        ("5.3.3", 25, 3),
        ("4.9.8", 0, 0),
        ("5.3.3", 0, 0),
        ("4.9.8", 30, 3),
        ("5.3.3", 30, 3),
    ],
)
def test_the_minimum_is_the_first_live_unit(version: str, least: int, expected: int, tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40), run(50, 60), version=version)
    found.recover()
    found.correct_min(least)
    assert found.min_offset == expected


def test_the_minimum_of_a_queue_without_live_units(tmp_path: Path) -> None:
    for version, expected in (("4.9.8", 0), ("5.3.3", 2)):
        found = queue(tmp_path / version, run(0, 10), version=version)
        found.recover()
        found.correct_min(1000)
        assert found.min_offset == expected


def test_the_search_begins_at_the_first_file(tmp_path: Path) -> None:
    found = queue(tmp_path, run(100, 110, 120, 130, 140), run(150), start=200)
    found.recover()
    found.correct_min(125)
    assert found.min_offset == 13
    found.correct_min(130)  # from where it is
    assert found.min_offset == 13
    found.correct_min(145)
    assert found.min_offset == 13  # nothing in the first file


def test_units_that_are_not_in_order_mislead_the_search(tmp_path: Path) -> None:
    found = queue(tmp_path, run(90, 10, 20, 30, 99), start=100)
    found.recover()
    found.correct_min(50)
    assert found.min_offset == 9


def test_appended_units_are_live(tmp_path: Path) -> None:
    for version in ("4.9.8", "5.3.3"):
        found = queue(tmp_path / version, run(0, 10), version=version, start=100)
        found.recover()
        found.append(units(7, 60))
        found.correct_min(50)
        assert found.min_offset == 7


@pytest.mark.parametrize("version", ["5.0.0", "5.3.3"])
def test_an_empty_last_file_stops_the_start(version: str, tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40), [], version=version)
    found.recover()
    with pytest.raises(StartFailedError, match="IllegalArgumentException") as caught:
        found.correct_min(0)
    assert caught.value.file == f"q/{100:020d}"


def test_an_empty_file_is_no_matter_where_it_is_the_only_one_or_the_version_is_old(tmp_path: Path) -> None:
    alone = queue(tmp_path / "a", [])
    older = queue(tmp_path / "b", run(0, 10, 20, 30, 40), [], version="4.9.8")
    for found in (alone, older):
        found.recover()
        found.correct_min(0)
        assert found.min_offset == 0


def test_a_queue_that_is_destroyed(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10, 20, 30, 40), run(50))
    found.recover()
    found.destroy()
    assert (found.max_offset, found.cut_count, found.max_physic_offset) == (0, 6, -1)
    assert found.covered_before == 50


def test_a_batch_queue_has_its_bounds_from_its_units(tmp_path: Path) -> None:
    found = queue(tmp_path, run(0, 10), kind="batch", file_size=46 * 4)
    found.recover()
    assert (found.min_offset, found.max_offset, found.max_physic_offset) == (0, 6, 10)
    found.correct_min(5)
    assert found.min_offset == 3
    found.correct_min(50)
    assert found.min_offset == 3
    found.truncate(10)
    assert (found.max_offset, found.max_physic_offset) == (3, 0)
    fresh = queue(tmp_path, kind="batch")
    fresh.append(units(9, 70))
    fresh.correct_min(0)
    assert [file.start_offset for file in fresh.files] == [0]


def test_a_cut_file_of_zeros_hides_nothing_of_the_files_before_it(tmp_path: Path) -> None:
    """Its first unit is kept, and leads nowhere: what the file before it leads to is covered."""
    model = queue(tmp_path / "q", run(10, 20, 30, 40, 50), [ZERO])
    model.recover()
    model.truncate(100)
    assert model.max_offset == 6 and model.phantom_count == 1
    assert model.covered_offset == model.covered_before == 50
