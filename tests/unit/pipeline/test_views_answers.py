"""Answers as rows: offsets, topics, subscriptions, what is lost, what a start does, when files expire."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.config import decode_config
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.findings import HOUR_MS
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES, plan_parts
from rocketfsck.query.offsets import group_offsets, queue_offsets
from rocketfsck.query.start.verdict import predict_starts, start_classes, versions_of
from rocketfsck.reader import configs
from rocketfsck.repair.state import lost_messages
from rocketfsck.store import open_store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify import CheckOptions, check_store

from tests.conftest import Directory
from tests.unit.pipeline.viewing import Row, read

FULL = "5.5.0-full-killed"
LOSING = "4.4.0-multiseg--missing-middle-commitlog"
DATABASE = "5.5.0-rocksdb-config-v2"


def _without_place(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("broker", "file", "_corrupt_record")}


@pytest.mark.parametrize("name", ["4.9.8-basic", "5.3.3-basic", FULL, DATABASE])
def test_offsets_are_those_of_the_query(any_dir: Directory, name: str) -> None:
    rows = read("offsets", any_dir(name))
    with lifted(open_store(any_dir(name))) as lifting:
        expected = group_offsets(lifting.store, times=True)
    assert rows
    assert [_without_place(row) for row in rows] == [
        {
            **{member: getattr(one, member) for member in one.__match_args__},
            "standing": one.standing.value,
            "lag": one.lag,
            "lost_count": one.lost_count,
            "ahead_count": one.ahead_count,
            "age_ms": one.age_ms,
        }
        for one in expected
    ]


def test_lag_and_age_of_a_group(real_dir: Directory) -> None:
    """What the broker's file says, and the times that the messages themselves have."""
    root = real_dir(FULL)
    rows = {
        (row["group"], row["queue_id"]): row for row in read("offsets", root) if row["topic"] == "MallOrder"
    }
    assert {place: row["lag"] for place, row in rows.items()} == {
        ("cg-basic", 0): 0,
        ("cg-basic", 1): 0,
        ("cg-retry", 0): 5,
        ("cg-retry", 1): 4,
        ("cg-sql", 0): 0,
        ("cg-sql", 1): 4,
    }
    stored = {
        (row["queue_id"], row["queue_offset"]): row["store_timestamp"]
        for row in read("messages", root, topic="MallOrder")
    }
    late = rows["cg-retry", 0]
    assert (late["offset"], late["next_timestamp"]) == (29, stored[0, 29])
    assert late["age_ms"] == stored[0, 33] - stored[0, 29] > 0
    assert rows["cg-basic", 0]["next_timestamp"] is None
    assert late["file"] == "config/consumerOffset.json"
    (ahead,) = (row for row in read("offsets", real_dir(FULL), topic="MallBatch", queue_id=1))
    assert ahead["group"] == "cg-orderly"


def test_ahead(store_dir: Directory) -> None:
    ahead = [row for row in read("offsets", store_dir("5.3.3-basic")) if row["standing"] == "ahead"]
    assert [(row["group"], row["offset"], row["max_offset"], row["ahead_count"]) for row in ahead] == [
        ("cg-ahead", 999_999, 1, 999_998)
    ]


def test_topics(real_dir: Directory) -> None:
    root = real_dir(FULL)
    rows = {row["topic"]: row for row in read("topics", root)}
    listed = decode_config((root / "config" / "topics.json").read_bytes())["topicConfigTable"]
    assert {topic for topic, row in rows.items() if row["listed"]} == set(listed)
    order = rows["MallOrder"]
    assert order["write_queue_nums"] == listed["MallOrder"]["writeQueueNums"]
    assert order["perm"] == listed["MallOrder"]["perm"]
    queues = [queue for queue in queue_offsets(open_store(root)) if queue.topic == "MallOrder"]
    assert (order["queue_count"], order["count"]) == (len(queues), sum(queue.count for queue in queues))
    assert order["last_timestamp"] == max(queue.last_timestamp or 0 for queue in queues)
    unlisted = [row for row in rows.values() if not row["listed"]]
    assert all(row["queue_count"] and row["perm"] is None for row in unlisted)
    assert [row["topic"] for row in read("topics", root, topic="MallOrder")] == ["MallOrder"]


