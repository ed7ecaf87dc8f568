"""The rules CP of checkpoint, abort, lock and epochs: each fires in one store and not in another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocketfsck.formats.record import Blank, encode_blank
from rocketfsck.formats.smallfiles import EpochEntry, encode_epochs
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.store.checkpoint import check_checkpoint
from rocketfsck.verify.tasks.task import Known

from tests.unit.verify.storemaker import LOG_SIZE, NOW, Maker, knowing, log_facts, rules

DAY = 86_400_000
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX, 1, 0)
print(1, flush=True)
input()
"""
FIRST, SECOND = "20231114221320000", "20231114221321000"


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    """Two commit log files, two index files, a checkpoint that fits them."""
    made = Maker(tmp_path)
    made.log(0, stored=NOW - 20_000)
    made.log(LOG_SIZE, stored=NOW - 10_000)
    made.index(FIRST, end=NOW - 9000)
    made.index(SECOND, end=NOW)
    made.checkpoint(NOW, NOW, NOW - 9000)
    made.file("lock", b"lock")
    return made


def test_a_sound_store_has_no_findings(maker: Maker) -> None:
    assert maker.found(check_checkpoint, version="5.3.3") == []


def test_cp001_abort_and_what_the_next_start_does(maker: Maker) -> None:
    maker.file("abort")
    found = maker.found(check_checkpoint)
    assert rules(found) == ["CP001", "CP003", "CP004"]
    doomed, start = found[1:]
    assert doomed.where.file == f"index/{SECOND}"
    assert doomed.found["entry_count"] == 2
    assert doomed.expected == {"index_msg_timestamp": NOW - 9000}
    assert (start.where.file, start.found["scan_count"]) == ("commitlog/00000000000000004096", 1)


