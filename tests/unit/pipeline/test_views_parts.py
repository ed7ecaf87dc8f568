"""Parts of a file that continue each other's walks have the rows of the whole file, whatever is in it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views import walking
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import plan_parts
from rocketfsck.pipeline.views.walking import Continuations, PartWalk, WalkedPart, identity
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log import tiling
from rocketfsck.scan.log.live import LiveScan
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.reading import FileReader

from tests.conftest import NIGHTLY
from tests.unit.pipeline.test_views_damage import LOGS, SIZE, SPLITS, Log, _store
from tests.unit.pipeline.viewing import Row, rows_of
from tests.unit.scan.logmaker import STORE_TIMESTAMP, closed, record

ORDERS = ("forward", "backward", "even and odd", "again")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Walks end batches often, in parts and whole files alike."""
    monkeypatch.setattr(tiling, "batch_for", lambda _: new_batch(5))
    walking.continuations.forget()
    yield
    walking.continuations.forget()


@pytest.fixture
def continued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where walks were continued."""
    found: list[int] = []
    sound = PartWalk.__init__

    def noted(self: PartWalk, *given: Any) -> None:
        sound(self, *given)
        if self.walked is not None:
            found.append(self.walked.pos)

    monkeypatch.setattr(PartWalk, "__init__", noted)
    return found


def _several_queues() -> bytes:
    """Records of many queues, bodies of records, time that goes back, queue offsets that repeat."""
    seeded, data, number = random.Random(3), b"", 0
    while len(data) < SIZE - 4000:
        pos = len(data)
        body = (
            record(pos + 88, body=record(pos + 200)) if seeded.random() < 0.2 else bytes([number % 256]) * 90
        )
        data += record(
            pos,
            body=body,
            topic=f"topic-{seeded.randrange(9)}".encode(),
            queue_offset=number // 9 if seeded.random() < 0.95 else 0,
            store_timestamp=STORE_TIMESTAMP + number * 10 - seeded.randrange(2) * 25,
        )
        number += 1
    return closed(data, SIZE)


def _mutants(data: bytes, count: int) -> Iterator[bytes]:
    """The log with pieces overwritten: by noise, zeros, or other pieces of itself."""
    for seed in range(count):
        seeded, mutant = random.Random(seed), bytearray(data)
        for _ in range(seeded.randrange(1, 4)):
            pos, size = seeded.randrange(SIZE), seeded.choice((1, 4, 50, 700, 6000))
            piece = seeded.choice(
                (seeded.randbytes(size), bytes(size), data[seeded.randrange(SIZE) :][:size])
            )
            mutant[pos : pos + len(piece)] = piece
        yield bytes(mutant[:SIZE])


def _ordered(parts: list[Part], order: str) -> list[Part]:
    if order == "backward":
        return parts[::-1]
    return parts[::2] + parts[1::2] if order == "even and odd" else parts


def _same_rows(root: Path, wanted: dict[str, Any], splits: tuple[int, ...] = SPLITS) -> None:
    sources = [replace(source, listed=1) for source in find_sources([root])]

    def parts_of(split: int) -> tuple[list[Part], WantedRows]:
        asked = WantedRows(damage_rows=True, split_size=split, **wanted)
        return list(plan_parts("messages", sources, asked)), asked

    (part,), asked = parts_of(0)
    whole = rows_of(part, asked)
    first, *others = splits
    pairs = (
        itertools.product(splits, ORDERS)
        if NIGHTLY
        else [
            *((first, order) for order in ORDERS),
            *((split, order) for split in others for order in ("backward", "again")),
        ]
    )
    for split, order in pairs:
        parts, asked = parts_of(split)
        assert len(parts) > 2
        if order != "again":
            walking.continuations.forget()
        rows: dict[int, list[Row]] = {part.start: rows_of(part, asked) for part in _ordered(parts, order)}
        assert [row for start in sorted(rows) for row in rows[start]] == whole


@pytest.mark.parametrize("live_only", [True, False])
@pytest.mark.parametrize("make", [*LOGS, _several_queues])
def test_parts_continue_each_other(make: Log, live_only: bool, tmp_path: Path, continued: list[int]) -> None:
    data = make()
    _same_rows(_store(tmp_path / "broker", data), {"live_only": live_only})
    begins_with_records = make.__name__ not in ("_nothing", "_noise")
    assert bool(continued) == begins_with_records


@pytest.mark.parametrize("make", [_several_queues, LOGS[5], LOGS[7]])
def test_parts_of_damaged_files(make: Log, tmp_path: Path, continued: list[int]) -> None:
    for number, data in enumerate(_mutants(make(), 6)):
        root = _store(tmp_path / str(number), data)
        _same_rows(root, {"live_only": bool(number % 2)}, SPLITS[number % 3 :][:1])
    assert len(continued) > 6


def test_a_file_that_changed_is_walked_from_its_start(tmp_path: Path, continued: list[int]) -> None:
    root = _store(tmp_path / "broker", _several_queues())
    _same_rows(root, {})
    assert continued
    continued.clear()
    path = root / "commitlog" / f"{0:020}"
    with FileReader(path) as reader:
        before = identity(reader, 0, ScanOptions())
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"x")
    with FileReader(path) as reader:
        assert identity(reader, 0, ScanOptions()) != before
        assert identity(reader, 1, ScanOptions()) != identity(reader, 0, ScanOptions())
        assert identity(reader, 0, ScanOptions(in_entries=True)) is None
    asked = WantedRows(split_size=SPLITS[0])
    (source,) = find_sources([root])
    rows_of(list(plan_parts("messages", [source], asked))[3], asked)
    assert not continued


def test_parts_in_order_read_each_batch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk ends with its part, and the next one continues after the record that reaches over the end."""
    root = _store(tmp_path / "broker", closed(b"".join(record(pos) for pos in _places(100)), SIZE))
    (source,) = find_sources([root])
    filled: list[int] = []
    sound = tiling.fill_batch

    def noted(*given: Any, **named: Any) -> Any:
        filled.append(given[1].file_pos + given[1].start)
        return sound(*given, **named)

    monkeypatch.setattr(tiling, "fill_batch", noted)
    monkeypatch.setattr(tiling, "piece_end", lambda pos: (pos // 5000 + 1) * 5000)
    for split_size in (0, 5000):
        asked = WantedRows(split_size=split_size)
        parts = plan_parts("messages", [replace(source, listed=1)], asked)
        assert sum(len(rows_of(part, asked)) for part in parts) == 100
    of_records = [pos for pos in filled if pos < _places(101)[100]]
    whole, in_parts = of_records[: len(of_records) // 2], of_records[len(of_records) // 2 :]
    assert whole == in_parts == sorted(whole)


def _places(count: int) -> list[int]:
    """Where records of one size begin."""
    return [number * len(record(0)) for number in range(count)]


def test_what_is_kept_is_bounded() -> None:
    kept = Continuations()

    def walk(pos: int, table: QueueTable | None = None) -> WalkedPart:
        return WalkedPart(pos - 1, pos, 0, LiveScan(), QueueTable() if table is None else table)

    for pos in (50, 10, 40, 20, 30):
        kept.keep("a", walk(pos))
    assert kept.take("a", 19) is None  # the least went
    assert kept.take("b", 99) is None
    assert [found and found.pos for found in (kept.take("a", 45), kept.take("a", 45))] == [40, 30]
    for number in range(walking.FILE_COUNT):
        kept.keep(number, walk(1))
    assert kept.take("a", 99) is None
    large = QueueTable()
    large.counts[1] = walking.MAX_NAME_SIZE + 1
    kept.keep("large", walk(1, large))
    assert kept.take("large", 99) is None
