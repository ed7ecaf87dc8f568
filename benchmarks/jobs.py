"""What is measured in this process: scans of log files, checks of an index file, carving and CRC."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

from rocketfsck.common.budget import core_count, within
from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.index.entryfeed import LogEntryFeed
from rocketfsck.verify.index.entryjoin import KeyJoin
from rocketfsck.verify.index.file import check_index_file
from rocketfsck.verify.log.regions import BadRanges, LiveRows
from rocketfsck.verify.tasks.task import Collector, Context, IndexFileTask

from benchmarks.data import BEGIN_TIMESTAMP, KEYS_A_RECORD, IndexStore, LogFile
from benchmarks.measure import Job, Row, Yardstick, interleaved

NONE = np.zeros(0, np.int64)


def scan_file(log: LogFile, *, compiled: bool = True, threads: int = 0) -> None:
    """The full scan of one log file, as a check does it; raises if a record is missed or found at fault.

    On all cores, if `threads` is 0.
    """
    jobs = threads or core_count()
    count = faults = 0
    table, batch = QueueTable(), new_batch()
    budget = within(compiled=compiled, file_threads=jobs, reads_ahead=jobs > 1)
    with FileReader(log.path) as reader, budget:
        for found in scan_log_file(reader, 0, ScanOptions(), table, batch=batch):
            if not isinstance(found, Region):
                count += found.record_count
                faults |= int(np.bitwise_or.reduce(found["faults"]))
    if count != log.record_count or faults:
        raise RuntimeError(f"{log.path}: {count} records of {log.record_count}, faults {faults:#x}")


def on_two_threads(job: Job) -> Job:
    """Two runs of a job at once, each on a thread of its own."""

    def run() -> None:
        threads = [threading.Thread(target=job) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return run


def log_rows(log: LogFile, rounds: int, goal: float | None) -> Iterator[Row]:
    """The scan of one file: on all cores, on one thread alone, two files on two threads."""

    def alone() -> None:
        scan_file(log, threads=1)

    with closing(Yardstick(log.path)) as yardstick:
        jobs: dict[str, Job] = {
            "sum": yardstick,
            "scan": lambda: scan_file(log),
            "alone": alone,
            "two": on_two_threads(alone),
        }
        least = interleaved(jobs, rounds)
    rate = f"{log.record_count / least['scan'] / 1e6:.1f} M records/s"
    name = f"full scan on all cores, {log.name}"
    yield _row(name, least["scan"], "sum of the file", least["sum"], goal, rate=rate)
    yield _row(f"… on one thread, {log.name}", least["alone"], "sum of the file", least["sum"])
    throughput = 2 * least["alone"] / least["two"]
    wanted = 1.8 if goal is not None and goal > 6 else None
    yield Row(
        f"… two files on two threads, {log.name}",
        least["two"] * 1e3,
        "throughput of one thread",
        throughput,
        wanted,
        at_least=True,
    )


def index_rows(index: IndexStore, rounds: int, goals: tuple[float, float] | None) -> Iterator[Row]:
    """What a check does with an index file: the structure, then its entries met by the log's keys."""
    store = open_store(index.root, broker_conf=index.root / "broker.conf")
    context = Context(store, "cross", BEGIN_TIMESTAMP, data_size=index.size)
    batches = list(key_batches(index))
    table = QueueTable()
    table.intern(b"TopicTest", 0)

    def structure() -> None:
        _nothing_found(check_index_file(IndexFileTask(context, 0)).counts)

    def compared() -> None:
        structure()
        collector = Collector()
        end = store.commitlog.files[0].size
        with within(compiled=True), LogEntryFeed(store, 0, end) as feed:
            join = KeyJoin(store, feed, collector, relative="commitlog")
            for batch in batches:
                join.add(batch, LiveRows(batch, table, "commitlog", 0))
            left = join.finish(BadRanges(NONE, NONE, NONE), 0, 0)
        if len(left.unindexed) or len(left.loose):
            raise RuntimeError("entries without records or records without entries in a sound index file")
        _nothing_found(collector.counts)

    with closing(Yardstick(index.path)) as yardstick:
        least = interleaved({"sum": yardstick, "structure": structure, "compared": compared}, rounds)
    for name, text, goal in (
        ("structure", "index file, structure", None if goals is None else goals[0]),
        ("compared", "index file, structure and keys", None if goals is None else goals[1]),
    ):
        rate = f"{index.entry_count / least[name] / 1e6:.0f} M entries/s"
        yield _row(text, least[name], "sum of the file", least["sum"], goal, rate=rate)


