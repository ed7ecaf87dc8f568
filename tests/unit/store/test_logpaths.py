"""Which directories are read as the commit log: named by settings, or by what is in the root."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.store import Store, open_store
from rocketfsck.verify.run import check_store

from tests.conftest import Directory
from tests.unit.verify.storemaker import LOG_SIZE, NOW, Maker, record_at


def put(maker: Maker, directory: str, *numbers: int) -> None:
    """Files of one log, by their numbers, in a directory of the root."""
    for number in numbers:
        start = number * LOG_SIZE
        maker.file(f"{directory}/{start:020d}", record_at(start, NOW), LOG_SIZE)


def opened(maker: Maker) -> Store:
    return open_store(maker.root)


def names(store: Store) -> list[str]:
    return [directory.name for directory in store.commitlog.directories]


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    maker = Maker(tmp_path)
    maker.checkpoint()
    return maker


def test_a_broker_with_two_paths(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-multipath"))
    assert names(store) == ["disk1", "disk2"]
    assert [file.start_offset for file in store.commitlog.files] == [65536 * number for number in range(6)]
    assert store.log_places.inferred
    assert not [stray for stray in store.strays if stray.area == "root"]
    report = check_store(store)
    (finding,) = (finding for finding in report.findings if finding.rule == "ST046")
    assert finding.found["directories"] == "disk1, disk2"
    assert report.checked["commitlog"].file_count == 6


@pytest.mark.parametrize(
    "files",
    [
        {"a": (0, 2, 4), "b": (1, 3)},
        {"a": (0, 2, 4), "b": (1, 5)},  # 3 is lost, but the two take turns
        {"a": (0, 1), "b": (2, 3)},
        {"commitlog": (0, 2), "b": (1, 3)},
        {"a": (3, 6), "b": (4, 7), "c": (5,)},
    ],
)
def test_directories_that_are_one_log(maker: Maker, files: dict[str, tuple[int, ...]]) -> None:
    for directory, numbers in files.items():
        put(maker, directory, *numbers)
    store = opened(maker)
    assert names(store) == list(files)
    starts = sorted(number * LOG_SIZE for numbers in files.values() for number in numbers)
    assert [file.start_offset for file in store.commitlog.files] == starts
    assert store.log_places.doubtful == ()


@pytest.mark.parametrize(
    ("files", "doubtful", "reason"),
    [
        ({"a": (0, 1)}, ["a"], "is the only one"),
        ({"commitlog": (0, 1), "b": (1, 2)}, ["b"], "for the same offsets"),
        ({"a": (0, 2), "b": (0, 1)}, ["a", "b"], "for the same offsets"),
        ({"commitlog": (0, 1), "b": (2, 3)}, ["b"], "perhaps not the same one"),
        ({"a": (0, 1), "b": (3,)}, ["a", "b"], "perhaps not the same one"),
    ],
)
def test_what_is_not_certain_is_not_read(
    maker: Maker, files: dict[str, tuple[int, ...]], doubtful: list[str], reason: str
) -> None:
    for directory, numbers in files.items():
        put(maker, directory, *numbers)
    store = opened(maker)
    assert names(store) == ["commitlog"]
    assert [name for name, _ in store.log_places.doubtful] == doubtful
    assert all(reason in why for _, why in store.log_places.doubtful)
    found = [finding for finding in check_store(store).findings if finding.rule == "ST047"]
    assert [finding.where.file for finding in found] == doubtful


def test_an_empty_commitlog_is_not_replaced(maker: Maker) -> None:
    """A disk that is not mounted beside a copy: a broker would start with nothing."""
    (maker.root / "commitlog").mkdir()
    put(maker, "a", 0, 2)
    put(maker, "b", 1, 3)
    store = opened(maker)
    assert (names(store), store.commitlog.files) == (["commitlog"], ())
    assert [name for name, _ in store.log_places.doubtful] == ["a", "b"]


def test_a_place_that_does_not_fit(maker: Maker) -> None:
    put(maker, "a", 0, 2)
    start = LOG_SIZE + 100
    maker.file(f"b/{start:020d}", record_at(start, NOW), LOG_SIZE)
    assert [name for name, _ in opened(maker).log_places.doubtful] == ["a", "b"]


def test_a_copy_of_what_is_there_is_a_stray_and_no_more(maker: Maker) -> None:
    put(maker, "commitlog", 0, 1, 2)
    put(maker, "backup", 0, 1)
    store = opened(maker)
    assert names(store) == ["commitlog"]
    assert store.log_places.doubtful == ()
    assert [stray.relative for stray in store.strays] == ["backup"]


def test_files_without_records_at_their_places_prove_nothing(maker: Maker) -> None:
    put(maker, "a", 0, 2)
    maker.file(f"b/{LOG_SIZE:020d}", b"", LOG_SIZE)  # all zeros
    maker.file(f"c/{LOG_SIZE * 3:020d}", record_at(LOG_SIZE * 9, NOW), LOG_SIZE)  # of another place
    maker.file(f"d/{LOG_SIZE * 5:020d}", b"short")
    store = opened(maker)
    assert names(store) == ["commitlog"]
    assert [name for name, _ in store.log_places.doubtful] == ["a"]


def test_settings_without_paths_mean_the_default(maker: Maker) -> None:
    put(maker, "a", 0, 2)
    put(maker, "b", 1, 3)
    assert names(maker.open()) == ["commitlog"]


def test_settings_of_a_store_that_was_copied(maker: Maker, tmp_path: Path) -> None:
    """A path below storePathRootDir is meant in the store that was opened, wherever the original is."""
    put(maker, "a", 0)
    put(maker, "old", 1)
    copy = Path(shutil.copytree(maker.root, tmp_path / "copy"))
    conf = tmp_path / "paths.conf"
    conf.write_text(
        f"storePathRootDir={maker.root}\nstorePathCommitLog={maker.root}/a\n"
        f"readOnlyCommitLogStorePaths={maker.root}/old\n"
    )
    store = open_store(copy, broker_conf=conf)
    assert store.commitlog.directories == (copy / "a", copy / "old")
    assert not store.log_places.inferred
    shutil.rmtree(copy / "old")
    store = open_store(copy, broker_conf=conf)
    assert store.commitlog.directories == (copy / "a", maker.root / "old")


def test_settings_that_name_what_is_not_here(maker: Maker, tmp_path: Path) -> None:
    put(maker, "a", 0, 2)
    put(maker, "b", 1, 3)
    conf = tmp_path / "paths.conf"
    conf.write_text("storePathRootDir=/nowhere\nstorePathCommitLog=/elsewhere/x,/nowhere/../y,/nowhere\n")
    store = open_store(maker.root, broker_conf=conf)
    assert names(store) == ["a", "b"]
    assert store.log_places.inferred


def test_a_directory_that_cannot_be_listed_is_none(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.errors import StoreError
    from rocketfsck.store import logpaths

    put(maker, "a", 0, 2)
    put(maker, "b", 1, 3)

    def refuse(path: str) -> list[object]:
        raise StoreError("cannot be listed", path=path)

    monkeypatch.setattr(logpaths, "list_directory", refuse)
    assert names(opened(maker)) == ["commitlog"]
