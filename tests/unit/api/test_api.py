"""The public names: lazy, documented, and what they give is what the brokers said."""

from __future__ import annotations

import hashlib
import inspect
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

import rocketfsck
from rocketfsck.errors import UsageError
from rocketfsck.formats.javatext import index_hash
from rocketfsck.scan.views.arrow import SCAN_COLUMNS

from tests.conftest import Directory, Document

NAMES = [name for name in rocketfsck.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(rocketfsck, name))
    assert name in dir(rocketfsck)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        rocketfsck.nothing  # noqa: B018


def test_import_costs_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import rocketfsck;"
        "print(sorted(name for name in set(sys.modules) - before if name != '__future__'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'rocketfsck'" in ended.stdout
    assert "rocketfsck." not in ended.stdout.replace("'rocketfsck._version'", "")
    assert "numpy" not in ended.stdout


def _sent(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        message
        for phase in manifest["phases"]
        for message in phase["messages"]
        if message.get("kind") != "legacyBatch" and message["status"] in ("PUT_OK", "FLUSH_DISK_TIMEOUT")
    ]


@pytest.mark.parametrize("name", ["4.4.0-multiseg", "4.9.8-ipv6", "5.3.3-basic"])
def test_messages(store_dir: Directory, manifest: Document, name: str) -> None:
    store = rocketfsck.open_store(store_dir(name))
    found = {message.physical_offset: message for message in rocketfsck.iter_messages(store)}
    for sent in _sent(manifest(name)):
        message = found[sent["physicalOffset"]]
        assert message.topic == sent["topic"]
        assert message.queue_offset == sent["queueOffset"]
        assert message.body is not None
        assert hashlib.sha256(message.body).hexdigest() == sent["bodySha256"]


def test_message_filters(store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir("4.9.8-multiseg"))
    every = list(rocketfsck.iter_messages(store, max_body_size=0))
    assert {message.body for message in every} == {None}
    some = every[400:700]
    low, high = some[0].physical_offset, some[-1].physical_offset + 1
    found = rocketfsck.iter_messages(store, begin_offset=low, end_offset=high, max_body_size=0)
    assert [message.physical_offset for message in found] == [message.physical_offset for message in some]
    one = every[777]
    assert one.unique_key is not None
    assert [m.physical_offset for m in rocketfsck.iter_messages(store, key=one.unique_key)] == [
        one.physical_offset
    ]
    times = (every[100].store_timestamp, every[200].store_timestamp)
    between = rocketfsck.iter_messages(store, begin_timestamp=times[0], end_timestamp=times[1], queue_id=1)
    assert [message.physical_offset for message in between] == [
        message.physical_offset
        for message in every
        if times[0] <= message.store_timestamp < times[1] and message.queue_id == 1
    ]


def test_columns(store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir("4.9.8-multiseg"))
    table = pa.Table.from_batches(rocketfsck.read_columns(store))
    assert table.column_names == ["file", "offset", "topic", *SCAN_COLUMNS]
    messages = list(rocketfsck.iter_messages(store))
    assert table["offset"].to_pylist() == [message.physical_offset for message in messages]
    assert table["topic"].to_pylist() == [message.topic for message in messages]
    assert table["body_size"].to_pylist() == [message.body_size for message in messages]
    assert set(table["file"].to_pylist()) == {file.relative for file in store.commitlog.files}
    last = store.commitlog.files[-1].start_offset or 0
    assert last
    part = pa.Table.from_batches(rocketfsck.read_columns(store, ["offset"], begin_offset=last))
    assert part["offset"].to_pylist() == [m.physical_offset for m in messages if m.physical_offset >= last]


def test_columns_of_hostile_topics(store_copy: Directory) -> None:
    path = store_copy("4.9.8-multiseg") / "commitlog" / "0".zfill(20)
    data = path.read_bytes().replace(b"Seg0", b"\xff\xfe\x00\x1b")
    path.write_bytes(data)
    store = rocketfsck.open_store(path.parent.parent)
    topics = {topic for batch in rocketfsck.read_columns(store, ["topic"]) for topic in batch[0].to_pylist()}
    assert topics == {"Seg0", "Seg1", "\ufffd\ufffd\x00\x1b"}


def test_columns_judge_bodies_only_when_asked(restart_dir: Directory) -> None:
    store = rocketfsck.open_store(restart_dir("5.1.3-basic--flip-last-file"))

    def bad(read_bodies: bool) -> int:
        batches = rocketfsck.read_columns(store, ["faults"], read_bodies=read_bodies)
        return sum(fault & 1 for batch in batches for fault in batch[0].to_pylist())

    assert (bad(False), bad(True)) == (0, 1)


