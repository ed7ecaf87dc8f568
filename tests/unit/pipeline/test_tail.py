"""Places in a live log: what is complete, what is in doubt, what is lost, and where reading begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.record import Blank, encode_blank
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.pipeline.tail.log import advance, latest_place
from rocketfsck.pipeline.tail.place import (
    BEGINNING,
    DataLossError,
    Log,
    LogPlace,
    list_files,
    log_of,
    read_place,
)
from rocketfsck.pipeline.tail.reading import place_at_offset, place_at_timestamp, ranges_between
from rocketfsck.pipeline.tail.walk import LOOK_AHEAD_SIZE, WalkBounds
from rocketfsck.store import open_store
from rocketfsck.store.model import MappedFile

from tests.conftest import Directory
from tests.unit.pipeline.growing import (
    FILE_SIZE,
    Found,
    Stream,
    Writer,
    new_log,
    new_record,
    read_between,
    stream_of,
)

START = 1_700_000_000_000


def _written(directory: Path, stream: Stream, *, preallocated: bool = True) -> Writer:
    writer = Writer(directory, stream, preallocated)
    writer.write_to(stream.size)
    return writer


def _log(directory: Path, **options: int) -> Log:
    return Log("broker-a", (directory,), FILE_SIZE, **options)  # type: ignore[arg-type]


def _patch(writer: Writer, offset: int, data: bytes) -> None:
    path = writer.path_of(offset - offset % FILE_SIZE)
    with path.open("r+b") as file:
        file.seek(offset % FILE_SIZE)
        file.write(data)


def _end(item: tuple[int, bytes]) -> int:
    return item[0] + len(item[1])


def test_a_log_without_files_waits(tmp_path: Path) -> None:
    for log in (_log(tmp_path), _log(tmp_path / "not-there-yet")):
        assert advance(log, BEGINNING) == BEGINNING == latest_place(log)
        assert advance(log, LogPlace(0)) == LogPlace(0)
        assert place_at_timestamp(log, START) == BEGINNING
    (tmp_path / offset_to_filename(0)).touch()
    assert advance(_log(tmp_path), BEGINNING) == BEGINNING


def test_a_log_that_does_not_begin_at_0(tmp_path: Path) -> None:
    stream = new_log([100] * 3, first=5 * FILE_SIZE)
    _written(tmp_path, stream)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    assert place.offset == _end(stream.records[-1])
    assert place.resumed_offset == 5 * FILE_SIZE
    assert read_between(log, BEGINNING, place) == stream.records


def test_what_is_no_file_of_the_log_is_passed_over(tmp_path: Path) -> None:
    stream = new_log([100])
    _written(tmp_path, stream, preallocated=False)
    for name in (".hidden", "00000000000000004096.tmp", "99999999999999999999"):
        (tmp_path / name).write_bytes(b"x" * 200)
    (tmp_path / offset_to_filename(FILE_SIZE)).mkdir()
    assert advance(_log(tmp_path), BEGINNING).offset == _end(stream.records[-1])


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir(mode=0o000)
    (tmp_path / offset_to_filename(0)).symlink_to("/dev/null")
    assert advance(_log(tmp_path), BEGINNING) == BEGINNING


def test_blank_is_passed_only_when_the_next_file_has_begun(tmp_path: Path) -> None:
    """A broker that finds no next file when it starts writes over the BLANK."""
    stream = new_log([3000, 790, 500])
    _, second, third = stream.records
    assert third[0] == FILE_SIZE
    writer = Writer(tmp_path, stream, False)
    writer.write_to(FILE_SIZE)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    assert (place.offset, place.clear_offset) == (_end(second), FILE_SIZE)
    writer.path_of(FILE_SIZE).write_bytes(bytes(FILE_SIZE))
    assert advance(log, place) == place
    small = new_record(place.offset, 2, START + 5000, b"")
    _patch(writer, place.offset, small)
    over = advance(log, place)
    assert read_between(log, place, over) == [(place.offset, small)]
    _patch(writer, place.offset, stream.pieces[2][1])
    writer.write_to(stream.size)
    reached = advance(log, place)
    assert read_between(log, place, reached) == [third]
    assert reached.offset == _end(third)


def test_an_expired_file_of_which_only_the_blank_was_left_is_no_loss(tmp_path: Path) -> None:
    stream = new_log([3000, 790, 500])
    writer = Writer(tmp_path, stream, True)
    writer.write_to(FILE_SIZE)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    writer.write_to(stream.size)
    writer.delete_first()
    reached = advance(log, place)
    assert read_between(log, place, reached) == stream.records[2:]
    assert reached.lost_size == 0


def test_expired_files(tmp_path: Path) -> None:
    stream = new_log([1000] * 8)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)
    place = advance(log, BEGINNING, WalkBounds(max_count=1))
    writer.delete_first()
    with pytest.raises(
        DataLossError, match=rf"now begins at offset 4096: bytes {place.offset} to 4096"
    ) as said:
        advance(log, place)
    assert (said.value.kind, said.value.path) == ("expired", "broker-a")
    reached = advance(log, place, fail_on_data_loss=False)
    assert (reached.lost_size, reached.resumed_offset) == (FILE_SIZE - place.offset, FILE_SIZE)
    assert read_between(log, place, reached) == [item for item in stream.records if item[0] >= FILE_SIZE]
    writer.delete_first()
    with pytest.raises(DataLossError, match="deleted after the batch was planned"):
        read_between(log, place, reached)
    left = read_between(log, place, reached, fail_on_data_loss=False)
    assert left == [item for item in stream.records if item[0] >= 2 * FILE_SIZE]


def test_a_file_is_missing_in_the_middle(tmp_path: Path) -> None:
    stream = new_log([1000] * 8)
    writer = _written(tmp_path, stream)
    writer.path_of(FILE_SIZE).unlink()
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    assert place.offset == FILE_SIZE
    with pytest.raises(DataLossError, match="bytes 4096 to 8192 of the log are missing") as said:
        advance(log, place)
    assert said.value.kind == "missing"
    reached = advance(log, place, fail_on_data_loss=False)
    assert reached.lost_size == FILE_SIZE
    assert read_between(log, place, reached) == [item for item in stream.records if item[0] >= 2 * FILE_SIZE]
    assert advance(log, LogPlace(FILE_SIZE + 5), fail_on_data_loss=False).lost_size == FILE_SIZE - 5


def test_planned_bytes_vanish_in_the_middle(tmp_path: Path) -> None:
    stream = new_log([1000] * 11)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    writer.path_of(FILE_SIZE).unlink()
    with pytest.raises(DataLossError, match="bytes 4096 to 8192") as said:
        ranges_between(log, BEGINNING, place)
    assert said.value.kind == "missing"


def test_a_copy_without_the_zeros_behind_its_blank(tmp_path: Path) -> None:
    stream = new_log([1000] * 6)
    writer = _written(tmp_path, stream)
    path = writer.path_of(0)
    blank = next(offset for offset, data in stream.pieces if data[4:8] == encode_blank(Blank(8))[4:8])
    with path.open("r+b") as file:
        file.truncate(blank + 8)
    log = _log(tmp_path)
    assert read_between(log, BEGINNING, advance(log, BEGINNING)) == stream.records
    found, place = Found(), BEGINNING
    while (reached := advance(log, place, WalkBounds(max_count=1))) != place:
        found += read_between(log, place, reached)
        place = reached
    assert found == stream.records
    with path.open("r+b") as file:
        file.truncate(blank)
    with pytest.raises(DataLossError, match=f"bytes {blank} to 4096"):
        advance(log, advance(log, BEGINNING))


def test_damage_in_the_middle_is_passed_once_the_log_goes_on(tmp_path: Path) -> None:
    stream = new_log([200] * 5)
    writer = Writer(tmp_path, stream, True)
    writer.write_to(stream.end_of(2))
    third = stream.records[2]
    _patch(writer, third[0], b"\xff" * len(third[1]))
    log = _log(tmp_path)
    assert advance(log, BEGINNING).offset == stream.records[1][0]
    os.utime(writer.path_of(0), (1e9, 1e9))
    place = advance(log, BEGINNING)
    assert place.offset == third[0]
    writer.write_to(stream.end_of(3) - 1)
    assert advance(log, place) == place
    writer.write_to(stream.size)
    reached = advance(log, place)
    assert reached.offset == _end(stream.records[-1])
    assert reached.lost_size == 0
    for bounds in (WalkBounds(max_size=1), WalkBounds(max_count=1)):
        at = place
        while (step := advance(log, at, bounds)) != at:
            assert step.offset in [place.offset, stream.records[3][0], *map(_end, stream.records)]
            at = step
        assert at.offset == reached.offset
    assert advance(log, place, WalkBounds(until_offset=stream.records[3][0] - 1)) == place


def test_damage_up_to_the_next_file(tmp_path: Path) -> None:
    stream = new_log([1000] * 6)
    writer = Writer(tmp_path, stream, True)
    writer.write_to(FILE_SIZE)
    third = stream.records[2]
    _patch(writer, third[0], bytes(FILE_SIZE - third[0]))
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    assert place.offset == third[0]
    writer.write_to(stream.size)
    for bounds in (WalkBounds(), WalkBounds(max_count=1), WalkBounds(max_size=1)):
        at = place
        while (reached := advance(log, at, bounds)) != at:
            at = reached
        assert at.offset == _end(stream.records[-1])


def test_a_wrong_body_waits_as_long_as_it_is_the_last(tmp_path: Path) -> None:
    stream = new_log([200] * 3)
    writer = Writer(tmp_path, stream, True)
    writer.write_to(stream.end_of(1))
    _patch(writer, _end(stream.records[1]) - 30, b"\xff")
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    assert place.offset == stream.records[1][0]
    writer.write_to(stream.size)
    assert advance(log, place).offset == _end(stream.records[2])


@pytest.mark.parametrize("size", [2, 20, 3000])
def test_bodies_of_all_sizes_are_checked(tmp_path: Path, size: int) -> None:
    stream = new_log([0, size])
    writer = _written(tmp_path, stream)
    offset, record = stream.records[1]
    _patch(writer, offset + record.index(b"B" * size) + size - 1, b"C")
    assert advance(_log(tmp_path), BEGINNING).offset == offset


def test_a_large_body_is_checked(tmp_path: Path) -> None:
    record = new_record(0, 0, START, b"x" * 200_000)
    path = tmp_path / offset_to_filename(0)
    path.write_bytes(record + bytes(1000))
    log = Log("b", (tmp_path,), 1 << 20)
    assert advance(log, BEGINNING).offset == len(record)
    path.write_bytes(record[:150_000] + b"y" + record[150_001:] + bytes(1000))
    assert advance(log, BEGINNING).offset == 0


def test_zeros_farther_than_is_looked_wait_for_the_next_file(tmp_path: Path) -> None:
    size = LOOK_AHEAD_SIZE + (1 << 20)
    far = new_record(size - 4096, 1, START + 10, b"far")
    path = tmp_path / offset_to_filename(0)
    with path.open("wb") as file:
        file.write(new_record(0, 0, START, b"near"))
        file.seek(size - 4096)
        file.write(far)
        file.truncate(size)
    log = Log("b", (tmp_path,), size)
    place = advance(log, BEGINNING)
    assert place.offset < 1000
    (tmp_path / offset_to_filename(size)).write_bytes(new_record(size, 2, START + 20, b"next"))
    assert advance(log, place).offset > size
    assert advance(log, place, WalkBounds(max_size=size - place.offset)).offset == size


def test_times_that_step_back(tmp_path: Path) -> None:
    """A little is a clock that was set; much is left by a truncation, until something newer is behind it."""
    records = Found()
    for timestamp in (START, START + 60_000, START + 59_500, START + 30_000):
        offset = sum(len(record) for _, record in records)
        records.append((offset, new_record(offset, len(records), timestamp, b"x")))
    stream = Stream(FILE_SIZE, list(records), records)
    writer = _written(tmp_path, stream)
    assert advance(_log(tmp_path), BEGINNING).offset == _end(records[1])
    os.utime(writer.path_of(0), (1e9, 1e9))
    place = advance(_log(tmp_path), BEGINNING)
    assert place.offset == _end(records[2])
    assert advance(_log(tmp_path, clock_step=60_000), place).offset == _end(records[3])
    newer = (_end(records[3]), new_record(_end(records[3]), 9, START + 60_000, b"y"))
    _patch(writer, *newer)
    reached = advance(_log(tmp_path), place)
    assert read_between(_log(tmp_path), place, reached) == [records[3], newer]
    bounded = advance(_log(tmp_path), place, WalkBounds(max_count=1))
    assert bounded.offset == _end(records[3])


def test_a_time_in_the_far_future_holds_nothing_up(tmp_path: Path) -> None:
    wild, after = new_record(0, 0, 1 << 62, b"x"), b""
    after = new_record(len(wild), 1, START, b"y")
    _written(tmp_path, Stream(FILE_SIZE, [(0, wild + after)]))
    assert advance(_log(tmp_path), BEGINNING).offset == len(wild + after)


def test_bounds(tmp_path: Path) -> None:
    stream = new_log([300] * 20)
    _written(tmp_path, stream)
    log = _log(tmp_path)
    ends = [_end(item) for item in stream.records]
    assert advance(log, BEGINNING, WalkBounds(max_count=3)).offset == ends[2]
    assert advance(log, BEGINNING, WalkBounds(max_count=12)).offset == ends[11]
    assert advance(log, BEGINNING, WalkBounds(max_size=1)).offset == ends[0]
    assert advance(log, BEGINNING, WalkBounds(max_size=ends[4])).offset == ends[4]
    assert advance(log, BEGINNING, WalkBounds(max_size=ends[4] - 1)).offset == ends[3]
    assert advance(log, BEGINNING, WalkBounds(max_size=FILE_SIZE)).offset == FILE_SIZE
    assert advance(log, BEGINNING, WalkBounds(until_offset=ends[12])).offset == ends[12]
    assert advance(log, BEGINNING, WalkBounds(until_offset=ends[5])).offset == ends[5]
    place = advance(log, BEGINNING, WalkBounds(max_count=3))
    assert advance(log, place, WalkBounds(until_offset=place.offset)) == place


def test_latest(tmp_path: Path) -> None:
    stream = new_log([1000] * 8)
    writer = Writer(tmp_path, stream, True)
    log = _log(tmp_path)
    writer.write_to(stream.end_of(5))
    place = latest_place(log)
    assert place.offset == _end(stream.records[5])
    writer.write_to(stream.size)
    reached = advance(log, place)
    assert read_between(log, place, reached) == stream.records[6:]
    assert reached.offset == latest_place(log).offset


def test_an_offset_to_begin_at(tmp_path: Path) -> None:
    stream = new_log([300] * 20, first=FILE_SIZE)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)
    fourth = stream.records[4][0]
    assert place_at_offset(log, fourth).offset == fourth
    assert place_at_offset(log, fourth - 7).offset == fourth
    assert place_at_offset(log, fourth + 1).offset == stream.records[5][0]
    end = _end(stream.records[-1])
    assert place_at_offset(log, end) == LogPlace(end)
    _patch(writer, end + 100, b"\xff\xff")
    assert place_at_offset(log, end + 95) == LogPlace(end + 95)
    for outside, kind in ((5, "expired"), (1 << 40, "cut")):
        with pytest.raises(DataLossError) as said:
            advance(log, place_at_offset(log, outside))
        assert said.value.kind == kind


def test_a_time_to_begin_at(tmp_path: Path) -> None:
    stream = new_log([300] * 20)
    _written(tmp_path, stream)
    log = _log(tmp_path)
    for number in (0, 1, 9, 13, 19):
        assert place_at_timestamp(log, START + 10 * number).offset == stream.records[number][0]
        assert place_at_timestamp(log, START + 10 * number - 9).offset == stream.records[number][0]
    assert place_at_timestamp(log, 0).offset == 0
    assert place_at_timestamp(log, START + 191).offset == _end(stream.records[-1])


def test_all_files_are_gone(tmp_path: Path) -> None:
    writer = _written(tmp_path, new_log([100]), preallocated=False)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    writer.delete_first()
    with pytest.raises(DataLossError, match="no longer exist"):
        advance(log, place)
    again = advance(log, place, fail_on_data_loss=False)
    assert (again.offset, again.cut_count) == (-1, 1)


def test_a_plan_of_records_that_were_written_over(tmp_path: Path) -> None:
    stream = new_log([200] * 3)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)
    place = advance(log, BEGINNING)
    offset, _ = stream.records[2]
    _patch(writer, offset, new_record(offset, 7, START + 90_000, b"z" * 200))
    with pytest.raises(DataLossError, match="changed after the stream read it"):
        ranges_between(log, BEGINNING, place)
    assert ranges_between(log, BEGINNING, place, fail_on_data_loss=False)
    assert ranges_between(log, place, place) == []


def test_places_in_json() -> None:
    place = LogPlace(10, 5, 77, START, -1, 3, 1, -1)
    assert read_place(place.to_json()) == place
    assert read_place(42) == LogPlace(42)
    for wrong in (-1, True, "5", None, {}, {"offset": "1"}, {"offset": 1, "more": 2}, [1]):
        with pytest.raises(UsageError, match="not a place in a commit log"):
            read_place(wrong)


def test_the_log_of_a_store(store_dir: Directory) -> None:
    root = store_dir("4.9.8-expired")
    log = log_of(open_store(root), name="broker-b")
    assert (log.name, log.file_size) == ("broker-b", 65536)
    place = advance(log, BEGINNING)
    assert place.offset == 421_635
    assert read_between(log, BEGINNING, place) == stream_of(root / "commitlog", 3).records


def test_a_file_that_vanishes_under_the_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that stops removes the file that it made ahead."""
    stream = new_log([100] * 3)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)
    listed = list_files(log)
    writer.path_of(FILE_SIZE).unlink()
    looks = iter([listed])
    monkeypatch.setattr(
        "rocketfsck.pipeline.tail.place.list_files", lambda log: next(looks, None) or list_files(log)
    )
    assert advance(log, BEGINNING).offset == _end(stream.records[-1])
    monkeypatch.setattr("rocketfsck.pipeline.tail.place.list_files", lambda _: listed)
    with pytest.raises(StoreError, match="00000000000000004096: cannot be opened"):
        advance(log, BEGINNING)


