"""What the compiled scanner keeps between calls: addresses of a batch, rows that queues had lately."""

from __future__ import annotations

import gc
import random

import numpy as np

from rocketfsck.scan.columns import RecordBatch, new_batch
from rocketfsck.scan.compiled import records as kernels
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.queues import QueueTable

from tests.unit.scan.logmaker import BASE, record

SUFFIX = b"%RETRY%group-of-consumers"


def scan(data: bytes, batch: RecordBatch, table: QueueTable, *, compiled: bool = True) -> None:
    buffer = np.frombuffer(data, np.uint8)
    scanner = kernels.scan_records if compiled else plain.scan_records
    end, stop = scanner(buffer, 0, len(data), 0, BASE, len(data), ScanOptions(), batch, table)
    assert (end, stop) == (len(data), Stop.LIMIT)


def log_of(topics: list[bytes], seed: int = 1) -> bytes:
    rng, data = random.Random(seed), b""
    for topic in topics:
        body = rng.randbytes(rng.randrange(20))
        data += record(BASE + len(data), topic=topic, queue_id=rng.randrange(3), body=body)
    return data


def test_names_that_are_guessed_wrong_are_found_all_the_same() -> None:
    rng = random.Random(7)
    names = [bytes(rng.choices(b"ab", k=rng.randrange(12))) for _ in range(80)]
    names += [bytes([65 + number]) + SUFFIX for number in range(20)]
    names += [bytes([65 + number]) * 70 + SUFFIX[-8:] for number in range(20)]
    data = log_of(rng.choices(names, k=3000))
    one, other = new_batch(4096), new_batch(4096)
    table, expected = QueueTable(), QueueTable()
    for _ in range(2):  # the second time every queue has been met
        one.begin(0)
        other.begin(0)
        scan(data, one, table)
        scan(data, other, expected, compiled=False)
        assert np.array_equal(one["queue_index"], other["queue_index"])
        assert table.names == expected.names


def test_a_table_has_guesses_of_its_own() -> None:
    data = log_of([b"TopicA", b"TopicB", b"TopicA"])
    batch, table, other = new_batch(16, 64, 64), QueueTable(), QueueTable()
    other.intern(b"first", 0)
    for queues in (table, other, table):
        batch.begin(0)
        scan(data, batch, queues)
        names = [queues.names[row][0] for row in batch["queue_index"].tolist()]
        assert names == [b"TopicA", b"TopicB", b"TopicA"]


def test_batches_take_turns_and_leave_nothing() -> None:
    gc.collect()
    before = len(kernels._scratches)
    table = QueueTable()
    batches = [new_batch(64, 256, 64) for _ in range(3)]
    for number in (0, 1, 2, 1, 0):
        batches[number].begin(0)
        scan(log_of([b"T"] * (10 + number), number), batches[number], table)
    assert [batch.record_count for batch in batches] == [10, 11, 12]
    assert [int(batch["total_size"].sum()) for batch in batches] == [
        len(log_of([b"T"] * (10 + number), number)) for number in range(3)
    ]
    assert len(kernels._scratches) == before + 3
    del batches
    gc.collect()
    assert len(kernels._scratches) == before