def test_subscriptions(real_dir: Directory) -> None:
    root = real_dir(FULL)
    rows = {(row["group"], row["topic"]): row for row in read("subscriptions", root)}
    filtered = rows["cg-sql", "MallOrder"]
    assert filtered["expression_type"] == "SQL92"
    assert filtered["expression"] == "region = 'r2' AND TAGS is not null"
    assert (filtered["queue_count"], filtered["listed"], filtered["retry_max_times"]) == (2, True, 16)
    listed = decode_config((root / "config" / "subscriptionGroup.json").read_bytes())
    assert {group for (group, _), row in rows.items() if row["listed"]} == set(
        listed["subscriptionGroupTable"]
    )
    assert rows["SELF_TEST_C_GROUP", None]["queue_count"] == 0


def test_a_group_says_what_it_subscribes_to(real_copy: Directory) -> None:
    """As brokers from 5.0.0 on keep it with the settings."""
    root = real_copy(FULL)
    path = root / "config" / "subscriptionGroup.json"
    value = decode_config(path.read_bytes())
    group = value["subscriptionGroupTable"]["cg-basic"]
    group["subscriptionDataSet"] = [{"topic": "Other", "expressionType": "TAG", "expression": "a || b"}]
    group["consumeEnable"] = False
    path.write_text(json.dumps(value))
    (row,) = (row for row in read("subscriptions", root, topic="Other"))
    assert (row["group"], row["expression"], row["consume_enable"]) == ("cg-basic", "a || b", False)
    assert row["queue_count"] == 0


BROKEN = {
    "offsets": "consumerOffset.json",
    "topics": "topics.json",
    "subscriptions": "subscriptionGroup.json",
}


def _break(root: Path, name: str, change: Callable[[bytes], bytes], *, backup: bool) -> None:
    path = root / "config" / name
    data = path.read_bytes()
    path.write_bytes(change(data))
    other = path.with_name(f"{name}.bak")
    other.unlink(missing_ok=True)
    if backup:
        other.write_bytes(data)


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[: len(data) // 2],
    "not JSON": lambda data: b"<html>" + data,
    "another shape": lambda _: b'{"offsetTable":[1],"topicConfigTable":[1],"subscriptionGroupTable":[1]}',
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("view", "name"), BROKEN.items())
def test_a_broken_config_is_damage(real_copy: Directory, view: str, name: str, change: str) -> None:
    root = real_copy(FULL)
    before = read(view, root)
    _break(root, name, CHANGES[change], backup=False)
    rows = read(view, root)
    (bad,) = (row for row in rows if row["_corrupt_record"])
    said = json.loads(bad["_corrupt_record"])
    assert (bad["file"], said["kind"], said["file"]) == (f"config/{name}", "config", f"config/{name}")
    kept = read(view, root, mode="DROPMALFORMED")
    assert len(kept) == len(rows) - 1
    assert all(row["file"] != f"config/{name}" for row in kept)
    assert len(kept) < len(before) or view == "topics"
    with pytest.raises(StoreError, match=rf"config/{name}.*: no broker loads this config"):
        read(view, root, mode="FAILFAST")


@pytest.mark.parametrize(("view", "name"), BROKEN.items())
def test_the_backup_counts_as_for_a_broker(real_copy: Directory, view: str, name: str) -> None:
    root = real_copy(FULL)
    before = read(view, root)
    _break(root, name, CHANGES["truncated"], backup=True)
    rows = read(view, root, mode="FAILFAST")
    assert [_without_place(row) for row in rows] == [_without_place(row) for row in before]
    assert f"config/{name}.bak" in {row["file"] for row in rows}


def test_a_config_that_cannot_be_read(real_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str, _limit: int) -> bytes:
        raise StoreError("cannot be read: Input/output error", path=path)

    monkeypatch.setattr(configs, "read_whole", fail)
    for mode in ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"):
        with pytest.raises(StoreError, match=r"consumerOffset.json: cannot be read: Input/output error"):
            read("offsets", real_dir(FULL), mode=mode)
    assert read("offsets", real_dir(FULL), ignore_corrupt_files=True) == []
    rows = read("offsets", real_dir(FULL), on_unreadable="row")
    assert {json.loads(row["_corrupt_record"])["kind"] for row in rows} == {"unreadable"}


