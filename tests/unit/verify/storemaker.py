"""Makes small store directories for the rules of names and small files, and runs single checks on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketfsck.formats.checkpoint import Checkpoint, encode_checkpoint
from rocketfsck.formats.config import encode_config
from rocketfsck.formats.indexfile import IndexHeader, encode_header, index_file_size
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.store import Store, open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.tasks.task import Context, Known, LogFacts, QueueFacts

LOG_SIZE = 4096
QUEUE_SIZE = 200
SLOTS, ENTRIES = 4, 10
NOW = 1_700_000_000_000
"""When the store was written and checked (ms)."""

CONF = f"""mappedFileSizeCommitLog={LOG_SIZE}
mappedFileSizeConsumeQueue={QUEUE_SIZE}
maxHashSlotNum={SLOTS}
maxIndexNum={ENTRIES}
"""

Check = Callable[[Context, Known], Iterator[Finding | NotChecked]]


class Maker:
    """A store directory under construction. Every file gets its full length; what is not said is zeros."""

    def __init__(self, root: Path) -> None:
        self.root = root / "store"
        self.root.mkdir()
        self.conf = root / "broker.conf"
        self.conf.write_text(CONF)

    def file(self, relative: str, data: bytes = b"", size: int | None = None) -> Path:
        """A file with these bytes, zero-filled or cut to `size`."""
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.truncate(path, len(data) if size is None else size)
        os.utime(path, ns=(NOW * 1_000_000, NOW * 1_000_000))
        return path

    def log(self, start: int, *, stored: int | None = NOW, size: int = LOG_SIZE) -> Path:
        """A commit log file with one record at its beginning, stored at `stored`; None: all zeros."""
        return self.file(f"commitlog/{offset_to_filename(start)}", record_at(start, stored), size)

    def queue(
        self,
        topic: str,
        queue_id: int,
        start: int = 0,
        *,
        size: int = QUEUE_SIZE,
        data: bytes = b"\0" * 7 + b"\1",
    ) -> Path:
        """A consume queue file whose first unit is not zero."""
        return self.file(f"consumequeue/{topic}/{queue_id}/{offset_to_filename(start)}", data, size)

    def index(
        self, name: str, *, begin: int = NOW, end: int = NOW, count: int = 3, size: int | None = None
    ) -> Path:
        """An index file with this header and nothing else."""
        header = encode_header(IndexHeader(begin, end, 0, 0, 1, count))
        return self.file(f"index/{name}", header, index_file_size(SLOTS, ENTRIES) if size is None else size)

    def checkpoint(self, physic: int = NOW, logics: int = NOW, index: int = 0, *more: int) -> Path:
        return self.file("checkpoint", encode_checkpoint(Checkpoint(physic, logics, index, *more)))

    def config(self, name: str, value: object) -> Path:
        return self.file(f"config/{name}", encode_config(value))

    def open(self, version: str = "4.9.8") -> Store:
        return open_store(self.root, broker_conf=self.conf, version=version)

    def found(self, check: Check, known: Known | None = None, version: str = "4.9.8") -> list[Finding]:
        """The findings of one check."""
        items = self.run(check, known, version)
        assert not [item for item in items if isinstance(item, NotChecked)]
        return [item for item in items if isinstance(item, Finding)]

    def run(
        self, check: Check, known: Known | None = None, version: str = "4.9.8", now: int = NOW
    ) -> list[Finding | NotChecked]:
        """All that one check has to say."""
        return list(check(Context(self.open(version), "full", now), known or Known()))


def record_at(start: int, stored: int | None) -> bytes:
    """The bytes of a small record at a physical offset; none for None."""
    if stored is None:
        return b""
    host = Host(b"\x7f\0\0\1", 10911)
    return encode_record(
        make_record(
            topic=b"T",
            queue_id=0,
            queue_offset=0,
            physical_offset=start,
            born_timestamp=stored,
            born_host=host,
            store_timestamp=stored,
            store_host=host,
            body=b"body",
        )
    )


def rules(items: list[Finding]) -> list[str]:
    return [item.rule for item in items]


def log_facts(start: int, *, stored: int = NOW, end: int | None = None, all_zero: bool = False) -> LogFacts:
    """Facts of a file as `Maker.log` makes it."""
    size = 0 if all_zero else len(record_at(start, stored))
    time = None if all_zero else stored
    return LogFacts(
        file=f"commitlog/{offset_to_filename(start)}",
        start_offset=start,
        end_offset=start + size if end is None else end,
        record_count=0 if all_zero else 1,
        last_record_offset=None if all_zero else start,
        first_store_timestamp=time,
        last_store_timestamp=time,
        min_store_timestamp=time,
        max_store_timestamp=time,
        all_zero=all_zero,
        ends_with_blank=False,
        damaged=False,
    )


def queue_facts(
    topic: str,
    queue_id: int,
    low: int,
    high: int,
    *,
    live: int | None = None,
    end: int = 100,
    damaged: bool = False,
) -> QueueFacts:
    """Facts of a queue with units `low:high`, the first live one `live` (default: the first)."""
    live_offset = low if live is None else live
    return QueueFacts(topic, queue_id, "file", low, high, live_offset, end, high - low, damaged)


def knowing(*queues: QueueFacts, logs: tuple[LogFacts | None, ...] = (), **ends: int) -> Known:
    """All that is known of a store with these queues; `ends` are records' queue ends of queue 0 by topic."""
    table = {(queue.topic, queue.queue_id): queue for queue in queues}
    return Known(logs, table, {(topic, 0): end for topic, end in ends.items()}, complete=None not in logs)