def test_cp002_abort_of_a_running_broker_is_normal(maker: Maker) -> None:
    maker.file("abort", b"4711")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(maker.root / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        found = maker.found(check_checkpoint, version="5.3.3")
        holder.communicate("\n")
    assert rules(found) == ["CP002"]


def test_cp003_spares_files_that_are_older_than_the_checkpoint_or_empty(maker: Maker) -> None:
    maker.file("abort")
    maker.index(SECOND, end=NOW, count=1)
    assert rules(maker.found(check_checkpoint)) == ["CP001", "CP004"]


def test_cp004_starts_with_the_newest_file_that_is_old_enough(maker: Maker) -> None:
    maker.file("abort")
    maker.checkpoint(NOW - 9000, NOW, NOW)  # less 3 s: between the first records of the two files
    start = maker.found(check_checkpoint)[-1]
    assert (start.rule, start.where.file) == ("CP004", "commitlog/00000000000000000000")
    assert (start.found["scan_count"], start.found["file_count"]) == (2, 2)


def test_cp004_with_message_index_safe_the_index_time_counts(maker: Maker) -> None:
    maker.file("abort")
    maker.conf.write_text(maker.conf.read_text() + "messageIndexSafe=true\n")
    maker.checkpoint(NOW, NOW, NOW - 15_000)
    start = maker.found(check_checkpoint)[-1]
    assert (start.rule, start.where.file) == ("CP004", "commitlog/00000000000000000000")


def test_cp005_a_checkpoint_older_than_all_records(maker: Maker) -> None:
    maker.file("abort")
    maker.checkpoint(NOW - DAY, NOW, NOW)
    (finding,) = [item for item in maker.found(check_checkpoint) if item.rule == "CP005"]
    assert finding.found["file_count"] == 2
    assert "CP004" not in rules(maker.found(check_checkpoint))


def test_cp005_not_for_a_young_store_of_one_written_file(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.log(0)
    for start in (LOG_SIZE, 2 * LOG_SIZE):  # made in advance
        maker.log(start, stored=None)
    maker.checkpoint(0, 0)
    maker.file("abort")
    found = maker.found(check_checkpoint)
    assert rules(found) == ["CP001", "CP004"]
    assert (found[-1].found["scan_count"], found[-1].found["file_count"]) == (3, 3)
    maker.log(LOG_SIZE)
    assert rules(maker.found(check_checkpoint)) == ["CP001", "CP005"]


def test_cp006_no_checkpoint(maker: Maker) -> None:
    (maker.root / "checkpoint").unlink()
    assert rules(maker.found(check_checkpoint)) == ["CP006"]
    for path in (maker.root / "commitlog").iterdir():
        path.unlink()
    assert maker.found(check_checkpoint) == []


def test_cp007_length(maker: Maker) -> None:
    os.truncate(maker.root / "checkpoint", 24)
    (finding,) = maker.found(check_checkpoint)
    assert (finding.rule, finding.found["size"]) == ("CP007", 24)


def test_cp008_bytes_behind_the_fields(maker: Maker) -> None:
    path = maker.root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[200:202] = b"\1\2"
    path.write_bytes(data)
    (finding,) = maker.found(check_checkpoint)
    assert (finding.rule, finding.where.start, finding.where.end) == ("CP008", 200, 202)
    assert finding.found["bytes_hex"] == "0102"


def test_cp009_negative_fields_of_this_version_only(maker: Maker) -> None:
    maker.checkpoint(-1, NOW, NOW - 9000, -5)
    (finding,) = maker.found(check_checkpoint, version="4.9.8")
    assert (finding.rule, finding.found["field"]) == ("CP009", "physicMsgTimestamp")
    assert [item.found["field"] for item in maker.found(check_checkpoint, version="5.0.0")] == [
        "physicMsgTimestamp",
        "masterFlushedOffset",
    ]


def test_cp010_the_future_is_later_than_this_clock_and_the_brokers(maker: Maker) -> None:
    maker.checkpoint(NOW + 2 * DAY, NOW, NOW - 9000)
    (finding,) = maker.found(check_checkpoint)
    assert (finding.rule, finding.where.start, finding.where.end) == ("CP010", 0, 8)
    later = (NOW + 3 * DAY) * 1_000_000
    os.utime(maker.root / "commitlog/00000000000000004096", ns=(later, later))
    assert maker.found(check_checkpoint) == []


def test_cp011_ahead_of_the_newest_record(maker: Maker) -> None:
    logs = (log_facts(0, stored=NOW - 20_000), log_facts(LOG_SIZE, stored=NOW - 1))
    found = maker.found(check_checkpoint, knowing(logs=logs))
    assert rules(found) == ["CP011", "CP011"]
    assert found[0].expected == {"newest_timestamp": NOW - 1}
    logs = (logs[0], log_facts(LOG_SIZE, stored=NOW))
    assert maker.found(check_checkpoint, knowing(logs=logs)) == []
    assert maker.found(check_checkpoint, knowing(logs=(logs[0], None))) == []


def test_cp012_behind_the_oldest_record(maker: Maker) -> None:
    known = knowing(logs=(log_facts(0, stored=NOW - 20_000), log_facts(LOG_SIZE, stored=NOW)))
    maker.checkpoint(NOW - DAY, NOW, NOW - 9000)
    (finding,) = maker.found(check_checkpoint, known)
    assert (finding.rule, finding.found["field"]) == ("CP012", "physicMsgTimestamp")
    maker.file("abort")  # then it is CP005 that tells
    assert "CP012" not in rules(maker.found(check_checkpoint, known))


def test_cp013_index_time(maker: Maker) -> None:
    maker.checkpoint(NOW, NOW, NOW - 9001)
    (finding,) = maker.found(check_checkpoint)
    assert (finding.rule, finding.expected["value"]) == ("CP013", NOW - 9000)
    (maker.root / f"index/{SECOND}").unlink()
    (finding,) = maker.found(check_checkpoint)
    assert finding.expected == {"value": 0}


@pytest.mark.parametrize("offset", [0, LOG_SIZE, LOG_SIZE + 500])
def test_cp014_the_confirm_offset_is_a_record_a_blank_or_the_end(maker: Maker, offset: int) -> None:
    logs = (log_facts(0, stored=NOW), log_facts(LOG_SIZE, stored=NOW, end=LOG_SIZE + 500))
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, offset)
    assert maker.found(check_checkpoint, knowing(logs=logs), version="5.1.3") == []
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, LOG_SIZE + 7)
    (finding,) = maker.found(check_checkpoint, knowing(logs=logs), version="5.1.3")
    assert (finding.rule, finding.where.physical_offset) == ("CP014", LOG_SIZE + 7)
    assert maker.found(check_checkpoint, knowing(logs=logs), version="5.1.0") == []


