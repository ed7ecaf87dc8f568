"""A file scanned by several threads gives what one gives, whatever is wrong with it."""

from __future__ import annotations

import random
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.common.budget import current, within
from rocketfsck.errors import StoreError
from rocketfsck.scan.columns import RECORD_DTYPES, new_batch
from rocketfsck.scan.log import tiling
from rocketfsck.scan.log.resync import Region, RegionKind
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads import pieces
from rocketfsck.scan.threads.readahead import ReadAhead
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, check_store, run

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.hostile.mutate import mutate_store
from tests.unit.scan.logmaker import BASE, blank, closed, log, record

PIECE_SIZE = 2000
NOW = 1_800_000_000_000


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "SHARED_BUFFER_SIZE", 700)
    monkeypatch.setattr(pieces, "BEHIND_SIZE", 100)
    monkeypatch.setattr(pieces, "PIECE_SIZE", PIECE_SIZE)
    monkeypatch.setattr(pieces, "SHARED_FROM", 2 * PIECE_SIZE)
    monkeypatch.setattr(pieces, "_spare", deque())  # some tests make batches of their own size


def scan(path: Path, base: int, jobs: int, table: QueueTable | None = None) -> dict[str, Any]:
    """Everything that a scan gives, as it gives it."""
    table = QueueTable() if table is None else table
    columns: dict[str, list[Any]] = {name: [] for name in RECORD_DTYPES}
    order: list[Any] = []
    keys: list[Any] = []
    dispatches: list[Any] = []
    with FileReader(path) as reader, within(compiled=True, file_threads=jobs):
        found = scan_log_file(reader, base, ScanOptions(), table)
        for item in found:
            if isinstance(item, Region):
                order.append(item)
                continue
            order.append([item.run, item.record_count])
            for name, column in columns.items():
                column += item[name].tolist()
            place = item["pos"]
            keys += zip(place[item["key_record"]].tolist(), item["key_hash"].tolist(), strict=True)
            queues = item["dispatch_queue"].tolist()
            dispatches += zip(place[item["dispatch_record"]].tolist(), queues, strict=True)
    return {
        "columns": columns,
        "order": order,
        "keys": keys,
        "dispatches": dispatches,
        "names": table.names,
        "turned_away": table.turned_away_count,
    }


def same(path: Path, base: int = BASE, jobs: int = 3) -> dict[str, Any]:
    alone, together = scan(path, base, 1), scan(path, base, jobs)
    assert together == alone
    return alone