def key_batches(index: IndexStore) -> Iterator[RecordBatch]:
    """The records of the index's keys, as a scan of their log gives them to the check."""
    count = 16384
    for first in range(0, index.entry_count, KEYS_A_RECORD * count):
        keys = slice(first, first + KEYS_A_RECORD * count)
        starts = np.arange(0, len(index.key_hash[keys]), KEYS_A_RECORD)
        batch = new_batch(len(starts), len(index.key_hash[keys]))
        batch.counts[:2] = (len(starts), len(index.key_hash[keys]))
        batch.records["pos"][:] = index.phy_offset[keys][starts]
        batch.records["store_timestamp"][:] = index.store_timestamp[keys][starts]
        batch.records["key_start"][:] = starts
        batch.records["key_count"][:] = np.diff(np.append(starts, batch.key_count))
        batch.keys["key_hash"][:] = index.key_hash[keys]
        yield batch


def _nothing_found(counts: Mapping[str, int]) -> None:
    if counts:
        raise RuntimeError(f"a sound file is said to be damaged: {dict(counts)}")


def plain_rows(log: LogFile, folder: Path, rounds: int) -> Iterator[Row]:
    """The compiled scan against the plain one, on the first 1/32 of a file."""
    part = folder / f"{log.path.name}.part-32"
    size = log.size // 32
    if not part.exists():
        with log.path.open("rb") as source:
            part.write_bytes(source.read(size))

    def scan(compiled: bool) -> int:
        count = 0
        with FileReader(part) as reader, within(compiled=compiled):
            for found in scan_log_file(reader, 0, ScanOptions(), QueueTable()):
                count += 0 if isinstance(found, Region) else found.record_count
        return count

    jobs: dict[str, Job] = {"plain": lambda: _drop(scan(False)), "compiled": lambda: _drop(scan(True))}
    least = interleaved(jobs, max(rounds // 3, 1))
    yield Row(
        f"compiled scan against the plain one, {log.name}",
        least["compiled"] * 1e3,
        "speed of the plain scan",
        least["plain"] / least["compiled"],
        at_least=True,
    )


def carve_rows(size: int, rounds: int) -> Iterator[Row]:
    """Looking for a record where there is none: random bytes, and the worst that can be chosen."""
    from rocketfsck.scan.log.resync import find_candidate

    worst = np.tile(np.frombuffer(b"\xda\xa3", np.uint8), size // 2)
    for name, data in (
        ("random bytes", np.random.default_rng(1).integers(0, 256, size, np.uint8)),
        ("bytes of half a magic code", worst),
    ):
        words = data.view(np.int64)
        jobs: dict[str, Job] = {
            "sum": lambda words=words: _drop(words.sum()),  # type: ignore[misc]
            "carve": lambda data=data: _drop(  # type: ignore[misc]
                find_candidate(data, 0, size, 0, 0, 0, size, size)
            ),
        }
        least = interleaved(jobs, rounds)
        yield _row(f"carving, {name}", least["carve"], "sum of the bytes", least["sum"])


def _row(
    job: str, seconds: float, yardstick: str, of: float, goal: float | None = None, *, rate: str = ""
) -> Row:
    return Row(job, seconds * 1e3, f"{yardstick}, {of * 1e3:.1f} ms", seconds / of, goal, rate=rate)


def _drop(_: object) -> None:
    """A job's result is of no interest."""
