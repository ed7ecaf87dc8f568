"""Queries by key that a broker answers from rocksdbstore/: as the real one that recorded its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.formats.javatext import INT64_MAX
from rocketfsck.formats.rocks import HOUR_MS
from rocketfsck.query.serving.broker import DAY_MS, BrokerView, broker_by_key
from rocketfsck.store import open_store
from rocketfsck.store.model import Store

from tests.conftest import Directory, Document

NAME = "5.5.0-rocksdb-all"
HOUR = 1795334266006 // HOUR_MS * HOUR_MS
WINDOW = (HOUR - HOUR_MS, HOUR + HOUR_MS)
ROWS = {"indexFileReadEnable": "false", "indexRocksDBEnable": "true"}


def opened(real_dir: Directory, tmp_path: Path, **settings: str) -> Store:
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in {**ROWS, **settings}.items()))
    return open_store(real_dir(NAME), broker_conf=conf)


def test_answers_are_those_recorded(real_dir: Directory, real_manifest: Document, tmp_path: Path) -> None:
    asked = real_manifest(NAME)["live"]["queryMessage"]
    chosen = [asked[number] for number in range(0, len(asked), 20)]
    with BrokerView(opened(real_dir, tmp_path), "5.5.0") as broker:
        for query in chosen:
            found = broker.query_message(query["topic"], query["key"], 64, *WINDOW)
            assert list(found) == query["offsets"], query
    assert sum(bool(query["offsets"]) for query in chosen) > 10


def test_tags_and_unique_keys(real_dir: Directory, tmp_path: Path) -> None:
    files = BrokerView(open_store(real_dir(NAME)), "5.5.0")
    with files, BrokerView(opened(real_dir, tmp_path), "5.5.0") as rows:
        by_files = files.query_message("RdbOrder", "TagA", by_tags=True)
        assert len(by_files) == 11
        assert rows.query_message("RdbOrder", "TagA", 64, *WINDOW, by_tags=True) == by_files
        assert rows.query_message("RdbOrder", "TagA", 3, *WINDOW, by_tags=True) == by_files[:3]
        unique_key = "C000020225994E0E2F2A6DDAC2760020"
        for unique, count in ((True, 1), (False, 0)):
            answer = broker_by_key(
                rows, "RdbOrder", unique_key, unique=unique,
                begin_timestamp=WINDOW[0], end_timestamp=WINDOW[1],
            )  # fmt: skip
            assert len(answer.found) == count, "a client names the type of the key"


@pytest.mark.parametrize(
    ("begin", "end", "days", "count"),
    [
        (*WINDOW, "7", 11),
        (0, INT64_MAX, "1", 0),  # the day until now
        (HOUR - 8 * DAY_MS, WINDOW[1], "7", 0),
        (HOUR - 8 * DAY_MS, WINDOW[1], "9", 11),
        (HOUR - 31 * DAY_MS, WINDOW[1], "40", 0),  # a broker looks into 720 hours
        (WINDOW[1], WINDOW[0], "7", 0),
    ],
)
def test_windows(
    begin: int, end: int, days: str, count: int, real_dir: Directory, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("time.time_ns", lambda: (HOUR + 3 * DAY_MS) * 1_000_000)
    with BrokerView(opened(real_dir, tmp_path, maxRocksDBIndexQueryDays=days), "5.5.0") as broker:
        found = broker.query_message("RdbOrder", "TagA", 64, begin, end, by_tags=True)
    assert len(found) == count


def test_neither_index_is_read(real_dir: Directory, tmp_path: Path) -> None:
    store = opened(real_dir, tmp_path, indexRocksDBEnable="false")
    with BrokerView(store, "5.5.0") as broker:
        assert broker.query_message("RdbOrder", "TagA", 64, *WINDOW, by_tags=True) == ()
    with BrokerView(store, "5.3.3") as older:
        assert older.query_message("RdbOrder", "C000020225994E0E2F2A6DDAC2760020") != ()


def test_without_a_conf_the_only_index_answers(real_copy: Directory) -> None:
    root = real_copy(NAME)
    with BrokerView(open_store(root), "5.5.0") as broker:
        before = broker.query_message("RdbOrder", "TagA", 64, *WINDOW, by_tags=True)
    for file in (root / "index").iterdir():
        file.unlink()
    with BrokerView(open_store(root), "5.5.0") as broker:
        assert broker.query_message("RdbOrder", "TagA", 64, *WINDOW, by_tags=True) == before
    assert len(before) == 11
    conf = root.parent / "broker.conf"
    conf.write_text("indexFileReadEnable=true\n")
    with BrokerView(open_store(root, broker_conf=conf), "5.5.0") as broker:
        assert broker.query_message("RdbOrder", "TagA", 64, *WINDOW, by_tags=True) == ()
