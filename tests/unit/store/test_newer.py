"""Signs of a newer broker in the index: who makes an index, or predicts one, says what is not known.

Stores of 5.5.0 are read as 5.3.4 here, which does not know that tags are indexed.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.store import open_store
from rocketfsck.store.elsewhere import index_note, writes_more_entries
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import Directory

OLDER = "5.3.4"


def test_entries_of_a_newer_broker(real_copy: Directory) -> None:
    root = real_copy("5.5.0-batchcq")
    shutil.rmtree(root / "rocksdbstore")
    store = open_store(root, version=OLDER)
    assert not writes_more_entries(store)
    note = index_note(store)
    assert note is not None
    assert note.startswith("50 of the 149 newest index entries match no key of their records")
    assert any(item.startswith(note) for item in simulate_start(store, "5.3.3").notes)


def test_a_broker_that_indexes_tags_without_any_index_left(real_copy: Directory) -> None:
    root = real_copy("5.5.0-batchcq")
    shutil.rmtree(root / "index")
    store = open_store(root, version=OLDER)
    note = index_note(store)
    assert note is not None
    assert "rocksdbstore/ comes from a broker of 5.4.0 or later" in note
    report = check_store(store, CheckOptions())
    assert "index" in unknown_areas(report.findings)
    assert "ST045" in report.counts
    assert not [action for action in make_plan(store, report).actions if action.name == "rebuild-index"]


@pytest.mark.parametrize(
    "name", ["4.9.8-multiseg", "5.3.3-trans", "4.4.0-basic", "4.9.8-expired", "HEAD-basic"]
)
def test_known_brokers_have_no_such_note(name: str, store_dir: Directory) -> None:
    assert index_note(open_store(store_dir(name))) is None


@pytest.mark.parametrize("name", ["5.5.0-batchcq", "5.5.0-long", "5.5.0-full-killed", "5.5.0-timer"])
def test_tag_entries_are_known_where_they_belong(name: str, real_dir: Directory) -> None:
    store = open_store(real_dir(name))
    assert store.dialect.tag_entries
    assert not writes_more_entries(store)
    assert index_note(store) is None


def test_a_single_odd_entry_is_no_feature(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    index = sorted((root / "index").iterdir())[-1]
    with index.open("r+b") as file:
        file.seek(40 + 4 * 200 + 20 * 5)
        file.write(b"\1\2\3\4")
    assert index_note(open_store(root)) is None


def test_rebuild_warns(real_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(real_dir("5.5.0-batchcq"))
    into = str(tmp_path / "built")
    status = run(["rebuild", "index", place, "--into", into, "--broker-version", OLDER])
    assert status in (0, 4)
    assert "warning: 50 of the 149 newest index entries" in capsys.readouterr().err


def test_salvage_warns(real_dir: Directory, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, into = str(real_dir("5.5.0-batchcq")), str(tmp_path / "saved")
    status = run(["salvage", place, "--into", into, "--dry-run", "--broker-version", OLDER])
    assert status in (0, 1)
    assert "warning: 50 of the 149 newest index entries" in capsys.readouterr().err
