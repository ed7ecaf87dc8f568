"""Pulls from every queue offset, places of many times, ends of queues: `BrokerView` against the real code.

We are asked before the real code starts on a store, the real code is once it has. The stores are sound ones
of the shapes that brokers leave, and ones with the damage that decides which units count.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import StoreError
from rocketfsck.formats.record import InnerItem
from rocketfsck.query import BrokerView
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import EndState, Event, Expiry, OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.message.messages import Kind

from tests.oracle.asking import answered_otherwise
from tests.oracle.broker import VERSIONS, Ask, Job, run_jobs
from tests.oracle.conftest import Needs

pytestmark = pytest.mark.oracle

GEOMETRY = Geometry(
    commitlog_file_size=8192,
    consumequeue_file_size=300,
    batch_file_size=230,
    slot_count=16,
    entry_count=2000,
)
NOW = 1_700_000_000_000
COUNT = 110
STEPS = (0, 0, 3, 40, -7, 1, 900)
"""Ms between messages: many of one time, and a clock that goes back."""
LMQ = ("%LMQ%x", "%LMQ%y")
MARGIN = 2

Damage = Callable[[Path], None]


def _log(store: Path) -> list[Path]:
    return sorted((store / "commitlog").iterdir())


def _queues(store: Path) -> list[Path]:
    return sorted(file for file in store.glob("*consumequeue/*/*/*") if file.is_file())


def _none(store: Path) -> None:
    """Nothing is wrong."""
    assert _queues(store)


def _ghosts(store: Path) -> None:
    """Behind every queue's units some that look valid: into the log, at no record, and behind its end."""
    for path in _queues(store):
        size, data = _unit_size(path), bytearray(path.read_bytes())
        end = _used_end(data, size)
        for index, offset in zip(range(end, len(data) // size), (1000, 5000, 90_000), strict=False):
            unit = struct.pack(">qiq", offset, 120, 7)
            if size == 46:
                unit += struct.pack(">qqhii", NOW + 60_000, 200 + 2 * index, 2, -1, 0)
            data[index * size : (index + 1) * size] = unit
        path.write_bytes(data)


def _emptied(store: Path) -> None:
    for path in {path.parent: path for path in _queues(store)}.values():  # the last file of every queue
        path.write_bytes(bytes(path.stat().st_size))


def _blanked(store: Path) -> None:
    """A unit of zeros in the middle of the first file of every queue."""
    for path in {path.parent: path for path in reversed(_queues(store))}.values():
        size = _unit_size(path)
        _patch(path, 2 * size, bytes(size))


def _bent(store: Path) -> None:
    """Units with sizes that no record has, and one that points behind the log."""
    for number, path in enumerate(_queues(store)):
        size = _unit_size(path)
        _patch(path, size + 8, struct.pack(">i", (5, 60, (1 << 31) - 1, -3)[number % 4]))
        if number % 3 == 0:
            _patch(path, 0, struct.pack(">q", 300_000))


def _some_deleted(store: Path) -> None:
    for path in sorted({path.parent for path in _queues(store)})[::2]:
        shutil.rmtree(path)


def _cut(store: Path) -> None:
    last = _log(store)[-1]
    data = last.read_bytes()
    last.write_bytes(data[:700].ljust(len(data), b"\0"))


def _missing_segment(store: Path) -> None:
    _log(store)[1].unlink()


def _shifted(store: Path) -> None:
    """Every unit one place too early: units and queueOffsets disagree."""
    for path in _queues(store):
        size, data = _unit_size(path), path.read_bytes()
        path.write_bytes(data[size:] + bytes(size))


DAMAGES: tuple[Damage, ...] = (
    _none,
    _ghosts,
    _emptied,
    _blanked,
    _bent,
    _some_deleted,
    _cut,
    _missing_segment,
    _shifted,
)


def _events(version: str) -> Iterator[Event]:
    stored = NOW
    for number in range(COUNT):
        stored += STEPS[number % len(STEPS)]
        if number == 70:
            yield Expiry(1)
        queue_id = number % 3 % 2
        if version.startswith("5.") and number % 4 == 1:
            items = tuple(InnerItem(body=b"item") for _ in range(1 + number % 5))
            kind = Kind.INNER_BATCH
            yield OutgoingMessage("Bat", store_timestamp=stored, queue_id=queue_id, items=items, kind=kind)
            continue
        further = LMQ[: number % 3] if version != "4.4.0" else ()
        yield OutgoingMessage(
            "AB"[number % 5 == 0],
            bytes(50 + number % 90),
            stored,
            queue_id,
            {"UNIQ_KEY": f"U{number}"},
            multi_dispatch=further,
        )


def _write(path: Path, version: str, damage: Damage, end_state: EndState, **options: Any) -> None:
    write_store(
        path,
        list(_events(version)),
        WriteOptions(
            version=version,
            geometry=GEOMETRY,
            end_state=end_state,
            batch_topics=frozenset({"Bat"} if version.startswith("5.") else ()),
            multi_dispatch=version != "4.4.0",
            sync=False,
            **options,
        ),
    )
    damage(path)
    for number, file in enumerate(_queues(path)):
        stamp = (NOW + 700 * number) / 1000  # up to 5.1.0 these decide in which file a time is looked for
        os.utime(file, (stamp, stamp))


def _unit_size(path: Path) -> int:
    return 46 if "batchconsumequeue" in path.parts else 20


def _used_end(data: bytes | bytearray, size: int) -> int:
    sizes = [struct.unpack_from(">i", data, pos + 8)[0] for pos in range(0, len(data), size)]
    return max((number + 1 for number, value in enumerate(sizes) if value), default=0)


def _patch(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(pos)
        stream.write(data)


def _times() -> tuple[int, ...]:
    stored, times = NOW, {-1, 0, NOW - 1, NOW + (1 << 40)}
    for number in range(COUNT):
        stored += STEPS[number % len(STEPS)]
        times |= {stored - 1, stored, stored + 1}
    return tuple(sorted(times))


@pytest.mark.parametrize("version", VERSIONS)
def test_all_answers(version: str, needs_broker: Needs, tmp_path: Path) -> None:
    needs_broker(version)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"mappedFileSizeCommitLog={GEOMETRY.commitlog_file_size}\n"
        f"mappedFileSizeConsumeQueue={GEOMETRY.consumequeue_file_size}\n"
        f"mapperFileSizeBatchConsumeQueue={GEOMETRY.batch_file_size}\n"
        f"maxHashSlotNum={GEOMETRY.slot_count}\nmaxIndexNum={GEOMETRY.entry_count}\n"
        "enableLmq=true\nenableMultiDispatch=true\n"
    )
    settings = {} if version == "4.4.0" else {"enableLmq": True, "enableMultiDispatch": True}
    batch_topics = ("Bat",) if version.startswith("5.") else ()
    times = _times()
    starts = {"queue_start_offsets": {("A", 0): 40, ("B", 1): 11}}
    stores: list[Path] = []
    for number, damage in enumerate(DAMAGES):
        end_state = (EndState.CLEAN, EndState.KILLED)[(number + VERSIONS.index(version)) % 2]
        path = tmp_path / f"{damage.__name__}-{end_state.value}"
        _write(path, version, damage, end_state, **(starts if number % 3 == 0 else {}))
        stores.append(path)
    jobs = [
        Job(
            Path(shutil.copytree(path, tmp_path / "theirs" / path.name)),
            GEOMETRY,
            batch_topics=batch_topics,
            settings=settings,
            ask=Ask(times, margin=MARGIN),
        )
        for path in stores
    ]
    asked = 0
    for path, answer in zip(stores, run_jobs(version, jobs), strict=True):
        with BrokerView(open_store(path, broker_conf=conf, version=version), version) as broker:
            if not answer.loaded:
                with pytest.raises(StoreError, match="does not start on this store"):
                    broker.get_message("A", 0, 0)
                continue
            wrong = list(answered_otherwise(broker, answer.asked, times))
        assert wrong == [], (path.name, wrong[:3])
        asked += sum(len(queue.pulls) + len(queue.times) * len(times) for queue in answer.asked.values())
    assert asked > 5_000
