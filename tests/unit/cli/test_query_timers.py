"""`rocketfsck query timers`."""

from __future__ import annotations

import json

from rocketfsck.formats.smallfiles import offset_to_filename

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli


def test_the_command(cli: Cli, real_dir: Directory, store_dir: Directory) -> None:
    ran = cli("query", "timers", real_dir("5.5.0-timer"), "--limit", "11")
    assert ran.code == 0
    assert "deliver" in ran.out and "roll" in ran.out and "delivered 2026-11-24T12:52:46.000Z" in ran.out
    rows = json.loads(cli("query", "timers", real_dir("5.5.0-timer"), "--format", "json").out)
    assert rows["outcome"] == "found" and len(rows["rows"]) == 13
    delayed = json.loads(cli("query", "timers", store_dir("4.9.8-delay"), "--format", "json").out)["rows"]
    assert {row["delay_level"] for row in delayed} == {3, 4} and {row["topic"] for row in delayed} == {"Dly"}
    ran = cli("query", "timers", store_dir("5.3.3-basic"))
    assert ran.code == 4 and "no message waits for a timer or a delay level" in ran.out


def test_the_command_says_what_cannot_be_read(cli: Cli, real_copy: Directory) -> None:
    root = real_copy("5.5.0-timer")
    with (root / "commitlog" / offset_to_filename(0)).open("r+b") as stream:
        stream.truncate(8)
    ran = cli("query", "timers", root)
    assert "the record cannot be read" in ran.out