@pytest.fixture
def shared_count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records were given on by `shared_records`, file by file."""
    counts: list[int] = []
    real = pieces.shared_records

    def counted(*given: Any) -> Any:
        counts.append(0)
        for batch in real(*given):
            counts[-1] += batch.record_count
            yield batch

    monkeypatch.setattr("rocketfsck.scan.log.tiling.shared_records", counted)
    return counts


def bodies(count: int = 60) -> list[bytes]:
    return [bytes([65 + number % 26]) * (number * 7 % 300) for number in range(count)]


def damage(data: bytearray, rng: random.Random) -> None:
    """Overwrite one to eight places."""
    for _ in range(rng.choice((1, 2, 8))):
        place = rng.randrange(len(data))
        new = rng.choice((rng.randbytes(4), bytes(40), b"\x7f\xff\xff\xff", b"\xda\xa3\x20\xa7"))
        data[place : place + len(new)] = new


def write(folder: Path, data: bytes) -> Path:
    path = folder / "log"
    path.write_bytes(data)
    return path


def test_all_of_a_sound_file_is_shared(tmp_path: Path, shared_count: list[int]) -> None:
    path = write(tmp_path, closed(log(*bodies()), 40_000))
    assert len(same(path)["columns"]["pos"]) == 60
    assert shared_count == [60]


def test_small_files_are_not_worth_it(tmp_path: Path, shared_count: list[int]) -> None:
    same(write(tmp_path, log(*bodies(5))))
    assert shared_count == [0]


def test_one_thread_shares_nothing(tmp_path: Path, shared_count: list[int]) -> None:
    scan(write(tmp_path, log(*bodies())), BASE, 1)
    assert shared_count == []


def test_records_longer_than_pieces(tmp_path: Path, shared_count: list[int]) -> None:
    long = [b"x" * (5 * PIECE_SIZE if number % 3 == 0 else 9) for number in range(30)]
    same(write(tmp_path, log(*long)))
    assert shared_count == [30]


def test_a_record_that_fits_in_no_buffer(
    tmp_path: Path, shared_count: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "ReadAhead", partial(ReadAhead, front_size=1000))
    data = log(*bodies(20), b"x" * 2500, *bodies(20))
    found = same(write(tmp_path, data))
    assert len(found["columns"]["pos"]) == 41
    assert shared_count == [found["order"][0][1]]


def test_a_file_that_is_not_of_this_machine(shared_count: list[int]) -> None:
    fsspec = pytest.importorskip("fsspec")
    from rocketfsck.store.places.locations import locate

    data = closed(log(*bodies()), 40_000)
    fsspec.filesystem("memory").pipe_file("/shared/log", data)
    place = locate("memory://shared/log")
    assert len(same(place)["columns"]["pos"]) == 60
    assert shared_count == [60]


def test_queues_have_the_numbers_of_one_walk(tmp_path: Path, shared_count: list[int]) -> None:
    data = b""
    for number in range(200):
        topic = b"Topic%d" % (number * number % 37)
        data += record(BASE + len(data), topic=topic, queue_id=number % 3, body=b"x" * (number % 50))
    assert len(same(write(tmp_path, data))["names"]) > 50
    assert shared_count == [200]


def test_a_table_that_is_full(tmp_path: Path) -> None:
    data = b""
    for number in range(200):
        data += record(BASE + len(data), topic=b"Topic%d" % (number % 40))
    path = write(tmp_path, data)
    expected = scan(path, BASE, 1, QueueTable(max_queues=11))
    assert expected["turned_away"] > 0
    assert scan(path, BASE, 3, QueueTable(max_queues=11)) == expected


def test_damage_ends_the_sharing(tmp_path: Path, shared_count: list[int]) -> None:
    data = bytearray(log(*bodies()))
    place = scan(write(tmp_path, bytes(data)), BASE, 1)["columns"]["pos"][40]
    data[place + 4] ^= 0xFF
    found = same(write(tmp_path, bytes(data)))
    assert len(found["columns"]["pos"]) == 59
    assert shared_count == [40]


def test_a_copy_of_a_record_in_a_body_is_no_record(tmp_path: Path) -> None:
    first = log(*bodies(10))
    place = len(first) + 400
    for shift in range(300, 420):  # one of them stands first in a piece
        inner = record(BASE + len(first) + shift + 88, body=b"inner")
        data = first + record(BASE + len(first), body=b"\0" * shift + inner)
        data += log(*bodies(20), start=len(data))
        assert place < len(data)
        assert len(same(write(tmp_path, data))["columns"]["pos"]) + 1 > 30


def test_more_keys_than_a_piece_may_keep(
    tmp_path: Path, shared_count: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "new_batch", lambda: new_batch(2, 64))
    monkeypatch.setattr(tiling, "batch_for", lambda _: new_batch(2, 64))
    monkeypatch.setattr(pieces, "BATCHES_A_PIECE", 2)
    path = write(tmp_path, log(*[b"x"] * 60))
    assert len(same(path)["columns"]["pos"]) == 60
    assert shared_count == [4]


@pytest.mark.parametrize("end", ["blank", "zeros", "torn", "rubbish", "nothing"])
def test_ends(end: str, tmp_path: Path, shared_count: list[int]) -> None:
    data = log(*bodies())
    tails = {
        "blank": blank(9000) + bytes(8992),
        "zeros": bytes(9000),
        "torn": record(BASE + len(data), body=b"y" * 3000)[:-100] + bytes(9000),
        "rubbish": random.Random(1).randbytes(9000),
        "nothing": b"",
    }
    same(write(tmp_path, data + tails[end]))
    assert shared_count == [60]


def test_a_file_that_shrinks_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, log(*bodies(200)))
    count = 0
    with FileReader(path) as reader, within(compiled=True, file_threads=2):
        path.write_bytes(path.read_bytes()[:10_000])
        with pytest.raises(StoreError) as caught:
            for item in scan_log_file(reader, BASE, ScanOptions(), QueueTable()):
                count += 0 if isinstance(item, Region) else item.record_count
    assert caught.value.path == str(path)


def test_whoever_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    import threading

    before = threading.active_count()
    path = write(tmp_path, log(*bodies(400)))
    with FileReader(path) as reader, within(compiled=True, file_threads=3):
        found = scan_log_file(reader, BASE, ScanOptions(), QueueTable())
        assert not isinstance(next(found), Region)
        found.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("name", STORE_NAMES)
def test_stores(name: str, store_dir: Directory) -> None:
    for file in open_store(store_dir(name)).commitlog.files:
        same(Path(file.location), file.start_offset or 0)


@pytest.mark.parametrize(
    "seed", [*range(12), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(12, 60))]
)
def test_mutants(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = bytearray(closed(log(*bodies(150)), 60_000))
    damage(data, rng)
    if seed % 4 == 0:
        start = rng.randrange(len(data))
        del data[start : start + rng.randrange(3000)]
    found = same(write(tmp_path, bytes(data)))
    assert any(item for item in found["order"] if isinstance(item, Region) and item.kind != RegionKind.ZERO)


def report(folder: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(run, "_shared_cores", lambda store, engine: within(file_threads=threads))  # noqa: ARG005
    store = open_store(folder)
    found = check_store(store, CheckOptions(level="full", now_timestamp=NOW, jobs=1)).to_json()
    found.pop("seconds", None)
    return found


@pytest.mark.parametrize("name", [*STORE_NAMES[::4], *RESTART_NAMES[::6]])
def test_reports(
    name: str, store_dir: Directory, restart_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    folder = store_dir(name) if name in STORE_NAMES else restart_dir(name)
    assert report(folder, 3, monkeypatch) == report(folder, 1, monkeypatch)


@pytest.mark.parametrize("seed", range(12))
def test_reports_of_mutants(seed: int, store_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    folder = store_copy(STORE_NAMES[seed % len(STORE_NAMES)])
    mutate_store(seed, folder)
    together, alone = (report(folder, threads, monkeypatch) for threads in (3, 1))
    assert together == alone


def test_free_cores_share_a_file(store_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.engine import LocalEngine

    store = open_store(store_dir(STORE_NAMES[0]))
    monkeypatch.setattr(run, "core_count", lambda: 8)
    with run._shared_cores(store, LocalEngine(1)):
        assert current().file_threads == 8
    monkeypatch.setattr(run, "LARGE_SIZE", 0)
    count = len(store.commitlog.files)
    with run._shared_cores(store, LocalEngine(4)):
        assert current().file_threads == 8 // min(count, 4)


def test_numbers_are_those_of_the_asking_table() -> None:
    rows, table, batch = pieces._Rows(), QueueTable(), new_batch(4, 4)
    table.intern(b"b", 0)
    batch.counts[0] = 3
    batch.records["queue_index"][:3] = (1, -1, 0)
    lent = pieces._Lent(batch, QueueTable(), 2)
    assert rows.translate(lent, [(b"a", 0), (b"b", 0)], table)
    assert np.array_equal(batch["queue_index"], [0, -1, 1])
