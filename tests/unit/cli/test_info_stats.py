"""`info --stats`: the counts of a store, and how its index's keys are spread."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.show.info import statistics_lines
from rocketfsck.cli.show.text import Palette
from rocketfsck.query.info.statistics import StatisticsInfo, statistics_info
from rocketfsck.store import open_store
from rocketfsck.writer import WriteOptions, write_store

from tests.conftest import Directory, Document
from tests.unit.cli.conftest import Cli


def _stats(cli: Cli, path: Path, *options: object) -> dict[str, Any]:
    ended = cli("info", "--stats", path, "--format", "json", *options)
    assert ended.code == 0, ended.err
    statistics: dict[str, Any] = json.loads(ended.out)["statistics"]
    return statistics


def test_counts_are_those_of_the_manifest(cli: Cli, store_dir: Directory, manifest: Document) -> None:
    found = _stats(cli, store_dir("5.3.3-multiseg"))
    messages = [message for phase in manifest("5.3.3-multiseg")["phases"] for message in phase["messages"]]
    assert found["total"]["message_count"] == len(messages)
    assert found["total"]["byte_count"] == sum(message["size"] for message in messages)
    topics = {message["topic"] for message in messages}
    assert {row["topic"] for row in found["topics"]} == topics
    assert sum(row["message_count"] for row in found["days"]) == len(messages)
    assert found["retention"]["reserved_source"] == "default"
    assert [index["entry_count"] > 0 for index in found["indexes"]] == [True] * len(found["indexes"])


def test_info_alone_counts_nothing(cli: Cli, store_dir: Directory) -> None:
    ended = cli("info", store_dir("5.3.3-basic"), "--format", "json")
    assert "statistics" not in json.loads(ended.out)


def test_the_text(cli: Cli, store_dir: Directory) -> None:
    ended = cli("info", "--stats", store_dir("5.1.3-collisions"))
    assert ended.code == 0
    assert "Messages: 146 records, 21.9 KiB" in ended.out
    assert "    Coll513         1           0          38        38   5,660  2023-11-14" in ended.out
    assert "retention: 72 hours (default); 0 commit log files (0 B) are older" in ended.out
    assert "185 entries in 19 of 29 slots; 29 if the keys were spread evenly" in ended.out
    assert "93 of them have the hash 1917288875 (the key fyyufxn of Coll513)" in ended.out


def test_a_long_table_is_cut_unless_all_is_asked_for(cli: Cli, store_dir: Directory) -> None:
    short = cli("info", "--stats", store_dir("5.3.3-basic")).out
    whole = cli("info", "--stats", "-v", store_dir("5.3.3-basic")).out
    queues = len(_stats(cli, store_dir("5.3.3-basic"))["queues"])
    assert f"… {queues - 20:,} more (-v shows all)" in short.partition("by queue")[2]
    assert "more (-v shows all)" not in whole
    assert len(whole.splitlines()) > len(short.splitlines())


def test_retention_follows_the_setting(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=48\n")
    found = _stats(cli, store_dir("4.9.8-multiseg"), "--broker-conf", conf)["retention"]
    assert (found["reserved_hours"], found["reserved_source"]) == (48, "given")
    assert found["expired_file_count"] == 4  # their messages are of 2023; the last file always stays


def test_a_store_without_messages(cli: Cli, tmp_path: Path) -> None:
    write_store(tmp_path / "store", [], WriteOptions(sync=False))
    assert "Messages: none" in cli("info", "--stats", tmp_path / "store").out
    assert _stats(cli, tmp_path / "store")["total"] is None


def test_an_index_file_that_is_too_short_says_so(cli: Cli, store_dir: Directory, tmp_path: Path) -> None:
    shutil.copytree(store_dir("5.1.3-collisions"), tmp_path / "store")
    file = next((tmp_path / "store" / "index").iterdir())
    file.write_bytes(file.read_bytes()[:20])
    assert "is too short for an index file" in cli("info", "--stats", tmp_path / "store").out
    assert "error" in _stats(cli, tmp_path / "store")["indexes"][0]


def test_a_file_has_no_statistics(cli: Cli, store_dir: Directory) -> None:
    ended = cli("info", "--stats", store_dir("5.3.3-basic") / "checkpoint")
    assert (ended.code, ended.out) == (16, "")
    assert "--stats counts what is in a store" in ended.err


def _lines(facts: StatisticsInfo) -> str:
    return "\n".join(statistics_lines(facts, Palette(False), everything=False))


@pytest.mark.parametrize("count", [0, 3])
def test_what_was_not_counted_is_said(store_dir: Directory, count: int) -> None:
    facts = statistics_info(open_store(store_dir("4.9.8-delay")), now_timestamp=0)
    lines = _lines(replace(facts, uncounted_queues=count))
    assert ("3 records belong to queues beyond those counted" in lines) is bool(count)


def test_names_are_shown_printable(store_dir: Directory) -> None:
    facts = statistics_info(open_store(store_dir("5.1.3-collisions")), now_timestamp=0)
    skew = facts.indexes[0].skew
    assert skew is not None
    hottest = skew.hot_key
    assert hottest is not None

    def with_hot(topic: str | None, key: str | None) -> StatisticsInfo:
        hot = replace(hottest, topic=topic, key=key)
        return replace(facts, indexes=(replace(facts.indexes[0], skew=replace(skew, hot_key=hot)),))

    odd = replace(
        with_hot("\x1b]0;x\x07", "a\nb"),
        topics=(replace(facts.topics[0], topic="\x1b[31mred%n"),),
        days=(replace(facts.days[0], day=None),),
    )
    text = _lines(odd)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "without a date" in text
    assert "no record has a key with this hash" in _lines(with_hot(None, None))
