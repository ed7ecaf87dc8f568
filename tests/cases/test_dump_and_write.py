"""What `dump` gives of a broker-written log, `write` makes the same log of, byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.errors import UsageError
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import open_store
from rocketfsck.writer import EndState, write_store
from rocketfsck.writer.input.rows import open_messages

from tests.cases.broker_input import BrokerStore
from tests.conftest import STORE_NAMES, Directory, Document

NOT_WHOLE = {
    "4.9.8-ghosttail": "what a restart left behind the log's end is dumped, too, and is no message",
}
"""Stores whose dump holds more than messages, each with the reason."""

OWN_ENDS = {
    "4.4.0-legacybatch-propedge": "its producers ended property strings each in their own way",
}
"""Stores whose last property separators are not all the version's, which is what `write` goes by."""


def _dump(store: Path, output: Path) -> Path:
    arguments = ["dump", store / "commitlog", "--format", "jsonl", "--body", "base64", "--output", output]
    assert run([str(argument) for argument in arguments]) == 0
    return output


def _queue_starts(dumped: Path) -> dict[tuple[str, int], int]:
    """Where each queue begins: writing gives new offsets, and has to be told if they do not begin at 0."""
    starts: dict[tuple[str, int], int] = {}
    for row in map(json.loads, dumped.read_text("utf-8").splitlines()):
        if row["kind"] == "record":
            starts.setdefault((row["topic"], row["queue_id"]), row["queue_offset"])
    return starts


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if name not in NOT_WHOLE | OWN_ENDS])
def test_a_dumped_log_is_written_again(
    name: str, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    broker = BrokerStore(store_dir(name), manifest(name))
    files = sorted((broker.root / "commitlog").iterdir())
    dumped = _dump(broker.root, tmp_path / "dump.jsonl")
    options = replace(
        broker.options(),
        start_offset=int(files[0].name),
        queue_start_offsets=_queue_starts(dumped),
        end_state=EndState.CLEAN,
        message_index=False,
        sync=False,
    )
    with open_messages(dumped) as messages:
        write_store(tmp_path / "store", messages, options)
    ours = sorted((tmp_path / "store" / "commitlog").iterdir())
    assert [file.name for file in ours] == [file.name for file in files[: len(ours)]]
    for mine, theirs in zip(ours, files, strict=False):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name
    assert not any(any(file.read_bytes()) for file in files[len(ours) :])


@pytest.mark.parametrize("name", OWN_ENDS)
def test_the_messages_are_the_same_whatever_ends_their_properties(
    name: str, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    broker = BrokerStore(store_dir(name), manifest(name))
    options = replace(broker.options(), end_state=EndState.CLEAN, message_index=False, sync=False)
    with open_messages(_dump(broker.root, tmp_path / "dump.jsonl")) as messages:
        write_store(tmp_path / "store", messages, options)
    before, after = (
        [_said(message) for message in iter_messages(open_store(root))]
        for root in (broker.root, tmp_path / "store")
    )
    assert before == after


def _said(message: Message) -> tuple[object, ...]:
    return (
        message.topic_bytes,
        message.queue_offset,
        message.body,
        message.properties,
        message.store_timestamp,
    )


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_a_dump_of_more_than_messages_is_refused(name: str, store_dir: Directory, tmp_path: Path) -> None:
    dumped = _dump(store_dir(name), tmp_path / "dump.jsonl")
    with open_messages(dumped) as messages, pytest.raises(UsageError, match="line"):
        write_store(tmp_path / "store", messages)
    assert not (tmp_path / "store").exists()


def test_a_record_at_another_place_gets_a_property_crc_of_its_own(
    store_dir: Directory, tmp_path: Path
) -> None:
    """A topic alone has other physical offsets; no setting says that the CRCs are there to be made anew."""
    store, dumped = store_dir("5.3.3-propcrc"), tmp_path / "dump.jsonl"
    with open_messages(_dump(store, tmp_path / "all.jsonl")) as messages:
        topics = {message.topic for message in messages}
    topic = max(topics, key=lambda name: (not name.startswith(("SCHEDULE", "RMQ_", "%")), name))
    chosen = ["dump", str(store), "--format", "jsonl", "--body", "base64", "--topic", topic]
    assert run([*chosen, "--output", str(dumped)]) == 0
    assert "__CRC32#" in dumped.read_text("utf-8")
    assert run(["write", str(dumped), "--into", str(tmp_path / "written")]) == 0
    assert run(["check", "--level", "full", str(tmp_path / "written")]) == 0
    records = [item for item in iter_messages(open_store(tmp_path / "written")) if isinstance(item, Message)]
    assert records
    assert all("__CRC32#" in (record.properties or {}) for record in records)