def test_unknown_column(store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir("5.3.3-basic"))
    with pytest.raises(UsageError, match="no column has the name nope"):
        next(rocketfsck.read_columns(store, ["nope"]))


@pytest.mark.parametrize("name", ["4.9.8-ipv6", "5.3.3-basic", "4.9.8-ghosttail"])
def test_further_columns_say_what_the_messages_say(name: str, store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir(name))
    columns = ["offset", "run", "key_hashes", "born_address", "store_address"]
    table = pa.Table.from_batches(rocketfsck.read_columns(store, columns))
    messages = list(rocketfsck.iter_messages(store, max_body_size=0))
    assert table.column_names == columns
    for row, message in zip(table.to_pylist(), messages, strict=True):
        assert row["offset"] == message.physical_offset
        assert (row["born_address"], row["store_address"]) == (message.born_host, message.store_host)
        assert row["run"] == message.run
        keys = [word for word in message.keys if word]
        keys = keys if message.unique_key is None else [message.unique_key, *keys]
        assert row["key_hashes"] == [index_hash(message.topic, key) for key in keys]


@pytest.mark.parametrize("name", ["4.9.8-basic", "4.9.8-cqext", "5.0.0-innerbatch", "5.1.3-expired"])
def test_units_are_those_that_the_broker_gave(name: str, store_dir: Directory, manifest: Document) -> None:
    store = rocketfsck.open_store(store_dir(name))
    queues = {(queue.topic, queue.queue_id): queue for queue in store.queues}
    seen = 0
    for answer in manifest(name)["phases"][-1]["live"]["queues"]:
        if not answer["units"]:
            continue
        queue = queues[answer["topic"], answer["queueId"]]
        table = pa.Table.from_batches(rocketfsck.read_units(store, queue.topic, queue.queue_id))
        place = "index" if queue.kind == "file" else "msg_base_offset"
        rows = {row[place]: row for row in table.to_pylist() if row["kind"] == "unit"}
        for index, offset, size, tags_code, *_ in answer["units"]:
            row = rows[index]
            assert (row["physical_offset"], row["size"]) == (offset, size)
            assert row["tags_code"] == tags_code or queue.ext is not None
            seen += 1
    assert seen > 0


def test_entries_are_the_keys_of_the_records(store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir("4.9.8-basic"))
    records = pa.Table.from_batches(rocketfsck.read_columns(store, ["offset", "sys_flag", "key_hashes"]))
    expected = [
        (row["offset"], key)
        for row in records.to_pylist()
        if row["sys_flag"] & 12 != 12
        for key in row["key_hashes"]
    ]
    found: list[tuple[int, int]] = []
    for index in range(len(store.indexes)):
        table = pa.Table.from_batches(rocketfsck.read_entries(store, index))
        assert table.column_names == ["entry", "key_hash", "physical_offset", "time_diff", "prev_index"]
        assert table["entry"].to_pylist() == list(range(1, table.num_rows + 1))
        found += zip(table["physical_offset"].to_pylist(), table["key_hash"].to_pylist(), strict=True)
    assert found == expected


def test_what_is_not_there(store_dir: Directory) -> None:
    store = rocketfsck.open_store(store_dir("5.3.3-basic"))
    with pytest.raises(UsageError, match="no consume queue 99 of the topic 'GammaOrder'"):
        next(rocketfsck.read_units(store, "GammaOrder", 99))
    with pytest.raises(UsageError, match="no index file -1; the store has 2"):
        next(rocketfsck.read_entries(store, -1))


def test_check(restart_dir: Directory) -> None:
    store = rocketfsck.open_store(restart_dir("5.1.3-basic--flip-last-file"))
    report = rocketfsck.check_store(store, rocketfsck.CheckOptions(select=("CL",)))
    assert report.exit_code == 4
    (finding,) = [finding for finding in report.findings if finding.rule == "CL004"]
    assert "26305" in rocketfsck.describe(finding)


def test_live_messages_leave_out_what_a_truncation_left(store_dir: Directory, manifest: Document) -> None:
    store = rocketfsck.open_store(store_dir("4.9.8-ghosttail"))
    every = [message.physical_offset for message in rocketfsck.iter_messages(store)]
    live = [message.physical_offset for message in rocketfsck.iter_messages(store, live_only=True)]
    walk = [row["o"] for row in manifest("4.9.8-ghosttail")["phases"][-1]["live"]["walk"]]
    assert live == walk
    assert every[: len(live)] == live
    assert len(every) == len(live) + 6
