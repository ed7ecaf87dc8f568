"""File sizes and index geometry: given, inferred, default, and what contradicts them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketfsck.store import index_geometry
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS, Geometry, Settings
from rocketfsck.store.geometry import SETTINGS, file_size_of, read_geometry
from rocketfsck.store.index_geometry import IndexGuess, infer_index_geometry
from rocketfsck.store.model import IndexFile, MappedFile


def mapped(start: int, size: int) -> MappedFile:
    return MappedFile(f"/s/{start:020d}", f"{start:020d}", size, 0, size, start)


def inferred(name: str, *streams: list[tuple[int, int]], **values: str) -> tuple[int, str, str]:
    files = [[mapped(start, size) for start, size in stream] for stream in streams]
    geometry = read_geometry(Settings(None, values), {name: files}, ())
    return getattr(geometry, name), geometry.source(name), geometry.notes.get(name, "")


@pytest.mark.parametrize(
    ("streams", "size"),
    [
        ([[(0, 4096)]], 4096),
        ([[(0, 4096), (4096, 4096), (8192, 100)]], 4096),
        ([[(0, 4096), (4096, 0)]], 4096),
        # A cut file between two starts: the distance tells.
        ([[(8192, 5000), (16384, 8192)]], 8192),
        ([[(8192, 5000), (16384, 5000), (24576, 300)]], 8192),
        # A missing file makes one distance too large.
        ([[(0, 4096), (4096, 4096), (12288, 4096)]], 4096),
        # Neither an empty file nor a foreign start outvotes many.
        ([[(0, 4096), (4096, 4096), (8193, 1024)]], 4096),
    ],
)
def test_commitlog_size_from_lengths_and_names(streams: list[list[tuple[int, int]]], size: int) -> None:
    value, source, note = inferred("commitlog_file_size", *streams)
    assert (value, source) == (size, "inferred")
    assert f"{size:,} bytes" in note


PROOFS: list[tuple[str, list[list[tuple[int, int]]], bool]] = [
    ("commitlog_file_size", [[(0, 4096)]], False),  # it may have been cut
    ("commitlog_file_size", [[(0, 4096), (4096, 4096)]], True),
    ("commitlog_file_size", [[(8192, 4096)]], True),  # its name counts in that size
    ("commitlog_file_size", [[(0, 8192)], [(4096, 4096)]], False),  # one against one
    ("commitlog_file_size", [[(0, 1 << 30)]], True),  # the default
    ("commitlog_file_size", [[(8192, 5000), (16384, 8192)]], True),  # a length and a distance
    ("consumequeue_file_size", [[(0, 600)]], True),  # no copy that broke off leaves that
    ("consumequeue_file_size", [[(0, 20480)]], False),  # but whole blocks
    ("consumequeue_file_size", [[(0, 20480)], [(0, 20480)]], True),
    ("consumequeue_file_size", [[(0, 600)], [(0, 400)]], False),
    ("consumequeue_file_size", [[(0, 600)], [(0, 600)], [(0, 400)]], True),
]


@pytest.mark.parametrize(("name", "streams", "proven"), PROOFS)
def test_what_proves_a_size(name: str, streams: list[list[tuple[int, int]]], proven: bool) -> None:
    files = [[mapped(start, size) for start, size in stream] for stream in streams]
    geometry = read_geometry(Settings(), {name: files}, ())
    assert (name in geometry.proven) is proven
    key = SETTINGS[name].names[0]
    given = read_geometry(Settings(None, {key: "40960"}), {name: files}, ())
    assert given.proven == frozenset() and (name in given.contradicted) is proven


@pytest.mark.parametrize(
    "streams",
    [
        [[(0, 5001)]],  # one odd length: a cut file, not a setting
        [[(4096, 1 << 14)]],  # its start is no multiple of it
        [[(0, 1 << 33)]],  # no int
    ],
)
def test_a_length_that_is_no_setting_leaves_the_default(streams: list[list[tuple[int, int]]]) -> None:
    value, source, note = inferred("commitlog_file_size", *streams)
    assert (value, source) == (1 << 30, "default")
    assert "do not look like a setting" in note


def test_a_strange_file_beside_does_not_hide_a_length_that_is_a_setting() -> None:
    assert inferred("commitlog_file_size", [(0, 65536), (7, 40)])[:2] == (65536, "inferred")


def test_no_files_leave_the_default() -> None:
    assert inferred("commitlog_file_size") == (1 << 30, "default", "")
    assert inferred("commitlog_file_size", [(0, 0)]) == (1 << 30, "default", "")


def test_unit_sizes_count_over_all_queues() -> None:
    queues = [[(0, 1000), (1000, 1000)], [(3000, 1000)], [(0, 990)], [(0, 4096)]]
    assert inferred("consumequeue_file_size", *queues)[:2] == (1000, "inferred")
    assert inferred("batch_file_size", [(0, 920)], [(0, 1000)])[:2] == (920, "inferred")
    assert inferred("consumequeue_file_size", [(0, 999)])[1] == "default"
    assert inferred("ext_file_size", [(0, 4099)])[:2] == (4099, "inferred")


@pytest.mark.parametrize(
    ("name", "key", "text", "size"),
    [
        ("commitlog_file_size", "mappedFileSizeCommitLog", "4096", 4096),
        ("commitlog_file_size", "mapedFileSizeCommitLog", " 4096 ", 4096),
        ("consumequeue_file_size", "mappedFileSizeConsumeQueue", "6001", 6020),
        ("consumequeue_file_size", "mapedFileSizeConsumeQueue", "20", 20),
        ("batch_file_size", "mapperFileSizeBatchConsumeQueue", "47", 92),
        ("ext_file_size", "mappedFileSizeConsumeQueueExt", "4097", 4097),
        ("slot_count", "maxHashSlotNum", "7", 7),
        ("entry_count", "maxIndexNum", "+9", 9),
        ("timerlog_file_size", "mappedFileSizeTimerLog", "1000", 1000),
    ],
)
def test_settings_under_old_and_new_names(name: str, key: str, text: str, size: int) -> None:
    assert inferred(name, **{key: text})[:2] == (size, "given")


@pytest.mark.parametrize("text", ["", "0", "-5", "1g", "2147483648", "4096L", "٣٣"])
def test_a_setting_that_is_no_size_is_noted(text: str) -> None:
    value, source, note = inferred("commitlog_file_size", [(0, 4096)], mappedFileSizeCommitLog=text)
    if text == "٣٣":  # Integer.parseInt takes the digits of any script
        assert (value, source) == (33, "given")
    else:
        assert (value, source) == (4096, "inferred")
        assert "not a positive 32-bit integer" in note


def test_a_setting_that_the_files_contradict_is_noted() -> None:
    value, source, note = inferred("commitlog_file_size", [(0, 4096)], mappedFileSizeCommitLog="8192")
    assert (value, source) == (8192, "given")
    assert note == "1 of 1 file has 4,096 bytes, not 8,192"
    assert inferred("commitlog_file_size", [(0, 8192)], mappedFileSizeCommitLog="8192")[2] == ""


def test_sources_are_asked_by_name() -> None:
    assert Geometry().source("slot_count") == "default"
    assert Geometry().index_file_size == 420_000_040
    with pytest.raises(KeyError):
        Geometry().source("files")


def test_the_size_of_one_queue() -> None:
    assert file_size_of([mapped(0, 4096), mapped(4096, 10)], 1 << 20) == 4096
    assert file_size_of([], 1 << 20) == 1 << 20
    assert file_size_of([mapped(0, 47)], 92, 46) == 92


def write_index(
    path: Path, slots: int, entries: int, hashes: list[int], *, header_count: int | None = None
) -> IndexFile:
    """An index file put as reference 4.4 says; `header_count` replaces its indexCount."""
    data = bytearray(40 + 4 * slots + 20 * entries)
    for number, key_hash in enumerate(hashes, 1):
        slot = 40 + 4 * (key_hash % slots)
        (before,) = struct.unpack_from(">i", data, slot)
        struct.pack_into(">iqii", data, 40 + 4 * slots + 20 * number, key_hash, 100 * number, number, before)
        struct.pack_into(">i", data, slot, number)
    count = len(hashes) + 1 if header_count is None else header_count
    struct.pack_into(">4qii", data, 0, 1, 2, 100, 100 * len(hashes), len(hashes), count)
    path.write_bytes(data)
    return IndexFile(os.fspath(path), path.name, len(data), 0, len(data))


def hashes(count: int) -> list[int]:
    return [(number * 2_654_435_761) % (1 << 31) for number in range(1, count + 1)]


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 200), st.integers(6, 300), st.data())
def test_geometry_of_one_file_from_its_last_entry(
    tmp_path_factory: pytest.TempPathFactory, slots: int, entries: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("index") / "20200101000000000"
    count = data.draw(st.integers(min(12, entries - 1), entries - 1))
    guess = infer_index_geometry([write_index(path, slots, entries, hashes(count))])
    assert (guess.slot_count, guess.entry_count) == (slots, entries)


@pytest.mark.parametrize(("count", "entries"), [(1, 10), (2, 10), (5, 10), (9, 10), (3, 9000)])
def test_geometry_of_a_file_with_few_entries(tmp_path: Path, count: int, entries: int) -> None:
    keys = [number * 7919 for number in range(1, count + 1)]
    guess = infer_index_geometry([write_index(tmp_path / "1", 7, entries, keys)])
    assert (guess.slot_count, guess.entry_count, guess.proven) == (7, entries, True)


def test_geometry_from_one_known_count(tmp_path: Path) -> None:
    file = write_index(tmp_path / "1", 7, 10, hashes(3))
    for known in ({"slot_count": 7}, {"entry_count": 10}):
        guess = infer_index_geometry([file], **known)
        assert (guess.slot_count, guess.entry_count, guess.proven) == (7, 10, True)
    for known in ({"slot_count": 8}, {"slot_count": file.size}):
        assert not infer_index_geometry([file], **known).proven
    assert not infer_index_geometry([file], entry_count=file.size).proven


def test_geometry_from_full_files_when_the_last_is_damaged(tmp_path: Path) -> None:
    files = [write_index(tmp_path / f"{number}", 30, 50, hashes(49)) for number in range(3)]
    files.append(write_index(tmp_path / "3", 30, 50, hashes(10), header_count=(1 << 31) - 1))
    guess = infer_index_geometry(files)
    assert (guess.slot_count, guess.entry_count) == (30, 50)


@pytest.mark.parametrize("wrong", [-1, 0, 1, 7, 39, 42, 49, 5000, (1 << 31) - 1])
@pytest.mark.parametrize("slots", [30, 31, 200])
def test_one_file_whose_index_count_is_wrong(tmp_path: Path, slots: int, wrong: int) -> None:
    file = write_index(tmp_path / "1", slots, 50, hashes(40), header_count=wrong)
    guess = infer_index_geometry([file])
    assert (guess.slot_count, guess.entry_count) == (slots, 50)
    assert "by its slots, 1 has 40 entries" in guess.note
    right = infer_index_geometry([write_index(tmp_path / "1", slots, 50, hashes(40))])
    assert (right.slot_count, right.entry_count) == (slots, 50)
    assert "by its slots" not in right.note


def test_a_large_file_whose_index_count_is_wrong(tmp_path: Path) -> None:
    slots, entries = 400_000, 500_000  # more than the pieces in which the slots are read
    file = write_index(tmp_path / "1", slots, entries, hashes(3000), header_count=9)
    guess = infer_index_geometry([file])
    assert (guess.slot_count, guess.entry_count) == (slots, entries)


def test_a_wrong_index_count_and_a_wild_slot_tell_nothing(tmp_path: Path) -> None:
    file = write_index(tmp_path / "1", 30, 50, hashes(40), header_count=9)
    with file.path.open("r+b") as stream:
        stream.seek(40)
        stream.write(b"\x7f\xff\xff\xff")
    assert infer_index_geometry([file]).slot_count is None


def test_a_cut_file_does_not_decide(tmp_path: Path) -> None:
    files = [write_index(tmp_path / f"{number}", 30, 50, hashes(49)) for number in range(2)]
    os.truncate(files[0].path, 500)
    cut = IndexFile(files[0].location, "0", 500, 0, 500)
    guess = infer_index_geometry([cut, *files[1:], write_index(tmp_path / "2", 30, 50, hashes(3))])
    assert (guess.slot_count, guess.entry_count) == (30, 50)


def test_the_default_length_needs_no_evidence() -> None:
    guess = infer_index_geometry([IndexFile("/nowhere", "1", 420_000_040, 0, 0)])
    assert (guess.slot_count, guess.entry_count, guess.proven) == (5_000_000, 20_000_000, True)


@pytest.mark.parametrize(("slots", "entries"), [(100, 400), (5_000, 20_000), (1, 1)])
def test_without_entries_the_default_ratio_is_taken(tmp_path: Path, slots: int, entries: int) -> None:
    guess = infer_index_geometry([write_index(tmp_path / "1", slots, entries, [])])
    assert (guess.slot_count, guess.entry_count) == (slots, entries)
    assert "the default ratio" in guess.note and not guess.proven


@pytest.mark.parametrize("size", [0, 40, 60, 65, 1 << 31, (1 << 31) + 64])
def test_a_length_that_no_index_file_has(size: int) -> None:
    guess = infer_index_geometry([IndexFile("/nowhere", "1", size, 0, 0)])
    assert (guess.slot_count, guess.entry_count) == (None, None)


def test_entries_that_fit_nothing(tmp_path: Path) -> None:
    path = tmp_path / "1"
    path.write_bytes(struct.pack(">4qii", 1, 2, 3, 4, 5, 6) + b"\xa5" * 4000)
    guess = infer_index_geometry([IndexFile(os.fspath(path), "1", 4040, 0, 0)])
    assert guess == IndexGuess(
        None, None, "the file has 4,040 bytes, but no numbers for that length fit the entries"
    )


def test_a_file_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    good = write_index(tmp_path / "1", 30, 50, hashes(20))
    gone = IndexFile(os.fspath(tmp_path / "2"), "2", good.size, 0, 0)
    guess = infer_index_geometry([good, gone])
    assert (guess.slot_count, guess.entry_count) == (30, 50)
    assert infer_index_geometry([gone]).note.endswith("the default ratio")


def test_files_that_shrink_between_the_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = write_index(tmp_path / "1", 30, 50, hashes(20))
    monkeypatch.setattr(index_geometry, "_index_count", lambda _: 21)
    gone = IndexFile(os.fspath(tmp_path / "gone"), "1", good.size, 0, 0)
    assert infer_index_geometry([gone]).slot_count is None
    os.truncate(good.path, 100)
    assert infer_index_geometry([good]).slot_count is None


def test_the_search_for_the_last_entry_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_index(tmp_path / "1", 3000, 120_000, hashes(20))
    guess = infer_index_geometry([file])
    assert (guess.slot_count, guess.entry_count) == (3000, 120_000)
    monkeypatch.setattr(index_geometry, "MAX_SCAN_SIZE", 1 << 20)
    assert infer_index_geometry([file]).slot_count is None


def index_settings(*files: IndexFile, **values: str) -> Geometry:
    return read_geometry(Settings(None, values), {}, files)


def test_given_numbers_complete_each_other(tmp_path: Path) -> None:
    file = write_index(tmp_path / "1", 30, 50, [])
    geometry = index_settings(file, maxHashSlotNum="30")
    assert (geometry.slot_count, geometry.entry_count) == (30, 50)
    assert (geometry.source("slot_count"), geometry.source("entry_count")) == ("given", "inferred")
    geometry = index_settings(file, maxIndexNum="50")
    assert (geometry.slot_count, geometry.entry_count) == (30, 50)
    assert (geometry.source("slot_count"), geometry.source("entry_count")) == ("inferred", "given")


def test_given_numbers_that_do_not_fit(tmp_path: Path) -> None:
    file = write_index(tmp_path / "1", 30, 50, [])
    geometry = index_settings(file, maxHashSlotNum="31")
    assert (geometry.slot_count, geometry.source("entry_count")) == (31, "default")
    assert "do not fit 31 slots" in geometry.notes["entry_count"]
    geometry = index_settings(file, maxIndexNum="56")
    assert (geometry.entry_count, geometry.source("slot_count")) == (56, "default")
    geometry = index_settings(file, maxHashSlotNum="31", maxIndexNum="50")
    assert "1 of 1 file has 1,160 bytes, not 1,164" in geometry.notes["slot_count"]
    assert index_settings(file, maxHashSlotNum="30", maxIndexNum="50").notes == {}
    assert index_settings().slot_count == GEOMETRY_DEFAULTS["slot_count"]
