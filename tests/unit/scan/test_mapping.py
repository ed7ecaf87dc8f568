"""Mapped files: a scan gives what it gives without; a byte that is gone is an error, not a signal."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.scan import mapping, pieces, shared, sigbus, source, tiling
from rocketfsck.scan.columns import new_batch
from rocketfsck.scan.mapping import MappedFile, map_file
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.regions import Region
from rocketfsck.scan.source import ReadAhead
from rocketfsck.scan.tiling import scan_log_file
from rocketfsck.store import open_store
from rocketfsck.store.reading import FileReader

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.unit.scan.logmaker import BASE, closed, log
from tests.unit.scan.test_shared import bodies, damage, scan

pytestmark = pytest.mark.skipif(sigbus.installed() is None, reason="files are mapped on 64-bit Linux only")
PAGE = os.sysconf("SC_PAGESIZE")
SIZE = 64 * PAGE


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a few kilobytes were what many megabytes are."""
    monkeypatch.setattr(source, "BUFFER_SIZE", 3000)
    monkeypatch.setattr(source, "MAPPED_STEP", 5000)
    monkeypatch.setattr(mapping, "HELD_SIZE", 2 * PAGE)
    monkeypatch.setattr(
        tiling, "ReadAhead", lambda *given, **named: ReadAhead(*given, buffer_size=3000, **named)
    )
    monkeypatch.setattr(shared, "BUFFER_SIZE", 700)
    monkeypatch.setattr(pieces, "BEHIND_SIZE", 100)
    monkeypatch.setattr(shared, "PIECE_SIZE", 9000)
    monkeypatch.setattr(shared, "SHARED_FROM", 18000)
    monkeypatch.setattr(shared, "_spare", deque())


@pytest.fixture
def mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCKETFSCK_READ", "map")


def random_file(folder: Path, size: int = SIZE) -> tuple[Path, bytes]:
    data = random.Random(7).randbytes(size)
    path = folder / "file"
    path.write_bytes(data)
    return path, data


