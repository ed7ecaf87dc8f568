"""Starts on DLedger's log as real brokers of 4.9.7 to 5.5.0 did them, on sound and on damaged stores.

`dledger-starts.json` has what a second process of the same version answered: the bounds of log and queues.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.dledger import DLEDGER_ENTRY, ENTRY_HEADER_SIZE, INDEX_UNIT_SIZE
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.settings import NotCoveredError
from rocketfsck.query.start.simulate import PUT_AND_CUT_REASON, simulate_start
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Settings

from tests.conftest import Directory

STORES = {
    "4.9.7": "4.9.7-dledger-mixed",
    "5.3.3": "5.5.0-dledger",
    "5.4.0": "5.5.0-dledger",
    "5.5.0": "5.5.0-dledger",
}
TOLD: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data/dledger-starts.json").read_text("utf-8")
)


class Node:
    """A copy of a store, with its entries: position in the data file and size of each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "dledger-n0"
        (self.data,) = (self.folder / "data").iterdir()
        (self.index,) = (self.folder / "index").iterdir()
        self.base = int(self.data.name)
        content, pos, self.entries = self.data.read_bytes(), 0, []
        while (values := DLEDGER_ENTRY.parse(content[pos : pos + ENTRY_HEADER_SIZE]))["magic"] == 1:
            self.entries.append((pos, values["size"]))
            pos += values["size"]

    def put(self, pos: int, data: bytes, file: Path | None = None) -> None:
        with (file or self.data).open("r+b") as stream:
            stream.seek(pos)
            stream.write(data)

    def state(self, committed: str) -> None:
        (self.folder / "checkpoint").write_text(f"committedIndex={committed}\nendIndex=256\n")


def one_queue(node: Node) -> None:
    topic = min(path for path in (node.root / "consumequeue").iterdir() if "Order" in path.name)
    shutil.rmtree(topic / "1")


FAULTS: dict[str, Callable[[Node], object]] = {
    "zero_last": lambda node: node.put(node.entries[-1][0], bytes(node.entries[-1][1])),
    "half_last": lambda node: node.put(node.entries[-1][0] + 20, bytes(node.entries[-1][1] - 20)),
    "zero_tail_body": lambda node: node.put(node.entries[-1][0] + 108, bytes(node.entries[-1][1] - 108)),
    "mid_pos": lambda node: node.put(
        node.entries[100][0] + 24, struct.pack(">q", node.base + node.entries[100][0] + 8)
    ),
    "mid_magic": lambda node: node.put(node.entries[100][0], struct.pack(">i", 2)),
    "mid_body": lambda node: node.put(node.entries[100][0] + 118, b"\xff" * 20),
    "index_zero": lambda node: node.put(100 * INDEX_UNIT_SIZE, bytes(400 * INDEX_UNIT_SIZE), node.index),
    "index_gone": lambda node: node.index.unlink(),
    "index_short": lambda node: os.truncate(node.index, 100 * INDEX_UNIT_SIZE),
    "committed": lambda node: node.state("100"),
    "cp_gone": lambda node: (node.folder / "checkpoint").unlink(),
    "cp_bad": lambda node: node.state("1x"),
    "term_low": lambda node: (node.folder / "currterm").write_text("voteLeader=n0\ncurrTerm=x\n"),
    "abort": lambda node: (node.root / "abort").write_text("1"),
    "no_queues": lambda node: shutil.rmtree(node.root / "consumequeue"),
    "one_queue": one_queue,
}


@pytest.fixture
def made(real_dir: Directory, tmp_path: Path) -> Callable[..., Node]:
    """Gives a copy of the store of a version, with these faults."""

    def make(version: str, *faults: str) -> Node:
        root = tmp_path / "store"
        ignored = shutil.ignore_patterns("timerwheel", "rocksdbstore", f"{0:020d}")
        source = real_dir(STORES[version])
        shutil.copytree(source, root, ignore=ignored)
        for path in source.rglob(f"{0:020d}"):
            target = root / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.parent.name == "index":  # 160 MiB, but for its first units a hole
                with path.open("rb") as stream, target.open("wb") as copy:
                    copy.write(stream.read(1 << 16))
                    copy.truncate(path.stat().st_size)
            else:
                shutil.copy2(path, target)
        node = Node(root)
        for fault in faults:
            FAULTS[fault](node)
        return node

    return make


def start_of(node: Node, version: str, **settings: Any) -> Start:
    return simulate_start(open_store(node.root, version=version), version, conf=Settings(None, settings))


@pytest.mark.parametrize("stated", TOLD, ids=lambda stated: "+".join([stated["version"], *stated["faults"]]))
def test_a_start_is_as_the_broker_s(stated: dict[str, Any], made: Callable[..., Node]) -> None:
    start = start_of(made(stated["version"], *stated["faults"]), stated["version"])
    assert start.loads
    assert (start.min_offset, start.max_offset) == (stated["min"], stated["max"])
    found = [[queue.topic, queue.queue_id, queue.min_offset, queue.max_offset] for queue in start.queues]
    assert [row for row in found if row[3]] == [row for row in sorted(stated["queues"]) if row[3]]


