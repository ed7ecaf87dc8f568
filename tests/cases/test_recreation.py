"""The writer makes a broker's store again, byte for byte, from what was put into it.

Every store of the collection is made anew from its manifest (see `broker_input`) and compared file by file:
the list of files, and every byte of commit log, consume queues, ext and batch queues, index files,
checkpoint, abort, abort.bak and lock. The tables below are all exceptions, each with its reason; `config/`
was written by the program that filled the stores, not by a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.checkpoint import CHECKPOINT
from rocketfsck.writer import Event, Expiry, Restart, WrittenStore, write_store

from tests.cases.broker_input import BrokerStore
from tests.conftest import STORE_NAMES, Directory, Document

FLUSH_TIME = "what a process that was killed had flushed depends on when its threads ran"
UNDETERMINED_CHECKPOINT: dict[str, dict[str, str]] = {
    "4.9.8-killed": dict.fromkeys(("physicMsgTimestamp", "logicsMsgTimestamp"), FLUSH_TIME),
    "4.9.8-lagkill-transient": dict.fromkeys(("physicMsgTimestamp", "logicsMsgTimestamp"), FLUSH_TIME),
    "5.3.3-killed": dict.fromkeys(
        ("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp"), FLUSH_TIME
    ),
    "HEAD-basic": {"logicsMsgTimestamp": "written with a flush of the queues, by 5.3.4 with every put"},
}
"""Fields of the checkpoint that the input does not determine."""

PID_FILES = {"5.3.3-killed": "abort", "5.1.3-killed-restarted": "abort.bak"}
"""Files that hold the broker's PID, which the manifest does not tell: it is read from them."""

EXPIRED = {"4.9.8-expired": Expiry(4), "5.1.3-expired": Expiry(3, whole_queues=True)}
EXPIRED_AFTER = {"4.9.8-expired": 900, "5.1.3-expired": 800}
"""What the broker's own cleaning deleted, and after which message (the manifest's workload)."""

LOST_FROM = {"4.9.8-lagkill-transient": 77054}
"""Where the log ends: messages that were acknowledged but only in the transient pool are not in it."""

RESCANNED_FROM = {"5.1.3-killed-restarted": 131072}
"""Where the recovery began: it depends on when the checkpoint was flushed. The newest index file says it."""

DELETED_INDEX_FILES = {"4.9.8-expired": (0, 5), "5.1.3-expired": (0, 3), "5.1.3-killed-restarted": (3, 1)}
"""Index files that the broker made and deleted (behind how many that are there, and how many): their names
are not known. A restart after a kill deletes the one that was not full."""

TRUNCATED = {"4.9.8-ghosttail": 75357}
"""A restart found a broken record here and cut the log; the bytes behind the new end are the old ones."""


def _events(name: str, store: BrokerStore) -> Iterator[Event]:
    messages = store.messages(0, end=LOST_FROM.get(name))
    if name in EXPIRED:
        for number, message in enumerate(messages):
            if number == EXPIRED_AFTER[name]:
                yield EXPIRED[name]
            yield message
        return
    yield from messages
    if name in RESCANNED_FROM:
        yield Restart(killed=True, scan_from=RESCANNED_FROM[name])
        yield from store.messages(1)


def _recreate(name: str, store: BrokerStore, target: Path) -> WrittenStore:
    changed: dict[str, Any] = {}
    if name in PID_FILES:
        changed["pid"] = int((store.root / PID_FILES[name]).read_bytes())
    if name in DELETED_INDEX_FILES:
        place, count = DELETED_INDEX_FILES[name]
        names = store.index_names
        made_up = (f"2026112000000000{number}" for number in range(count))
        changed["index_names"] = (*names[:place], *made_up, *names[place:])
    return write_store(target, _events(name, store), store.options(**changed))


def _files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != "config"
    }


def _without(fields: dict[str, str], data: bytes) -> bytes:
    kept = bytearray(data)
    for field in fields:
        pos = CHECKPOINT.offset(field)
        kept[pos : pos + 8] = bytes(8)
    return bytes(kept)


def _compare(name: str, ours: dict[str, bytes], brokers: dict[str, bytes]) -> None:
    assert sorted(ours) == sorted(brokers)
    undetermined = UNDETERMINED_CHECKPOINT.get(name, {})
    for file, data in brokers.items():
        mine = ours[file]
        if file == "checkpoint":
            assert _without(undetermined, mine) == _without(undetermined, data)
            continue
        assert len(mine) == len(data), file
        if mine != data:
            place = next(
                pos for pos, (left, right) in enumerate(zip(mine, data, strict=True)) if left != right
            )
            pytest.fail(f"{file} differs at byte {place}")


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if name not in TRUNCATED])
def test_store_is_made_again(name: str, store_dir: Directory, manifest: Document, tmp_path: Path) -> None:
    store = BrokerStore(store_dir(name), manifest(name))
    written = _recreate(name, store, tmp_path / "store")
    _compare(name, _files(tmp_path / "store"), _files(store.root))
    for field in UNDETERMINED_CHECKPOINT.get(name, {}):
        # Whatever was flushed, it was a time in the store.
        value = manifest(name)["checkpointOnDisk"][field]
        assert 0 < value <= written.checkpoint.physic_msg_timestamp or name.endswith("transient")


def _overlaid(old: bytes, new: bytes, end: int) -> bytearray:
    return bytearray(new[:end] + old[end:])


def test_truncated_store_is_made_again(store_dir: Directory, manifest: Document, tmp_path: Path) -> None:
    """4.9.8-ghosttail: the store of the first process, overwritten by the second from where it was cut."""
    [(name, cut)] = TRUNCATED.items()
    store = BrokerStore(store_dir(name), manifest(name))
    first = [row["physicalOffset"] for row in manifest(name)["phases"][0]["messages"]]
    before = write_store(tmp_path / "before", store.messages(0), store.options())
    kept = list(store.messages(0))[: first.index(cut)]
    after = write_store(tmp_path / "after", chain(kept, store.messages(1)), store.options())
    old, new, brokers = _files(before.path), _files(after.path), _files(store.root)
    expected = {file: bytearray(data) for file, data in old.items()}
    # The index is not cut, and takes nothing before its end.
    for queue in after.queues:
        folder = f"consumequeue/{queue.topic}/{queue.queue_id}"
        for start in range(0, queue.position, after.geometry.consumequeue_file_size):
            file = f"{folder}/{start:020d}"
            expected[file] = _overlaid(old[file], new[file], queue.position - start)
    size = after.geometry.commitlog_file_size
    for start in range(0, before.max_offset, size):
        file = f"commitlog/{start:020d}"
        expected[file] = _overlaid(old[file], new[file], after.max_offset - start)
    # A record of the first process of which only the end is left: its body is not known to anybody.
    torn_end = next(offset for offset in first if offset >= after.max_offset)
    file = f"commitlog/{torn_end // size * size:020d}"
    torn = slice(after.max_offset % size, torn_end % size)
    expected[file][torn] = brokers[file][torn]
    expected["checkpoint"] = bytearray(new["checkpoint"])
    pos = CHECKPOINT.offset("indexMsgTimestamp")
    expected["checkpoint"][pos : pos + 8] = old["checkpoint"][pos : pos + 8]
    _compare(name, {file: bytes(data) for file, data in expected.items()}, brokers)