def in_both_ways(path: Path, base: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found = []
    for mode, jobs in itertools.product(("copy", "map"), (1, 3)):
        monkeypatch.setenv("ROCKETFSCK_READ", mode)
        found.append(scan(path, base, jobs))
    assert all(each == found[0] for each in found)
    return found[0]


# --- which files are mapped


def test_the_environment_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = random_file(tmp_path)
    with FileReader(path) as reader:
        assert map_file(reader) is None  # too small
        monkeypatch.setattr(mapping, "MAPPED_FROM", len(data))
        for mode, is_mapped in (("", True), ("auto", True), ("copy", False), ("map", True)):
            monkeypatch.setenv("ROCKETFSCK_READ", mode)
            found = map_file(reader)
            assert (found is not None) == is_mapped
            if found is not None:
                assert found.array.tobytes() == data
                found.close()
        monkeypatch.setenv("ROCKETFSCK_READ", "mmap")
        with pytest.raises(UsageError, match="copy, map or auto"):
            map_file(reader)


@pytest.mark.usefixtures("mapped")
def test_what_is_never_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = random_file(tmp_path)
    with FileReader(path) as reader:
        os.truncate(path, 10)
        assert map_file(reader) is None  # shorter than it was
    (tmp_path / "empty").touch()
    with FileReader(tmp_path / "empty") as reader:
        assert map_file(reader) is None
    with FileReader(path) as reader:
        monkeypatch.setattr(sigbus, "MACHINES", frozenset())
        assert map_file(reader) is None  # nothing would catch the signal
        monkeypatch.setattr(sys, "platform", "darwin")
        assert map_file(reader) is None


@pytest.mark.usefixtures("mapped")
def test_a_file_elsewhere_is_not_mapped() -> None:
    fsspec = pytest.importorskip("fsspec")
    from rocketfsck.store.locations import locate

    fsspec.filesystem("memory").pipe_file("/mapping/log", bytes(SIZE))
    with FileReader(locate("memory://mapping/log")) as reader:
        assert map_file(reader) is None


@pytest.mark.usefixtures("mapped")
def test_a_handler_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise RuntimeError("LLVM does not know this")

    monkeypatch.setattr(sigbus, "_handler_code", broken)
    monkeypatch.setattr(sigbus, "_handler", None)
    monkeypatch.setattr(sigbus, "_failed", False)
    path, _ = random_file(tmp_path)
    with FileReader(path) as reader:
        assert map_file(reader) is None
        assert map_file(reader) is None


# --- what is read


@pytest.mark.usefixtures("mapped")
def test_the_window_goes_over_the_map(tmp_path: Path) -> None:
    path, data = random_file(tmp_path)
    with FileReader(path) as reader, ReadAhead(reader, buffer_size=1000, mapped=True) as window:
        window.move_to(5000)
        assert window.start == window.end == 5000
        assert window.extend()
        assert window.extend()
        assert bytes(window.buffer[window.start : window.end]) == data[5000:8000]
        window.move_to(6000)
        assert (window.start, window.end) == (6000, 8000)
        window.copy()
        window.copy()
        assert window.start == window.end
        assert window.extend()
        assert bytes(window.buffer[window.start : window.end]) == data[6000:7000]
        while window.extend():
            window.start = window.end - 10
        assert bytes(window.buffer[window.start : window.end]) == data[-10:]


def test_a_map_that_costs_too_much_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, data = random_file(tmp_path)
    monkeypatch.setattr(mapping, "MAPPED_FROM", 1)
    monkeypatch.setattr(mapping, "MOST_CPU", -1e9)
    with FileReader(path) as reader, ReadAhead(reader, buffer_size=1000, mapped=True) as window:
        seen = b""
        while window.extend():
            seen += bytes(window.buffer[window.start : window.end])
            window.start = window.end
            assert threading.active_count() > 1  # what is copied is read ahead
    assert seen == data


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("name", [*STORE_NAMES[::4], *RESTART_NAMES[::6]])
def test_stores(
    name: str, store_dir: Directory, restart_dir: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store_dir(name) if name in STORE_NAMES else restart_dir(name)
    for file in open_store(folder).commitlog.files:
        in_both_ways(Path(file.location), file.start_offset or 0, monkeypatch)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("seed", range(12))
def test_mutants(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    data = bytearray(closed(log(*bodies(300)), 120_000))
    damage(data, rng)
    path = tmp_path / "log"
    path.write_bytes(data)
    in_both_ways(path, BASE, monkeypatch)


# --- what is gone


@contextmanager
def map_of(path: Path) -> Iterator[MappedFile]:
    with FileReader(path) as reader:
        file = MappedFile(reader)
        file.check()
        yield file
        file.close()


def test_a_byte_that_is_gone_is_noted(tmp_path: Path) -> None:
    path, data = random_file(tmp_path)
    with map_of(path) as file:
        os.truncate(path, 8 * PAGE)
        assert not file.array[20 * PAGE + 5 :].any()
        assert file.array[: 8 * PAGE].tobytes() == data[: 8 * PAGE]
        with pytest.raises(StoreError, match="ended here while it was read") as caught:
            file.check()
    assert caught.value.offset == 20 * PAGE + 5


def test_a_file_that_is_shorter_within_its_page(tmp_path: Path) -> None:
    path, _ = random_file(tmp_path)
    with map_of(path) as file:
        os.truncate(path, SIZE - 10)
        with pytest.raises(StoreError, match="ended here while it was read") as caught:
            file.check()
    assert caught.value.offset == SIZE - 10


def test_a_byte_that_is_there_again(tmp_path: Path) -> None:
    path, data = random_file(tmp_path)
    with map_of(path) as file:
        os.truncate(path, PAGE)
        assert not file.array[PAGE:].any()
        path.write_bytes(data)
        with pytest.raises(StoreError, match="a moment ago") as caught:
            file.check()
    assert caught.value.offset == PAGE


def test_a_file_that_cannot_be_asked_any_more(tmp_path: Path) -> None:
    path, _ = random_file(tmp_path)
    with map_of(path) as file:
        file._reader.close()
        with pytest.raises(StoreError, match="cannot be read: Bad file descriptor"):
            file.check()


@pytest.mark.usefixtures("mapped", "small_steps")
@pytest.mark.parametrize("jobs", [1, 3])
def test_a_log_that_shrinks_under_the_scan(
    jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (pieces, shared, tiling):
        monkeypatch.setattr(module, "new_batch", lambda: new_batch(8, 64))
    path = tmp_path / "log"
    path.write_bytes(log(*bodies(2000)))
    count = 0
    with FileReader(path) as reader:
        found = scan_log_file(reader, BASE, ScanOptions(), QueueTable(), compiled=True, jobs=jobs)
        with pytest.raises(StoreError, match="ended here while it was read") as caught:
            for item in found:
                assert not isinstance(item, Region)
                assert not item["faults"].any()
                count += item.record_count
                os.truncate(path, 3 * PAGE)
    assert count
    assert caught.value.path == str(path)


def test_guards_run_out_and_come_back() -> None:
    with pytest.raises(OSError, match="too many"):
        guards = deque(sigbus.Guard(PAGE * (number + 1), PAGE) for number in range(sigbus.GUARD_COUNT + 1))
    guards = deque()
    rows = sigbus._handler.rows if sigbus._handler is not None else np.zeros((0, 3), np.int64)
    rows[rows[:, 0] == PAGE * (np.arange(len(rows)) + 1)] = 0  # those made above went with their names
    for number in range(3):
        guards.append(sigbus.Guard(PAGE * (number + 1), PAGE))
    assert all(guard.hit is None for guard in guards)
    for guard in guards:
        guard.close()


@pytest.mark.usefixtures("mapped")
def test_all_maps_together_hold_no_more_than_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "HELD_SIZE", 100)
    monkeypatch.setattr(mapping, "ALL_HELD_SIZE", 160)
    monkeypatch.setattr(mapping, "LEAST_HELD_SIZE", 30)
    path, _ = random_file(tmp_path)
    before = sigbus.Guard.count()
    with FileReader(path) as reader:
        file, other = MappedFile(reader), MappedFile(reader)
        assert sigbus.Guard.count() == before + 2
        other.close()
        assert sigbus.Guard.count() == before + 1
        for count, room in ((0, 100), (1, 100), (2, 80), (3, 53), (6, 30), (99, 30)):
            monkeypatch.setattr(sigbus.Guard, "count", lambda count=count: count)
            assert file.room == room
        file.close()


def other_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = """
        import mmap, os, sys
        import numpy as np
        from rocketfsck.scan import sigbus
        def shrunk(name):
            with open(name, "wb+") as file:
                file.write(bytes(1 << 16))
                file.flush()
                found = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
            os.truncate(name, 0)
            return found
    """
    command = [sys.executable, "-c", textwrap.dedent(program) + textwrap.dedent(code)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_other_faults_end_the_process_as_before(tmp_path: Path) -> None:
    found = other_process("assert sigbus.installed(); shrunk('a')[5]", tmp_path)
    assert found.returncode == -signal.SIGBUS


@pytest.mark.parametrize(
    "order", ["faulthandler.enable(); sigbus.installed()", "sigbus.installed(); faulthandler.enable()"]
)
def test_other_handlers_get_what_is_theirs(order: str, tmp_path: Path) -> None:
    code = f"""
        import faulthandler
        {order}
        guarded = shrunk("a")
        guard = sigbus.Guard(guarded.ctypes.data, len(guarded))
        print(guarded[70], guard.hit, flush=True)
        shrunk("b")[5]
    """
    found = other_process(code, tmp_path)
    assert found.stdout == "0 70\n"
    assert "Fatal Python error: Bus error" in found.stderr
    assert found.returncode == -signal.SIGBUS


# --- what changes


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(3, 40))]
)
def test_a_log_that_is_written_to_under_the_scan(seed: int, tmp_path: Path) -> None:
    """Whatever the scan finds then, it reads nothing but the file and ends."""
    code = f"""
        import random, threading, time
        os.environ["ROCKETFSCK_READ"] = "map"
        sys.path.insert(0, {str(Path.cwd())!r})
        from rocketfsck.scan.options import ScanOptions
        from rocketfsck.scan.queues import QueueTable
        from rocketfsck.scan.tiling import scan_log_file
        from rocketfsck.store.reading import FileReader
        from tests.unit.scan.logmaker import BASE, closed, log
        from tests.unit.scan.test_shared import bodies
        rng = random.Random({seed})
        data = closed(log(*bodies(400)), 150_000)
        with open("log", "wb+") as file:
            file.write(data)
            file.flush()
            target = mmap.mmap(file.fileno(), 0)
        def scan():
            with FileReader("log") as reader:
                for item in scan_log_file(reader, BASE, ScanOptions(), QueueTable(), compiled=True):
                    pass
        scan()
        end = time.monotonic() + 2
        def write():
            while time.monotonic() < end:
                for _ in range(50):
                    place = rng.randrange(len(data) - 8)
                    odd = rng.choice((rng.randbytes(4), b"\\x7f\\xff\\xff\\xff", data[:4]))
                    target[place : place + 4] = odd
                    target[place : place + 4] = data[place : place + 4]
        threads = [threading.Thread(target=write)]
        threads[0].start()
        scans = 0
        while time.monotonic() < end:
            scan()
            scans += 1
        threads[0].join()
        print(scans)
    """
    found = other_process(code, tmp_path)
    assert found.returncode == 0, found.stderr
    assert int(found.stdout) > 0


def test_a_map_is_used_whatever_it_costs_if_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = random_file(tmp_path)
    monkeypatch.setattr(mapping, "MOST_TIME", -1e9)
    with FileReader(path) as reader:
        for sure in (True, False):
            file = MappedFile(reader, sure=sure)
            assert file.ask(0, SIZE) == sure
            file.close()