def test_lost_is_the_account(restart_dir: Directory) -> None:
    root = restart_dir(LOSING)
    store = open_store(root)
    report = check_store(store, CheckOptions(level="cross", jobs=1))
    assert report.account is not None
    rows = read("lost", root)
    assert rows
    expected = [{**one.as_row(), "broker": rows[0]["broker"]} for one in lost_messages(store, report.account)]
    assert [
        {name: value for name, value in row.items() if name not in ("file", "_corrupt_record")}
        for row in rows
    ] == expected
    total = report.account.lost_count + report.account.perhaps_lost_count
    assert sum(row["message_count"] for row in rows) == total > 0
    topic = rows[0]["topic"]
    assert read("lost", root, topic=topic) == [row for row in rows if row["topic"] == topic]
    assert read("lost", root, mode="FAILFAST", columns=("message_count",))
    with pytest.raises(UsageError, match="a quick check does not count messages"):
        plan_parts("lost", find_sources([root]), WantedRows(level="quick"))


def test_a_sound_store_loses_nothing(store_dir: Directory) -> None:
    assert read("lost", store_dir("4.9.8-basic")) == []


def test_more_ranges_than_are_listed(restart_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are counted in a row of their own, so that the sum stays right."""
    from rocketfsck.verify import account

    whole = read("lost", restart_dir(LOSING))
    monkeypatch.setattr(account, "RUN_LIMIT", 2)
    rows = read("lost", restart_dir(LOSING))
    assert len(whole) > len(rows) == 3
    assert rows[-1]["topic"] is rows[-1]["why"] is None
    assert sum(row["message_count"] for row in rows) == sum(row["message_count"] for row in whole)


def test_starts_are_the_predictions(restart_dir: Directory) -> None:
    for name in (LOSING, "4.9.8-basic--torn-tail"):
        store = open_store(restart_dir(name))
        rows = read("starts", restart_dir(name))
        expected: list[dict[str, Any]] = []
        for verdict in predict_starts(store, start_classes(versions_of(store))):
            members: Row = {member: getattr(verdict, member) for member in verdict.__match_args__}
            lists: Row = {name: list(value) for name, value in members.items() if isinstance(value, tuple)}
            own: Row = {**members, **lists, "harmless": verdict.harmless}
            expected += [{**own, "version": version} for version in verdict.alike]
        names = {"broker", "_corrupt_record"}
        assert [{key: row[key] for key in row if key not in names} for row in rows] == expected
        assert [row["version"] for row in rows] == list(map(str, versions_of(store)))


def test_a_start_that_is_refused(real_copy: Directory) -> None:
    root = real_copy(FULL)
    queue = next(queue for queue in open_store(root).queues if queue.files)
    (root / queue.files[-1].relative).write_bytes(b"")
    rows = read("starts", root)
    assert rows
    for row in rows:
        assert row["loads"] or row["reason"]


def test_when_files_expire(store_copy: Directory, tmp_path: Path) -> None:
    root = store_copy("4.9.8-multiseg")
    files = [row for row in read("files", root) if row["kind"] == "commitlog"]
    first = {row["file"]: row["store_timestamp"] for row in reversed(read("messages", root))}
    times = [first[row["file"]] for row in files]
    assert [row["expires_timestamp"] for row in files] == [*(time + 72 * HOUR_MS for time in times[1:]), None]
    conf = tmp_path / "broker.conf"
    conf.write_text("fileReservedTime=48\n")
    (source,) = find_sources([root], broker_confs=[conf])
    from rocketfsck.pipeline.views.table import read_part

    (part,) = plan_parts("files", [replace(source, listed=2)])
    rows = [row for batch in read_part(part) for row in batch.to_pylist()]
    assert [row["expires_timestamp"] for row in rows if row["kind"] == "commitlog"] == [
        *(time + 48 * HOUR_MS for time in times[1:]),
        None,
    ]
    assert {row["expires_timestamp"] for row in rows if row["kind"] != "commitlog"} == {None}
    path = root / files[1]["file"]
    path.write_bytes(bytes(path.stat().st_size))
    damaged = [row for row in read("files", root) if row["kind"] == "commitlog"]
    assert damaged[0]["expires_timestamp"] == damaged[0]["modified_timestamp"] + 72 * HOUR_MS


def test_views_that_export_knows() -> None:
    from typing import get_args, get_type_hints

    from rocketfsck.commands.export import ExportCommand

    assert get_args(get_type_hints(ExportCommand)["view"]) == VIEW_NAMES
