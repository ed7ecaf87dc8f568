"""Reading at a limited rate, and with the page cache left as it was."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from rocketfsck.cli.paramtypes import within_budget
from rocketfsck.errors import UsageError
from rocketfsck.reader.shortqueues import read_short_queues
from rocketfsck.store.reading import PIECE_SIZE, FileReader, Manners, read_once, reading_politely

from tests.conftest import Directory

SIZE = 3 * PIECE_SIZE + 5000


def cached_pages(path: Path) -> list[bool]:
    """Which pages of a file a read gives without waiting for the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = []
        for pos in range(0, path.stat().st_size, mmap.PAGESIZE):
            try:
                found.append(os.preadv(descriptor, [bytearray(1)], pos, os.RWF_NOWAIT) == 1)
            except BlockingIOError:
                found.append(False)
        return found
    finally:
        os.close(descriptor)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory where temporary files are, and not, as `tmp_path` may be, in memory."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


@pytest.fixture
def cold(on_disk: Path) -> Path:
    """A file of which the page cache has nothing but its second piece."""
    path = on_disk / "file"
    path.write_bytes(os.urandom(SIZE))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        os.preadv(descriptor, [bytearray(PIECE_SIZE)], PIECE_SIZE)
    except OSError as error:
        pytest.skip(str(error))
    finally:
        os.close(descriptor)
    pages = cached_pages(path)
    if all(pages) or not any(pages):
        pytest.skip("this file system has no page cache that can be emptied")
    return path


def test_the_page_cache_is_left_as_it_was(cold: Path) -> None:
    before = cached_pages(cold)
    with reading_politely(None, keeps_cache=True), FileReader(cold) as reader:
        data = reader.read(0, SIZE)
    assert cached_pages(cold) == before
    assert data == cold.read_bytes()


def test_reads_wait_for_their_turn(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(SIZE))
    started = time.monotonic()
    with reading_politely(2 * SIZE, keeps_cache=False), FileReader(path) as reader:
        assert reader.read(0, SIZE) == reader.read(0, SIZE) == path.read_bytes()
    assert time.monotonic() - started > 0.5  # a second, but for the burst and the last piece


def test_a_check_in_the_background(store_dir: Directory) -> None:
    """In a process of its own, which keeps the priority."""
    code = (
        "import os, sys; from rocketfsck.cli.app import run; "
        "code = run(sys.argv[1:]); print(os.nice(0)); sys.exit(code)"
    )
    arguments = ["check", str(store_dir("5.3.3-basic")), "-q", "--background", "--bwlimit", "1GiB"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "19", done.stderr


def test_what_does_not_go_with_it() -> None:
    with (
        pytest.raises(UsageError, match="not for Spark"),
        within_budget("check", {"bwlimit": 5, "engine": "spark"}),
    ):
        pass
    with pytest.raises(UsageError, match="at least 1"), within_budget("check", {"bwlimit": 0}):
        pass
    with within_budget("check", {"engine": "spark"}):
        pass


def test_short_reads_of_many_files_wait_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    monkeypatch.setattr(Manners, "wait_for", lambda _manners, count: waited.append(count))
    path = tmp_path / "file"
    units = b"".join(pack(">qiq", 100 * number, 100, 7) for number in range(300))
    path.write_bytes(units)
    with reading_politely(1, keeps_cache=False):
        found = read_short_queues([str(path)], [len(units)])
        assert found.count.tolist() == [300]
        assert sum(waited) >= len(units)
        waited.clear()
        assert read_once(str(path), memoryview(bytearray(60)), 20)
        assert waited == [60]
