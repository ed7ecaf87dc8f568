"""The window over a file: all bytes once, whatever the buffers, and errors that name the place."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rocketfsck.common.budget import within
from rocketfsck.errors import StoreError
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.threads import pieces, readahead
from rocketfsck.scan.threads.readahead import LEAST_FRONT_SIZE, ReadAhead
from rocketfsck.store.reading import FileReader

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.unit.scan.logmaker import BASE, closed, log, scan

DATA = random.Random(11).randbytes(10_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "bytes"
    found.write_bytes(DATA)
    return found


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize(
    ("size", "kept"), [(100, 0), (100, 99), (997, 300), (5000, 5), (10_000, 0), (1 << 20, 0)]
)
def test_all_bytes_pass_by_in_order(path: Path, size: int, kept: int, threaded: bool) -> None:
    seen = bytearray()
    with FileReader(path) as reader, ReadAhead(reader, buffer_size=size, threaded=threaded) as window:
        while window.extend():
            at = window.file_pos + window.start
            piece = window.buffer[window.start : window.end].tobytes()
            assert piece == DATA[at : at + len(piece)]
            seen[at:] = piece
            window.start = max(window.start, window.end - kept)
        assert window.window_end == len(DATA)
    assert seen == DATA


def test_a_walk_that_soon_ends_reads_little(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read is twice as long as the one before; behind a jump they begin with a short one again."""
    monkeypatch.setattr(readahead, "FIRST_SIZE", 16)
    sizes: list[int] = []
    read_into = FileReader.read_into

    def counted(reader: FileReader, view: memoryview, pos: int = 0) -> None:
        sizes.append(len(view))
        read_into(reader, view, pos)

    monkeypatch.setattr(FileReader, "read_into", counted)
    with FileReader(path) as reader:
        for threaded in (False, True):
            sizes.clear()
            with ReadAhead(reader, buffer_size=100, front_size=512, threaded=threaded) as window:
                for _ in range(4):
                    window.extend()
                assert sizes[:4] == [16, 32, 64, 100]
                window.move_to(len(DATA) - 300)
                window.start = window.end
                done = len(sizes)
                window.extend()
                assert sizes[done] == 16


@pytest.mark.parametrize("first", [16, 256])
@pytest.mark.parametrize("threaded", [True, False])
def test_the_window_can_be_put_anywhere(
    path: Path, monkeypatch: pytest.MonkeyPatch, threaded: bool, first: int
) -> None:
    """Whether the first reads are shorter than a buffer or not."""
    monkeypatch.setattr(readahead, "FIRST_SIZE", first)
    source = random.Random(1)
    with FileReader(path) as reader:
        window = ReadAhead(reader, buffer_size=256, front_size=512, threaded=threaded)
        with window:
            for _ in range(500):
                pos = source.randrange(len(DATA) + 1)
                window.move_to(pos)
                for _ in range(source.randrange(4)):
                    if window.extend() and source.random() < 0.5:
                        window.start = source.randrange(window.start, window.end + 1)
                at = window.file_pos + window.start
                piece = window.buffer[window.start : window.end].tobytes()
                assert piece == DATA[at : at + len(piece)]


def test_a_window_that_holds_more_than_its_front_is_not_extended(path: Path) -> None:
    with FileReader(path) as reader, ReadAhead(reader, buffer_size=1000, front_size=0) as window:
        assert window.extend()
        assert window.end - window.start > LEAST_FRONT_SIZE
        assert not window.extend()
        window.start = window.end
        assert window.extend()


@pytest.mark.parametrize("threaded", [True, False])
def test_a_file_that_shrinks_is_an_error_with_its_place(path: Path, threaded: bool) -> None:
    with FileReader(path) as reader:
        os.truncate(path, 5000)
        with (
            ReadAhead(reader, buffer_size=512, threaded=threaded) as window,
            pytest.raises(StoreError) as caught,
        ):
            while window.extend():
                window.start = window.end
        assert caught.value.path == str(path)
        assert caught.value.offset == 5000
        assert window.window_end <= 5000


