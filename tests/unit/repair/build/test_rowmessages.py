"""The database of messages made anew: index rows as a real broker put them, and what is copied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import EXIT_CLEAN, EXIT_PROBLEMS, EXIT_USAGE, UsageError
from rocketfsck.formats.rocks import MARKS, TimerKey, TransKey, encode_timer_key, encode_trans_key
from rocketfsck.repair.build.databases import build_message_rows
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.store import open_store
from rocketfsck.store.rocks.families import MESSAGE_DATABASE
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.databases import change_rows, copied_store, database_of, rows_of

NAME = "5.5.0-rocksdb-all"
ROWS = RebuildOptions(message_rows=True, sync=False)


@pytest.fixture
def root(real_dir: Directory, tmp_path: Path) -> Path:
    return copied_store(real_dir(NAME), tmp_path / "store")


def replaced(root: Path, target: Path) -> Path:
    """The store with the database that was built in the place of its own."""
    shutil.rmtree(root / MESSAGE_DATABASE)
    (target / MESSAGE_DATABASE).rename(root / MESSAGE_DATABASE)
    return root


def test_the_rows_are_those_of_the_broker(root: Path, tmp_path: Path) -> None:
    before = rows_of(database_of(root, MESSAGE_DATABASE))
    done = rebuild_store(open_store(root), tmp_path / "built", ROWS)
    assert (done.record_count, done.damaged_files) == (184, ())
    rows = done.message_rows
    assert rows is not None
    assert (rows.record_count, rows.index_row_count) == (182, 500)
    assert (rows.kept_counts, rows.lost, rows.notes) == ({"timer": 29, "trans": 0}, (), ())
    assert len(before["default"]) == 502
    assert rows_of(database_of(replaced(root, tmp_path / "built"), MESSAGE_DATABASE)) == before


def test_index_rows_that_are_gone_or_changed_are_there_again(root: Path, tmp_path: Path) -> None:
    before = rows_of(database_of(root, MESSAGE_DATABASE))
    keys = [key for key in before["default"] if key not in MARKS["default"]]
    change_rows(
        root, MESSAGE_DATABASE, "default", {keys[0]: None, keys[1]: bytes(8), keys[2][:-1] + b"?": bytes(8)}
    )
    rules = {item.rule for item in check_store(open_store(root), CheckOptions(jobs=1)).findings}
    assert rules >= {"RK012", "RK013"}
    rebuild_store(open_store(root), tmp_path / "built", ROWS)
    replaced(root, tmp_path / "built")
    assert rows_of(database_of(root, MESSAGE_DATABASE)) == before
    found = check_store(open_store(root), CheckOptions(jobs=1)).findings
    assert not [item for item in found if item.rule.startswith("RK")]


def test_timers_and_prepared_messages_are_copied(root: Path, tmp_path: Path) -> None:
    timer = encode_timer_key(TimerKey(1 << 42, b"unique"))
    trans = encode_trans_key(TransKey(77, b"Topic", b"unique"))
    change_rows(root, MESSAGE_DATABASE, "timer", {timer: b""})
    change_rows(root, MESSAGE_DATABASE, "trans", {trans: bytes(8)})
    rows = build_message_rows(open_store(root), tmp_path / "built")
    assert rows.kept_counts == {"timer": 30, "trans": 1}
    made = rows_of(database_of(replaced(root, tmp_path / "built"), MESSAGE_DATABASE))
    assert (made["timer"][timer], made["trans"]) == (b"", {trans: bytes(8)})


def test_what_cannot_be_copied_is_said(root: Path, tmp_path: Path) -> None:
    before = rows_of(database_of(root, MESSAGE_DATABASE))
    (manifest,) = (root / MESSAGE_DATABASE).glob("MANIFEST-*")
    manifest.unlink()
    rows = build_message_rows(open_store(root), tmp_path / "built")
    assert (rows.lost, rows.kept_counts) == (("timer",), {})
    (note,) = rows.notes
    assert f"the rows of timer are lost ({root}/rocksdbstore: " in note
    assert note.endswith("and delivers messages a second time")
    made = rows_of(database_of(replaced(root, tmp_path / "built"), MESSAGE_DATABASE))
    assert made == {"default": before["default"], "timer": {}, "trans": {}}


def test_a_store_without_the_database_and_without_timers(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")
    shutil.rmtree(root / MESSAGE_DATABASE)
    store = open_store(root, version="5.5.0")
    rows = build_message_rows(store, tmp_path / "built")
    assert (rows.lost, rows.kept_counts, rows.notes) == ((), {}, ())
    assert rows.index_row_count > rows.record_count > 200


def test_an_empty_log(root: Path, tmp_path: Path) -> None:
    for path in (root / "commitlog").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    rows = build_message_rows(open_store(root), tmp_path / "built")
    assert (rows.record_count, rows.index_row_count, rows.kept_counts["timer"]) == (0, 0, 29)
    assert rows_of(database_of(replaced(root, tmp_path / "built"), MESSAGE_DATABASE))["default"] == {}


def test_versions_without_such_a_database(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"brokers of version 5\.3\.3 have no RocksDB of messages"):
        rebuild_store(open_store(root, version="5.3.3"), tmp_path / "built", ROWS)


def rebuild(root: Path, target: Path, *more: str, what: str = MESSAGE_DATABASE) -> int:
    return run(["rebuild", what, str(root), "--into", str(target), "--no-sync", *more])


def test_the_command(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rebuild(root, tmp_path / "built") == EXIT_CLEAN
    said = capsys.readouterr().out
    assert "the RocksDB rocksdbstore with 500 index rows, and 29 rows of the old one, of 184" in said
    (root / MESSAGE_DATABASE / "CURRENT").write_bytes(b"x")
    assert rebuild(root, tmp_path / "json", "--format", "json") == EXIT_PROBLEMS
    assert json.loads(capsys.readouterr().out)["message_rows"]["lost"] == ["timer"]
    assert rebuild(root, tmp_path / "text") == EXIT_PROBLEMS
    assert "warning: rocksdbstore: the rows of timer are lost" in capsys.readouterr().err
    assert rebuild(root, tmp_path / "x", "--only-missing-tail") == EXIT_USAGE
    assert rebuild(root, tmp_path / "x", "--engine", "spark") == EXIT_USAGE


def test_all_takes_it_in_where_the_settings_say_so(root: Path, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    for value in ("true", "false"):
        conf.write_text(f"mappedFileSizeCommitLog=65536\nindexRocksDBEnable={value}\n")
        assert rebuild(root, tmp_path / value, "--broker-conf", str(conf), what="all") == EXIT_CLEAN
        assert (tmp_path / value / "consumequeue").is_dir()
        assert (tmp_path / value / MESSAGE_DATABASE).is_dir() == (value == "true")