def test_cp014_takes_a_blank_for_an_end_and_not_a_record_of_another_place(maker: Maker) -> None:
    path = maker.root / "commitlog/00000000000000000000"
    data = bytearray(path.read_bytes())
    data[200:208] = encode_blank(Blank(LOG_SIZE - 200))
    data[300:400] = data[0:100]
    path.write_bytes(data)
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, 200)
    assert maker.found(check_checkpoint, version="5.1.3") == []
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, 300)
    assert rules(maker.found(check_checkpoint, version="5.1.3")) == ["CP014"]
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, LOG_SIZE - 4)
    assert rules(maker.found(check_checkpoint, version="5.1.3")) == ["CP014"]


def test_cp015_confirmed_beyond_the_end(maker: Maker) -> None:
    maker.checkpoint(NOW, NOW, NOW - 9000, 0, 3 * LOG_SIZE)
    (finding,) = maker.found(check_checkpoint, version="5.1.3")
    assert (finding.rule, finding.expected["end_offset"]) == ("CP015", 2 * LOG_SIZE)


def test_cp016_lock_content(maker: Maker) -> None:
    maker.file("lock", b"")
    assert maker.found(check_checkpoint) == []
    maker.file("lock", b"LOCK")
    (finding,) = maker.found(check_checkpoint)
    assert (finding.rule, finding.found["bytes_hex"]) == ("CP016", "4c4f434b")


def test_cp017_zero_times(maker: Maker) -> None:
    maker.checkpoint(0, 0, NOW - 9000)
    assert maker.found(check_checkpoint) == []  # nothing was ever dispatched
    maker.file("consumequeue/T/0/" + "0" * 20, bytes(20 * 50))
    assert rules(maker.found(check_checkpoint)) == ["CP017"]
    maker.log(0, stored=None)
    assert maker.found(check_checkpoint) == []


def epochs(maker: Maker, *entries: tuple[int, int]) -> None:
    data = encode_epochs([EpochEntry(epoch, start) for epoch, start in entries])
    maker.file("epochFileCheckpoint", data)


def test_epochs_that_fit_the_log_give_no_findings(maker: Maker) -> None:
    epochs(maker, (1, 0), (2, LOG_SIZE), (3, 2 * LOG_SIZE), (4, 2 * LOG_SIZE))
    assert maker.found(check_checkpoint, version="5.1.3") == []


@pytest.mark.parametrize(
    ("backup", "state"), [(None, "absent"), (b"nonsense", "damaged"), (b"1\n0\n1-0\n", "sound")]
)
def test_cp020_damaged_epochs(maker: Maker, backup: bytes | None, state: str) -> None:
    maker.file("epochFileCheckpoint", b"1\n12345\n1-0\n")
    if backup is not None:
        maker.file("epochFileCheckpoint.bak", backup)
    (finding,) = maker.found(check_checkpoint, version="5.1.3")
    assert (finding.rule, finding.where.start, finding.found["backup_state"]) == ("CP020", 2, state)


@pytest.mark.parametrize("second", [(1, LOG_SIZE), (0, LOG_SIZE)])
def test_cp022_epochs_ascend(maker: Maker, second: tuple[int, int]) -> None:
    epochs(maker, (1, 0), second)
    (finding,) = maker.found(check_checkpoint, version="5.1.3")
    assert (finding.rule, finding.found["line"]) == ("CP022", 4)
    data = (maker.root / "epochFileCheckpoint").read_bytes()
    assert data[finding.where.start : finding.where.end] == b"%d-%d\n" % second