@pytest.mark.parametrize(
    ("fault", "file", "reason"),
    [
        ("cp_bad", "dledger-n0/checkpoint", "NumberFormatException"),  # both tried on the real broker
        ("index_short", f"dledger-n0/index/{0:020d}", "3200 length not matched"),
    ],
)
def test_a_broker_that_does_not_start(fault: str, file: str, reason: str, made: Callable[..., Node]) -> None:
    (refusal,) = start_of(made("5.5.0", fault), "5.5.0").refusals
    assert refusal.file == file
    assert reason in refusal.reason


def test_records_behind_the_cut_are_counted(made: Callable[..., Node]) -> None:
    start = start_of(made("5.5.0", "mid_pos"), "5.5.0")
    assert start.cut_offset == start.max_offset == 39943
    assert start.losses.cut_record_count == 157
    assert start.scan is not None
    assert (start.scan.stop, start.scan.stop_offset) == ("invalid", 39943)
    assert start.harmful


def test_queues_that_lack_units_do_not_get_them_back_from_5_0_on(made: Callable[..., Node]) -> None:
    node = made("5.5.0", "no_queues")
    assert start_of(node, "5.5.0").losses.by_queue_count == 257
    assert start_of(node, "4.9.8").losses.by_queue_count == 0


def test_an_index_that_is_written_anew_is_said(made: Callable[..., Node]) -> None:
    node = made("5.5.0", "index_zero", "committed")
    notes = start_of(node, "5.5.0").notes
    assert "DLedger writes its index again from entry 100 on" in notes
    assert any("does not say that the group agreed on entries 101 to 256" in note for note in notes)


def test_no_entry_at_all(made: Callable[..., Node]) -> None:
    node = made("5.5.0")
    node.put(0, bytes(48))
    start = start_of(node, "5.5.0")
    assert (start.loads, start.max_offset, start.losses.cut_record_count) == (True, 0, 257)
    assert "DLedger's log keeps no entry" in start.notes


def test_an_index_that_begins_elsewhere(made: Callable[..., Node]) -> None:
    node = made("5.5.0")
    node.index.rename(node.index.with_name(f"{node.index.stat().st_size:020d}"))
    start = start_of(node, "5.5.0")
    assert start.loads
    changes = {(change.file, change.change) for change in start.files}
    assert (f"dledger-n0/index/{0:020d}", "created") in changes
    assert (f"dledger-n0/index/{167772160:020d}", "deleted") in changes


def test_files_that_do_not_follow_each_other_end_the_start(made: Callable[..., Node]) -> None:
    node = made("5.5.0")
    shutil.copy2(node.data, node.data.with_name(f"{3 * 262144:020d}"))
    (refusal,) = start_of(node, "5.5.0").refusals
    assert refusal.reason == "DISK_ERROR check data file order failed before recovery"


def test_a_data_file_of_another_length_ends_the_start(made: Callable[..., Node]) -> None:
    node = made("5.5.0")
    node.data.with_name("stray").write_bytes(b"12345")
    (refusal,) = start_of(node, "5.5.0").refusals
    assert refusal.file == "dledger-n0/data/stray"


def test_a_file_without_a_number_ends_the_start(made: Callable[..., Node]) -> None:
    node = made("5.5.0")
    shutil.copy2(node.data, node.data.with_name("zzz"))
    (refusal,) = start_of(node, "5.5.0").refusals
    assert "NumberFormatException" in refusal.reason


def test_more_files_than_the_recovery_goes_through(made: Callable[..., Node]) -> None:
    """Five files: the third last one's first entry and its unit do not agree, so it begins with the first."""
    node = made("5.5.0")
    for number in range(1, 5):
        file = node.data.with_name(f"{number * 262144:020d}")
        with file.open("wb") as stream:
            stream.truncate(262144)
    start = start_of(node, "5.5.0")
    assert start.refusals[0].reason == "[MONITOR]The processOffset is too small: 105412"
    for number in (3, 4):
        node.data.with_name(f"{number * 262144:020d}").unlink()
    start = start_of(node, "5.5.0")
    assert start.refusals[0].reason == "[MONITOR]The processOffset is too small: 105412"
    node.data.with_name(f"{2 * 262144:020d}").unlink()
    start = start_of(node, "5.5.0")
    deleted = [change.file for change in start.files if change.change == "deleted"]
    assert deleted == [f"dledger-n0/data/{262144:020d}"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"dLegerSelfId": "n7"}, "broker.conf names the node n7"),
        ({"storePathDLedgerCommitLog": "/other"}, "storePathDLedgerCommitLog"),
        ({"duplicationEnable": "true"}, "do not cover"),
    ],
)
def test_settings_that_are_not_followed(
    settings: dict[str, str], reason: str, made: Callable[..., Node]
) -> None:
    with pytest.raises(NotCoveredError, match=reason):
        start_of(made("5.5.0"), "5.5.0", **settings)


def test_units_that_are_put_and_cut_are_not_guessed(made: Callable[..., Node]) -> None:
    with pytest.raises(NotCoveredError) as caught:
        start_of(made("5.5.0", "abort", "one_queue"), "5.4.0")
    assert caught.value.reasons == (PUT_AND_CUT_REASON,)


def test_an_unclean_stop_cuts_queues_before_the_log_s_end(made: Callable[..., Node]) -> None:
    """5.2.0 to 5.4.0 take the log to end 48 bytes earlier for every record of the last data file."""
    start = start_of(made("5.5.0", "abort"), "5.4.0")
    assert start.loads
    assert start.max_offset == 105412
    cut_count = sum(queue.cut_count for queue in start.queues)
    assert start.losses.new_by_queue_count == cut_count > 0