def test_a_log_that_shrinks_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses that are accepted, one after the other: each look ends, where the log can be taken up."""
    stream = new_log([1000] * 20)
    writer = _written(tmp_path, stream)
    log = _log(tmp_path)

    def shrinking(log: Log) -> tuple[MappedFile, ...]:
        found = list_files(log)
        if len(found) > 2:
            writer.delete_first()
        return list_files(log)

    monkeypatch.setattr("rocketfsck.pipeline.tail.place.list_files", shrinking)
    place = advance(log, LogPlace(0), fail_on_data_loss=False)
    assert place.lost_size == place.resumed_offset == place.offset
    place = advance(log, place, fail_on_data_loss=False)
    assert place.lost_size == place.resumed_offset
    assert place.offset == _end(stream.records[-1])


def test_a_file_that_begins_with_damage(tmp_path: Path) -> None:
    stream = new_log([1000] * 9)
    writer = _written(tmp_path, stream)
    _patch(writer, FILE_SIZE, b"\xff" * 200)
    log = _log(tmp_path)
    end = _end(stream.records[-1])
    for bounds in (WalkBounds(), WalkBounds(max_count=2), WalkBounds(max_size=900)):
        at = BEGINNING
        while (reached := advance(log, at, bounds)) != at:
            at = reached
        assert (at.offset, at.lost_size) == (end, 0)


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    _written(tmp_path, new_log([100]))
    path = tmp_path / offset_to_filename(0)
    target = tmp_path / "elsewhere"
    path.rename(target)
    path.symlink_to(target)
    target.chmod(0)
    try:
        target.read_bytes()
    except PermissionError:
        with pytest.raises(StoreError, match="cannot be opened"):
            advance(_log(tmp_path), BEGINNING)