def test_cp022_starts_ascend(maker: Maker) -> None:
    epochs(maker, (1, LOG_SIZE), (2, 0))
    assert rules(maker.found(check_checkpoint, version="5.1.3")) == ["CP022"]


def test_cp023_an_epoch_behind_the_end(maker: Maker) -> None:
    epochs(maker, (1, 0), (2, 2 * LOG_SIZE + 1))
    (finding,) = maker.found(check_checkpoint, version="5.1.3")
    assert (finding.rule, finding.expected["end_offset"]) == ("CP023", 2 * LOG_SIZE)
    known = knowing(logs=(log_facts(0), log_facts(LOG_SIZE, stored=NOW)))
    epochs(maker, (1, 0), (2, LOG_SIZE + 1000))
    assert rules(maker.found(check_checkpoint, known, version="5.1.3")) == ["CP023"]


def test_cp024_an_epoch_in_the_middle_of_a_record(maker: Maker) -> None:
    epochs(maker, (1, 0), (2, LOG_SIZE + 3))
    (finding,) = maker.found(check_checkpoint, version="5.1.3")
    assert (finding.rule, finding.where.physical_offset) == ("CP024", LOG_SIZE + 3)
    path = maker.root / "epochFileCheckpoint"
    for separator in (b"\n", b"\r\n"):
        path.write_bytes(
            path.read_bytes().replace(b"\n", separator).replace(path.read_bytes().split()[1], b"0")
        )
        (finding,) = maker.found(check_checkpoint, version="5.1.3")
        line = path.read_bytes()[finding.where.start : finding.where.end]
        assert line == b"2-%d" % (LOG_SIZE + 3) + separator


def test_cp024_not_for_epochs_that_expired_or_without_a_log(maker: Maker) -> None:
    (maker.root / "commitlog/00000000000000000000").unlink()
    epochs(maker, (1, 17), (2, LOG_SIZE))
    assert maker.found(check_checkpoint, version="5.1.3") == []
    (maker.root / "commitlog/00000000000000004096").unlink()
    assert maker.found(check_checkpoint, version="5.1.3") == []


def test_cp025_a_master_that_had_flushed_more(maker: Maker) -> None:
    maker.checkpoint(NOW, NOW, NOW - 9000, 2 * LOG_SIZE)
    assert maker.found(check_checkpoint, version="5.3.3") == []
    maker.checkpoint(NOW, NOW, NOW - 9000, 2 * LOG_SIZE + 1)
    (finding,) = maker.found(check_checkpoint, version="5.3.3")
    assert (finding.rule, finding.where.start, finding.where.end) == ("CP025", 24, 32)
    assert (finding.found["value"], finding.expected["end_offset"]) == (2 * LOG_SIZE + 1, 2 * LOG_SIZE)
    assert maker.found(check_checkpoint) == []  # 4.9.8 does not write the field


@pytest.mark.parametrize("name", ["checkpoint", "lock", "epochFileCheckpoint", f"index/{SECOND}"])
def test_what_cannot_be_read_is_said(maker: Maker, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs(maker, (1, 0))
    store = maker.open("5.1.3")
    (maker.root / name).unlink()
    monkeypatch.setattr(Maker, "open", lambda *_: store)
    items = maker.run(check_checkpoint, Known())
    left_out = [item for item in items if isinstance(item, NotChecked)]
    assert [(item.what, item.operational) for item in left_out] == [(name, True)]


def test_an_index_file_without_a_header_is_passed_over(maker: Maker) -> None:
    maker.index(SECOND, size=39)
    maker.file("abort")
    items = [item for item in maker.run(check_checkpoint) if isinstance(item, Finding)]
    assert "CP003" not in rules(items)


def test_abort_without_a_commit_log_predicts_nothing(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    maker.file("abort")
    maker.checkpoint()
    assert rules(maker.found(check_checkpoint)) == ["CP001"]
