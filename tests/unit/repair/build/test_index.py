"""Index files from the log: names, first entries, files that go on, and links made anew."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.indexfile import ENTRY, decode_header, encode_header, entry_pos
from rocketfsck.repair.build.index import build_index, relink_index_file, store_timestamp_at
from rocketfsck.store.model import Store

from tests.unit.repair.build.making import START, change_log, files, make_store, message, records, reopen

SLOTS, ENTRIES = 16, 12


def _store(folder: Path, count: int = 30, **more: object) -> Store:
    return make_store(folder, [message(number) for number in range(count)], **more)  # type: ignore[arg-type]


def _index(folder: Path) -> dict[str, bytes]:
    return files(folder, ["index"])


def test_files_are_the_writers_and_have_their_names(tmp_path: Path) -> None:
    store = _store(tmp_path)
    built = build_index(store, tmp_path / "built")
    assert _index(tmp_path / "built") == _index(store.root)
    assert [file.entry_count for file in built.files] == [11, 11, 8]
    assert [file.name for file in built.files] == [file.name for file in store.indexes]
    paths = sorted((tmp_path / "built" / "index").iterdir())
    assert [path.stat().st_mtime_ns for path in paths] == [
        file.end_timestamp * 1_000_000 for file in built.files
    ]


def test_names_can_be_given(tmp_path: Path) -> None:
    store = _store(tmp_path)
    names = ["20300101000000000", "20300101000000001"]
    built = build_index(store, tmp_path / "built", names=names)
    assert [file.name for file in built.files] == [*names, "20300101000000002"]


def test_names_from_the_clock_of_the_first_record(tmp_path: Path) -> None:
    store = _store(tmp_path)
    shutil.rmtree(store.root / "index")
    built = build_index(reopen(tmp_path), tmp_path / "built")
    assert built.files[0].name == "20231114221320000"
    assert [file.name for file in built.files] == sorted(file.name for file in built.files)


def test_a_name_that_would_come_out_of_order_is_not_kept(tmp_path: Path) -> None:
    store = _store(tmp_path)
    first, second, _ = sorted((store.root / "index").iterdir())
    first.rename(first.with_name("20990101000000000"))
    built = build_index(reopen(tmp_path), tmp_path / "built")
    assert built.files[0].name == "20990101000000000"
    assert built.files[1].name == "20990101000000001" != second.name


@pytest.mark.parametrize(("version", "count"), [("4.9.8", 0), ("5.3.3", 1)])
def test_a_record_without_keys_opens_the_next_file(tmp_path: Path, version: str, count: int) -> None:
    sent = [*(message(number) for number in range(11)), message(11, properties={})]
    store = make_store(tmp_path, sent, version=version)
    built = build_index(store, tmp_path / "built")
    assert _index(tmp_path / "built") == _index(store.root)
    assert [file.entry_count for file in built.files] == [11, 0]
    last = sorted((tmp_path / "built" / "index").iterdir())[-1]
    assert decode_header(last.read_bytes()).index_count == count


def test_keys_of_one_record_over_two_files(tmp_path: Path) -> None:
    keys = " ".join(f"k{number}" for number in range(30))
    store = make_store(tmp_path, [message(0), message(1, properties={"KEYS": keys}), message(2)])
    build_index(store, tmp_path / "built")
    assert _index(tmp_path / "built") == _index(store.root)
    assert len(_index(store.root)) == 3


def test_a_log_without_keys_has_one_empty_file(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(0, properties={})])
    built = build_index(store, tmp_path / "built")
    assert [file.entry_count for file in built.files] == [0]
    assert _index(tmp_path / "built") == _index(store.root)


def test_an_empty_log_has_no_index(tmp_path: Path) -> None:
    store = make_store(tmp_path, [])
    assert build_index(store, tmp_path / "built").files == ()
    assert not (tmp_path / "built").exists()


def test_going_on_in_a_file_of_the_store(tmp_path: Path) -> None:
    """The store's index ends early; from there on it is filled as if it had never stopped."""
    whole = _store(tmp_path / "whole", 30)
    part = _store(tmp_path / "part", 17)
    shutil.rmtree(whole.root / "index")
    shutil.copytree(part.root / "index", whole.root / "index")
    place = records(whole)[17][0]
    built = build_index(reopen(tmp_path / "whole"), tmp_path / "built", from_offset=place)
    expected = build_index(whole, tmp_path / "expected")
    assert [file.name for file in built.files] == [file.name for file in expected.files[1:]]
    ours, all_files = _index(tmp_path / "built"), _index(tmp_path / "expected")
    assert ours == {name: all_files[name] for name in ours}
    assert len(ours) == 2
    assert built.record_count == 13


def test_going_on_behind_a_full_file(tmp_path: Path) -> None:
    whole = _store(tmp_path, 30)
    place = records(whole)[11][0]
    built = build_index(whole, tmp_path / "built", from_offset=place)
    assert [file.name for file in built.files] == [file.name for file in whole.indexes[1:]]
    ours, all_files = _index(tmp_path / "built"), _index(whole.root)
    assert ours == {name: all_files[name] for name in ours}


