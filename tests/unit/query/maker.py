"""Small stores for queries: written from messages, with a geometry in which everything has several files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketfsck.store import Store, open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import Event, OutgoingMessage, WriteOptions, write_store

NOW = 1_700_000_000_000
GEOMETRY = Geometry(
    commitlog_file_size=4096,
    consumequeue_file_size=200,
    batch_file_size=460,
    slot_count=8,
    entry_count=40,
)


def message(number: int, topic: str = "Order", **more: Any) -> OutgoingMessage:
    """A message of its own second, with the keys `k<number>` and `all`, and a unique key."""
    values: dict[str, Any] = {
        "body": f"body {number}".encode(),
        "store_timestamp": NOW + 1000 * number,
        "queue_id": 0,
        "properties": {"KEYS": f"k{number} all", "TAGS": f"T{number % 3}", "UNIQ_KEY": f"U{number:04d}"},
    }
    return OutgoingMessage(topic, **(values | more))


def make(
    root: Path,
    messages: list[Event],
    *,
    geometry: Geometry = GEOMETRY,
    version: str = "5.3.3",
    **options: Any,
) -> Store:
    """A store written from messages, opened with its geometry known."""
    write_store(
        root / "store", messages, WriteOptions(version=version, geometry=geometry, sync=False, **options)
    )
    return reopen(root, geometry, version)


def reopen(root: Path, geometry: Geometry = GEOMETRY, version: str = "5.3.3") -> Store:
    """The store in `root` once more, after a test has altered it."""
    conf = root / "broker.conf"
    conf.write_text(
        f"mappedFileSizeCommitLog={geometry.commitlog_file_size}\n"
        f"mappedFileSizeConsumeQueue={geometry.consumequeue_file_size}\n"
        f"maxHashSlotNum={geometry.slot_count}\nmaxIndexNum={geometry.entry_count}\n"
    )
    return open_store(root / "store", broker_conf=conf, version=version)


def patch(path: Path, pos: int, data: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as stream:
        stream.seek(pos)
        stream.write(data)