def test_no_thread_is_left_behind(path: Path) -> None:
    before = threading.active_count()
    with FileReader(path) as reader:
        found = scan_log_file(
            reader,
            BASE,
            ScanOptions(),
            QueueTable(),
            batch=new_batch(4, 1 << 15),
            source=ReadAhead(reader, buffer_size=512),
        )
        next(found)
        found.close()
    assert threading.active_count() == before


def test_short_files_need_no_thread(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log(b"one"))
    before = threading.active_count()
    with FileReader(path) as reader:
        for _ in scan_log_file(reader, BASE, ScanOptions(), QueueTable()):
            assert threading.active_count() == before


@pytest.mark.parametrize("name", [*STORE_NAMES, *RESTART_NAMES])
def test_compiled_walks_say_the_same(name: str, store_dir: Directory, restart_dir: Directory) -> None:
    pytest.importorskip("numba")
    root = store_dir(name) if name in STORE_NAMES else restart_dir(name)
    for path in sorted((root / "commitlog").iterdir()):
        if not path.name.isdigit():
            continue
        for parser in ("split", "scan"):
            options = ScanOptions(property_parser=parser)
            base = int(path.name)
            expected = scan(path, base=base, options=options)
            with within(compiled=True):
                assert scan(path, base=base, options=options) == expected
                assert expected == scan(path, base=base, options=options, buffer_size=700, front_size=300)


MEASURE = """
import sys
from pathlib import Path
from rocketfsck.common.budget import within
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.log.tiling import scan_log_file
from rocketfsck.store.reading import FileReader

rows = []
with FileReader(sys.argv[1]) as reader, within(compiled=False):
    for found in scan_log_file(reader, int(sys.argv[2]), ScanOptions(), QueueTable()):
        if hasattr(found, "records"):
            rows += list(zip(found["total_size"].tolist(), found["faults"].tolist()))
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(rows, int(peak.split()[1]) >> 10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status")
def test_a_record_of_the_size_of_a_file_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(log(b"\x07" * (200 << 20), b"next") + bytes(64))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), str(BASE)], capture_output=True, text=True, check=True
    )
    rows, _, peak = done.stdout.strip().rpartition(" ")
    small = len(log(b"next"))
    assert rows == str([(path.stat().st_size - small - 64, 0), (small, 0)])
    assert int(peak) < 160


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(3, 40))]
)
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_log_that_is_written_to_under_the_scan(
    seed: int, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the scan finds then, it tiles the file and ends."""
    pytest.importorskip("numba")
    for name, size in (("PIECE_SIZE", 9000), ("SHARED_FROM", 18_000), ("SHARED_BUFFER_SIZE", 700)):
        monkeypatch.setattr(pieces, name, size)
    rng = random.Random(seed)
    data = closed(log(*([bytes([65 + n % 26]) * (n * 7 % 300) for n in range(400)])), 150_000)
    path = tmp_path / "log"
    path.write_bytes(data)
    stopped = threading.Event()

    def write() -> None:
        with path.open("r+b", buffering=0) as file:
            while not stopped.is_set():
                place = rng.randrange(len(data) - 8)
                odd = rng.choice((rng.randbytes(4), b"\x7f\xff\xff\xff", data[:4]))
                for written in (odd, data[place : place + 4]):
                    file.seek(place)
                    file.write(written)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            with FileReader(path) as reader, within(compiled=True, file_threads=jobs):
                found = scan_log_file(reader, BASE, ScanOptions(), QueueTable())
                regions = [item for item in found if isinstance(item, Region)]
            assert regions[0].start == 0
            assert regions[-1].end == len(data)
            assert all(one.end == two.start for one, two in itertools.pairwise(regions))
    finally:
        stopped.set()
        writer.join()