def test_from_an_offset_in_front_of_all_files(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    built = build_index(store, tmp_path / "built", from_offset=records(store)[3][0])
    assert built.entry_count == 5
    assert built.files[0].begin_physical_offset == records(store)[3][0]


def test_from_an_offset_behind_the_log(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    assert build_index(store, tmp_path / "built", from_offset=1 << 40).files == ()


def test_files_that_cannot_be_read_give_no_names(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    (path,) = (store.root / "index").iterdir()
    path.write_bytes(b"short")
    built = build_index(reopen(tmp_path), tmp_path / "built")
    assert built.files[0].name == "20231114221320000"


def test_damage_is_told(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    place, size = records(store)[3]
    change_log(store, place, b"\xff" * size)
    built = build_index(reopen(tmp_path), tmp_path / "built")
    assert built.entry_count == 7
    assert built.notes == (f"commitlog/{0:020d} is damaged: keys in its broken parts are not indexed",)


def test_a_place_that_is_taken_is_an_error(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    (tmp_path / "built" / "index" / store.indexes[0].name / "x").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be named"):
        build_index(store, tmp_path / "built")


def _relinked(store: Store, number: int, target: Path) -> bytes:
    relink_index_file(store, store.indexes[number], target)
    return target.read_bytes()


@pytest.mark.parametrize("version", ["4.7.0", "5.3.3"])
@pytest.mark.parametrize("number", [0, 2])
def test_links_slots_and_header_anew(tmp_path: Path, version: str, number: int) -> None:
    store = _store(tmp_path, version=version)
    file = store.indexes[number]
    right = file.path.read_bytes()
    broken = bytearray(right)
    broken[:40] = encode_header(decode_header(right))[:36] + right[36:40]
    broken[0:16] = bytes(16)
    broken[40 : 40 + 4 * SLOTS] = b"\x7f" * (4 * SLOTS)
    for entry in range(1, 8):
        pos = entry_pos(entry, SLOTS) + 16
        broken[pos : pos + 4] = b"\xff\xff\xff\x00"
    file.path.write_bytes(broken)
    assert _relinked(store, number, tmp_path / "target") == right


def test_a_header_that_cannot_be_is_not_asked(tmp_path: Path) -> None:
    store = _store(tmp_path)
    for index_count in (0, 1, 3, 1000, -5):
        file = store.indexes[2]
        right = file.path.read_bytes()
        file.path.write_bytes(right[:36] + index_count.to_bytes(4, "big", signed=True) + right[40:])
        assert _relinked(store, 2, tmp_path / "target") == right
        file.path.write_bytes(right)


def test_an_empty_file_stays_empty(tmp_path: Path) -> None:
    store = make_store(tmp_path, [message(0, properties={})])
    built = relink_index_file(store, store.indexes[0], tmp_path / "target")
    assert built.entry_count == 0
    assert decode_header((tmp_path / "target").read_bytes()).index_count == 1


def test_times_of_records_that_are_gone_stay_as_they_are(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    right = store.indexes[0].path.read_bytes()
    shutil.rmtree(store.root / "commitlog")
    assert _relinked(reopen(tmp_path), 0, tmp_path / "target") == right


def test_entries_that_cannot_be_linked(tmp_path: Path) -> None:
    store = _store(tmp_path, 8)
    path = store.indexes[0].path
    data = bytearray(path.read_bytes())
    pos = entry_pos(3, SLOTS)
    data[pos : pos + 20] = ENTRY.build({"keyHash": -1, "phyOffset": 0, "timeDiff": 0, "prevIndex": 0})
    path.write_bytes(data)
    with pytest.raises(StoreError, match="entry 3 has a negative hash"):
        relink_index_file(store, store.indexes[0], tmp_path / "target")
    path.write_bytes(b"x" * 50)
    with pytest.raises(StoreError, match="has 50 bytes, too few"):
        relink_index_file(store, store.indexes[0], tmp_path / "target")


def test_the_time_of_a_record_in_the_log(tmp_path: Path) -> None:
    store = _store(tmp_path, 30)
    places = records(store)
    assert store_timestamp_at(store, places[25][0], -1) == START + 25_000
    assert store_timestamp_at(store, places[25][0] + 1, -1) == -1
    assert store_timestamp_at(store, 1 << 40, -1) == -1
    change_log(store, places[25][0] + 28, bytes(8))
    assert store_timestamp_at(store, places[25][0], -1) == -1
    store.commitlog.files[0].path.unlink()
    assert store_timestamp_at(store, 0, -1) == -1


def test_a_record_without_keys_gives_the_next_file_its_time(tmp_path: Path) -> None:
    sent = [*(message(number) for number in range(11)), message(11, properties={}), message(12)]
    store = make_store(tmp_path, sent)
    written = _index(store.root)
    shutil.rmtree(store.root / "index")
    build_index(reopen(tmp_path), tmp_path / "built")
    assert _index(tmp_path / "built") == written
    assert sorted(written)[1] == "index/20231114221331000"
