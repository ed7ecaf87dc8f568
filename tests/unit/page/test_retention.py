"""What retention takes on the page: what `query retention` finds, file by file, summed up and in order."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rocketfsck.commands.query import RetentionQuery, query_retention
from rocketfsck.page.collect import retention_of
from rocketfsck.page.tables import DEFAULT
from rocketfsck.query.retention import FileRetention, Retention

from tests.conftest import Directory
from tests.pagesamples import NOW, checked_page

OFFSETS = '{"offsetTable":{"Exp0@slow":{0:80},"Exp1@quick":{0:999}}}'


def expired(store_dir: Directory, tmp_path: Path) -> Path:
    """A store of which a group has not consumed what goes first."""
    store = Path(shutil.copytree(store_dir("4.9.8-expired"), tmp_path / "store"))
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "consumerOffset.json").write_text(OFFSETS, "utf-8")
    return store


def test_the_page_says_what_the_query_finds(store_dir: Directory, tmp_path: Path) -> None:
    store = expired(store_dir, tmp_path)
    page = checked_page(store)
    found = query_retention(RetentionQuery(path=store, as_of=NOW)).found
    said = page.retention
    assert said is not None and found.unconsumed
    rows = zip(said.steps.start_offset, said.steps.end_offset, said.steps.delete_timestamp, strict=True)
    steps = list(rows)
    for file in found.files:
        (at,) = [at for start, end, at in steps if start <= file.start_offset < end]
        assert at == file.delete_timestamp
    assert [start for start, _, _ in steps][1:] == [end for _, end, _ in steps][:-1]
    assert sum(said.steps.file_count) == len(found.files)
    assert said.steps.is_deleted[-1] is False
    lost = Counter[tuple[str, str]]()
    for row in found.unconsumed:
        lost[row.group, row.topic] += row.message_count
    names = zip(said.unconsumed.group, said.unconsumed.topic, strict=True)
    assert dict(zip(names, said.unconsumed.message_count, strict=True)) == lost
    assert (said.reserved_hours, said.delete_hours, said.now_timestamp) == (72, (4,), NOW)


def test_a_setting_that_names_no_hour_deletes_nothing(store_dir: Directory, tmp_path: Path) -> None:
    found = query_retention(RetentionQuery(path=expired(store_dir, tmp_path), as_of=NOW)).found
    never = tuple(replace(file, delete_timestamp=None) for file in found.files)
    said = retention_of(replace(found, files=never), DEFAULT)
    assert said.steps.delete_timestamp == (None, None)
    assert said.steps.is_deleted == (True, False)


def test_a_problem_is_said_in_printable_text(store_dir: Directory, tmp_path: Path) -> None:
    found = query_retention(RetentionQuery(path=expired(store_dir, tmp_path), as_of=NOW)).found
    said = retention_of(replace(found, unconsumed=(), problem="no groups: a file\x1b in config/"), DEFAULT)
    assert said.problem == "no groups: a file\\x1b in config/"
    assert said.unconsumed_counts.count == 0


def test_a_log_that_cannot_be_read_is_left_out(store_dir: Directory, tmp_path: Path) -> None:
    store = expired(store_dir, tmp_path)
    last = sorted((store / "commitlog").iterdir())[-1]
    last.unlink()
    os.mkfifo(last)
    page = checked_page(store)
    reasons = {one.what for one in page.left_out}
    assert page.retention is not None or "retention" in reasons


def test_the_first_times_are_listed_and_all_are_counted(store_dir: Directory, tmp_path: Path) -> None:
    found = query_retention(RetentionQuery(path=expired(store_dir, tmp_path), as_of=NOW)).found
    files = tuple(FileRetention(f"commitlog/{at}", at * 10, 10, NOW, NOW + at, NOW + at) for at in range(9))
    said = retention_of(
        Retention(found.rules, files, found.unconsumed * 2, None, ()),
        replace(DEFAULT, retention_count=4, unconsumed_count=1),
    )
    assert said.steps.start_offset == (0, 10, 20, 30)
    assert (said.step_counts.count, said.step_counts.kept_count) == (9, 4)
    assert said.unconsumed_counts.kept_count == 1
