"""The rules ST of names, presence and the store as a whole: each fires in one store and not in another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rocketfsck.formats.dialect import NEWEST_NAME
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import LiveState, LockState
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.rules.catalog import describe
from rocketfsck.verify.run import check_store
from rocketfsck.verify.store.layout import check_layout
from rocketfsck.verify.tasks.task import Context, Known

from tests.conftest import Directory
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
    """A sound store: two commit log files, a queue, an index file, a checkpoint."""
    made = Maker(tmp_path)
    made.log(0)
    made.log(LOG_SIZE)
    made.queue("T", 0)
    made.index("20231114221320000")
    made.checkpoint()
    return made


def test_a_sound_store_has_no_findings(maker: Maker) -> None:
    assert maker.found(check_layout) == []


@pytest.mark.parametrize(
    ("version", "effect"),
    [
        ("4.4.0", "ignores it and all files that sort after it: 1 (4.4.0)"),
        ("4.9.8", "refuses to start (4.9.8)"),
        ("5.3.3", "refuses to start (5.3.3)"),
    ],
)
def test_st001_segment_of_another_length(maker: Maker, version: str, effect: str) -> None:
    maker.log(0, size=LOG_SIZE - 1)
    (finding,) = maker.found(check_layout, version=version)
    assert finding.rule == "ST001"
    assert finding.where.file == "commitlog/00000000000000000000"
    assert (finding.found["size"], finding.expected["size"]) == (LOG_SIZE - 1, LOG_SIZE)
    assert finding.found["effect"] == effect
    assert "a broker " + effect in describe(finding)


def test_st001_in_a_queue_names_the_queue(maker: Maker) -> None:
    maker.queue("T", 0, QUEUE_SIZE, size=QUEUE_SIZE - 20)
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.where.topic, finding.where.queue_id) == ("ST001", "T", 0)


def test_st002_empty_last_segment_is_deleted_by_5_1_3_and_stops_4_9_8(maker: Maker) -> None:
    maker.log(2 * LOG_SIZE, size=0)
    assert rules(maker.found(check_layout, version="5.1.3")) == ["ST002"]
    assert rules(maker.found(check_layout, version="4.9.8")) == ["ST001"]
    maker.log(3 * LOG_SIZE)
    assert rules(maker.found(check_layout, version="5.1.3")) == ["ST001"]


def test_st003_foreign_file_stops_a_broker_or_hides_all_that_follow(maker: Maker) -> None:
    maker.file("commitlog/.swap", b"hello")
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.where.file) == ("ST003", "commitlog/.swap")
    assert finding.found["effect"] == "refuses to start (4.9.8)"
    (finding,) = maker.found(check_layout, version="4.4.0")
    assert finding.found["effect"] == "ignores it and all files that sort after it: 2 (4.4.0)"


def test_st003_a_name_that_is_no_number_stops_every_version_even_at_the_right_length(maker: Maker) -> None:
    maker.file("commitlog/zzz", size=LOG_SIZE)
    (finding,) = maker.found(check_layout, version="4.4.0")
    assert (finding.rule, finding.found["effect"]) == ("ST003", "refuses to start (4.4.0)")


def test_st003_lists_the_versions_that_differ(maker: Maker) -> None:
    maker.file("commitlog/.swap", b"hello")
    store = open_store(maker.root, broker_conf=maker.conf)
    (finding,) = [
        item for item in check_layout(Context(store, "quick", NOW), Known()) if isinstance(item, Finding)
    ]
    assert finding.rule == "ST003"
    text = str(finding.found["effect"])
    assert f"refuses to start (4.7.1 to 4.9.1, 4.9.3 to {NEWEST_NAME})" in text
    assert "ignores it and all files that sort after it: 2 (4.9.2)" in text


def test_st004_a_directory_is_skipped_since_5_1_0_and_stops_earlier_versions(maker: Maker) -> None:
    (maker.root / "commitlog/00000000000000008192").mkdir()
    assert rules(maker.found(check_layout, version="5.1.0")) == ["ST004"]
    assert rules(maker.found(check_layout, version="5.0.0")) == ["ST003"]


def test_st005_a_short_number_is_loaded_as_a_segment(maker: Maker) -> None:
    maker.file("commitlog/+8192", size=LOG_SIZE)
    (finding,) = (item for item in maker.found(check_layout) if item.rule == "ST005")
    assert finding.found["offset"] == 8192


def test_st019_an_empty_commit_log_costs_the_queues(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.queue("T", 0)
    maker.checkpoint()
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.found["queue_count"]) == ("ST019", 1)
    assert finding.found["effect"] == "deletes all these queues at its start (4.9.8)"
    assert describe(finding).endswith("bytes: a broker deletes all these queues at its start (4.9.8)")
    (finding,) = maker.found(check_layout, version="4.4.0")
    assert finding.found["effect"] == "keeps the queues, although no message is left (4.4.0)"
    maker.file("abort")
    (finding,) = maker.found(check_layout, version="4.4.0")
    assert finding.found["effect"] == "deletes all these queues at its start (4.4.0)"


def test_st019_index_entries_alone_show_that_the_log_is_gone(store_dir: Directory, tmp_path: Path) -> None:
    """The disk with log and queues is not mounted, or they were moved: the index knows messages."""
    root = Path(shutil.copytree(store_dir("5.3.3-multiseg"), tmp_path / "store"))
    for name in ("commitlog", "consumequeue"):
        shutil.rmtree(root / name)
    report = check_store(open_store(root))
    (finding,) = (item for item in report.findings if item.rule == "ST019")
    assert finding.found["entry_count"] == 3123
    assert "3,123 index entries without a queue: a broker begins a new log" in describe(finding)
    assert report.account is not None and report.account.lost_count > 1000
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    assert not [item for item in check_store(open_store(root)).findings if item.rule == "ST019"]


def test_st019_not_where_dledger_has_the_log(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.queue("T", 0)
    maker.file("dledger-n0/data/00000000000000000000", b"\0", 4096)
    assert maker.found(check_layout) == []


def test_st020_queues_of_another_log(maker: Maker) -> None:
    logs = (log_facts(0), log_facts(LOG_SIZE))
    far = knowing(queue_facts("T", 0, 0, 5, end=10 * LOG_SIZE), logs=logs)
    (finding,) = maker.found(check_layout, far)
    assert (finding.rule, finding.found["max_physical_end_offset"]) == ("ST020", 10 * LOG_SIZE)
    near = knowing(queue_facts("T", 0, 0, 5, end=LOG_SIZE), logs=logs)
    assert maker.found(check_layout, near) == []
    unknown = knowing(queue_facts("T", 0, 0, 5, end=10 * LOG_SIZE), logs=(log_facts(0), None))
    assert maker.found(check_layout, unknown) == []


def test_st021_an_empty_directory_is_no_store(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.file("abort", b"", 0)
    (finding,) = [one for one in maker.found(check_layout) if one.rule[:2] == "ST"]
    assert (finding.rule, finding.found["root"]) == ("ST021", str(maker.root))
    maker.checkpoint()
    assert not [one for one in maker.found(check_layout) if one.rule == "ST021"]


def test_st022_queue_directories_are_named_by_numbers(maker: Maker) -> None:
    maker.file("consumequeue/T/zero/00000000000000000000", b"\1", QUEUE_SIZE)
    maker.queue("T", -1)
    found = maker.found(check_layout)
    assert rules(found) == ["ST022", "ST022"]
    assert {finding.where.file for finding in found} == {"consumequeue/T/-1", "consumequeue/T/zero"}


def test_st023_a_topic_of_two_kinds(maker: Maker) -> None:
    maker.file("batchconsumequeue/B/0/00000000000000000000", b"\1", 460)
    assert maker.found(check_layout, version="5.1.3") == []
    maker.file("batchconsumequeue/T/0/00000000000000000000", b"\1", 460)
    (finding,) = maker.found(check_layout, version="5.1.3")
    assert (finding.rule, finding.where.topic) == ("ST023", "T")


def test_st026_extension_without_a_queue(maker: Maker) -> None:
    maker.file("consumequeue_ext/T/0/00000000000000000000", b"\0\x08", 64)
    assert maker.found(check_layout) == []
    maker.file("consumequeue_ext/Gone/0/00000000000000000000", b"\0\x08", 64)
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.where.file) == ("ST026", "consumequeue_ext/Gone/0")


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


def test_st030_a_running_broker_holds_the_lock(maker: Maker) -> None:
    lock = maker.file("lock", b"lock")
    assert maker.found(check_layout) == []
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        (finding,) = maker.found(check_layout)
        holder.stdin.close()
    assert (finding.rule, finding.found["pid"]) == ("ST030", holder.pid)


def test_st031_an_untestable_lock_is_said(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    state = LiveState(LockState.UNKNOWN, "the file system has no record locks")
    monkeypatch.setattr("rocketfsck.store.opening.read_live_state", lambda _path: state)
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.found["how"]) == ("ST031", state.how)


def test_st032_brokers_ignore_index_files_whose_names_are_no_numbers(maker: Maker) -> None:
    maker.index("copy of 20231114221320000")
    (finding,) = maker.found(check_layout)
    assert finding.rule == "ST032"


def test_st033_a_number_that_is_no_time_is_loaded(maker: Maker) -> None:
    maker.index("7")
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.where.file) == ("ST033", "index/7")


def test_st035_a_directory_in_the_index(maker: Maker) -> None:
    (maker.root / "index/00").mkdir()
    (finding,) = maker.found(check_layout, version="5.1.0")
    assert (finding.rule, finding.found["effect"]) == ("ST035", "refuses to start (5.1.0)")
    (finding,) = maker.found(check_layout, version="5.0.0")
    assert finding.found["effect"] == "does not load 1 index file that sorts after it (5.0.0)"


def test_st035_is_not_about_names_that_are_no_numbers(maker: Maker) -> None:
    """A real 5.5.0 starts with index/lost+found: the name is looked at before the directory is opened."""
    (maker.root / "index/lost+found").mkdir()
    (finding,) = maker.found(check_layout, version="5.1.0")
    assert (finding.rule, finding.where.file) == ("ST032", "index/lost+found")


def test_st040_a_copy_without_times(maker: Maker) -> None:
    logs = (log_facts(0), log_facts(LOG_SIZE))
    assert maker.found(check_layout, knowing(logs=logs)) == []
    copied = (NOW // 1000 + 7200) * 1_000_000_000
    for path in (maker.root / "commitlog").iterdir():
        os.utime(path, ns=(copied, copied))
    (finding,) = maker.found(check_layout, knowing(logs=logs))
    assert (finding.rule, finding.found["file_count"]) == ("ST040", 2)
    assert maker.found(check_layout, knowing(logs=(log_facts(0), None))) == []


def test_st041_strays_are_named_and_harmless(maker: Maker) -> None:
    maker.file("notes.txt", b"x")
    maker.file("consumequeue/readme", b"x")
    found = maker.found(check_layout)
    assert rules(found) == ["ST041", "ST041"]
    assert {finding.where.file for finding in found} == {"notes.txt", "consumequeue/readme"}
    assert maker.file("config/topics.json.tmp").exists()  # told of by the rules of config files
    assert len(maker.found(check_layout)) == 2


def test_st042_a_link_that_leads_nowhere(maker: Maker) -> None:
    (maker.root / "kvStore").symlink_to(maker.root / "nowhere")
    (finding,) = maker.found(check_layout)
    assert (finding.rule, finding.where.file) == ("ST042", "kvStore")
