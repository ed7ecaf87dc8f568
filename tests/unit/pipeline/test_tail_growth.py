"""Whatever the schedule in which a log grows, rolls and expires: each record once, in order, none torn."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.pipeline.tail.log import UNBOUNDED, advance
from rocketfsck.pipeline.tail.place import BEGINNING, DataLossError, Log, LogPlace, read_place
from rocketfsck.pipeline.tail.walk import WalkBounds

from tests.conftest import Directory
from tests.unit.pipeline.growing import FILE_SIZE, Found, Stream, Writer, new_log, read_between, stream_of

STEPS = st.lists(
    st.one_of(st.integers(1, 40), st.integers(100, 900), st.integers(2000, 9000)), min_size=1, max_size=12
)
BOUNDS = st.one_of(
    st.just(UNBOUNDED),
    st.builds(WalkBounds, max_count=st.integers(1, 6)),
    st.builds(WalkBounds, max_size=st.integers(1, 5000)),
)
SIZES = st.lists(st.one_of(st.integers(0, 60), st.integers(500, 1500)), min_size=1, max_size=40)


AROUND = 12_000
"""Bytes on either side of the end of a real file that are written while they are read."""


@pytest.fixture(scope="module")
def streams(store_dir: Directory) -> list[Stream]:
    """Two files each; the first of them has a BLANK with bytes of earlier messages behind it."""
    names = ("4.4.0-multiseg", "4.9.8-expired", "5.3.3-multiseg")
    return [stream_of(store_dir(name) / "commitlog", 2) for name in names]


@settings(max_examples=50)
@given(data=st.data(), steps=STEPS, bounds=BOUNDS, preallocated=st.booleans())
def test_every_record_once(
    streams: list[Stream], data: st.DataObject, steps: list[int], bounds: WalkBounds, preallocated: bool
) -> None:
    """Real files, and the roll from one to the next; the first is deleted when it was read."""
    stream = data.draw(st.sampled_from(streams))
    first, second = (offset for offset, _ in stream.pieces)
    records = [item for item in stream.records if -AROUND <= item[0] - second < AROUND]
    with tempfile.TemporaryDirectory() as directory:
        log = Log("b", (Path(directory),), stream.file_size)
        writer = Writer(Path(directory), stream, preallocated)
        writer.write_to(records[0][0] - first)
        place, found = LogPlace(records[0][0]), Found()
        last = records[-1][0] + len(records[-1][1]) - first
        for step in [*steps, last]:
            writer.write_to(min(writer.written + step, last))
            while True:
                reached = read_place(advance(log, place, bounds).to_json())  # as from a checkpoint
                found += read_between(log, place, reached)
                if reached == place:
                    break
                place = reached
            whole = sum(offset + len(record) <= first + writer.written for offset, record in records)
            assert found == records[:whole]
            if place.offset >= second:
                writer.path_of(first).unlink(missing_ok=True)
        assert found == records


@settings(max_examples=40)
@given(sizes=SIZES, steps=STEPS, bounds=BOUNDS, preallocated=st.booleans(), data=st.data())
def test_what_expires_unread_is_counted(
    sizes: list[int], steps: list[int], bounds: WalkBounds, preallocated: bool, data: st.DataObject
) -> None:
    stream = new_log(sizes, first=FILE_SIZE)
    with tempfile.TemporaryDirectory() as directory:
        log = Log("b", (Path(directory),), FILE_SIZE)
        writer = Writer(Path(directory), stream, preallocated)
        place, found, lost = BEGINNING, Found(), list[tuple[int, int]]()
        for step in [*steps, stream.size]:
            writer.write_to(writer.written + step)
            for _ in range(data.draw(st.integers(0, 2))):
                newest = (stream.pieces[0][0] + writer.written - 1) // FILE_SIZE * FILE_SIZE
                if sorted(Path(directory).iterdir())[0] != writer.path_of(newest):
                    writer.delete_first()
            for last in (False, True):
                try:
                    advance(log, place, bounds)
                except DataLossError as loss:
                    assert loss.kind == "expired"
                    lost.append((max(place.offset, place.clear_offset), loss.place.offset))
                reached = advance(log, place, bounds, fail_on_data_loss=False)
                found += read_between(log, place, reached)
                place = reached
                if last and step != stream.size:
                    break
        while (reached := advance(log, place, fail_on_data_loss=False)) != place:
            found += read_between(log, place, reached)
            place = reached
        assert place.lost_size == sum(high - low for low, high in lost)
        begun = found[0][0] if found else 0
        assert found == [
            item
            for item in stream.records
            if item[0] >= begun and not any(low <= item[0] < high for low, high in lost)
        ]
        assert found and found[-1] == stream.records[-1]


@settings(max_examples=40)
@given(sizes=SIZES, data=st.data())
def test_half_of_the_last_record_is_not_read(sizes: list[int], data: st.DataObject) -> None:
    """Its beginning or its end is not there yet, as with pages that are copied while they are written."""
    stream = new_log(sizes)
    number = data.draw(st.integers(0, len(sizes) - 1))
    offset, record = stream.records[number]
    with tempfile.TemporaryDirectory() as directory:
        log = Log("b", (Path(directory),), FILE_SIZE)
        writer = Writer(Path(directory), stream, True)
        writer.write_to(stream.end_of(number))
        hidden = data.draw(st.integers(1, len(record) - 1))
        low, high = data.draw(st.sampled_from([(0, hidden), (hidden, len(record))]))
        if not any(record[low:high]):
            return
        path, pos = writer.path_of(offset - offset % FILE_SIZE), offset % FILE_SIZE
        with path.open("r+b") as file:
            file.seek(pos + low)
            file.write(bytes(high - low))
        place = advance(log, BEGINNING)
        found = read_between(log, BEGINNING, place)
        assert found == stream.records[: len(found)]
        assert number - 1 <= len(found) <= number  # the one before may be in doubt, too
        with path.open("r+b") as file:
            file.seek(pos)
            file.write(record)
        reached = advance(log, place)
        assert found + read_between(log, place, reached) == stream.records[: number + 1]


@settings(max_examples=40)
@given(old=SIZES, new=SIZES, steps=STEPS, preallocated=st.booleans(), data=st.data())
def test_a_log_that_was_cut_and_written_anew(
    old: list[int], new: list[int], steps: list[int], preallocated: bool, data: st.DataObject
) -> None:
    """All was read; then the broker lost its end and wrote over it, which leaves the old bytes behind."""
    stream = new_log(old)
    kept = data.draw(st.integers(0, len(old) - 1))
    at = stream.records[kept][0]
    again = new_log(new, at=at, timestamp=1_700_000_100_000)
    with tempfile.TemporaryDirectory() as directory:
        log = Log("b", (Path(directory),), FILE_SIZE)
        writer = Writer(Path(directory), stream, preallocated)
        writer.write_to(stream.size)
        place = advance(log, BEGINNING)
        assert read_between(log, BEGINNING, place) == stream.records
        for path in Path(directory).iterdir():
            if int(path.name) > at:
                path.unlink()
        writer = Writer(Path(directory), again, preallocated)
        found, cuts = Found(), 0
        for step in [*steps, again.size]:
            writer.write_to(writer.written + step)
            try:
                reached = advance(log, place)
            except DataLossError as loss:
                assert loss.kind == "cut"
                cuts += 1
                reached = advance(log, place, fail_on_data_loss=False)
            found += read_between(log, place, reached)
            place = reached
        assert place.cut_count == cuts
        assert found == again.records[: len(found)]
        if again.size > stream.size - at:
            assert cuts
            assert found == again.records


def test_a_copy_of_the_killed_store(store_dir: Directory, tmp_path: Path) -> None:
    """What a broker left that was killed: two empty files after the end record."""
    root = Path(shutil.copytree(store_dir("5.3.3-killed") / "commitlog", tmp_path / "commitlog"))
    log = Log("b", (root,), 65536)
    place = advance(log, BEGINNING)
    found = read_between(log, BEGINNING, place)
    assert len(found) == 600
    assert advance(log, place) == place
