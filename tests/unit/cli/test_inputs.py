"""What comes out of pipes and FIFOs in place of a file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.cli import paramtypes
from rocketfsck.errors import EXIT_OPERATIONAL

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

STORE = "5.3.3-trans"
AS_JSON = ("--kind", "checkpoint", "--format", "jsonl")


@pytest.fixture
def data(store_dir: Directory) -> bytes:
    return (store_dir(STORE) / "checkpoint").read_bytes()


@pytest.fixture
def time_of(data: bytes) -> int:
    """The first time in the checkpoint."""
    return int.from_bytes(data[:8])


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    os.mkfifo(path)
    return path


def writing(path: Path, *pieces: bytes, after: float = 0.0, between: float = 0.0) -> Callable[[], None]:
    """Writes into a FIFO from another thread; what waits for its end."""

    def write() -> None:
        time.sleep(after)
        with path.open("wb", buffering=0) as stream:
            for piece in pieces:
                stream.write(piece)
                time.sleep(between)

    thread = threading.Thread(target=write)
    thread.start()
    return thread.join


def test_a_fifo_without_a_writer_is_refused(cli: Cli, fifo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paramtypes, "WRITER_SECONDS", 0.1)
    ended = cli("dump", fifo)
    assert (ended.code, ended.out) == (EXIT_OPERATIONAL, "")
    assert list(fifo.parent.iterdir()) == [fifo]
    assert f"{fifo}: is a FIFO, and nobody has opened it to write within 0.1 s" in ended.err


def test_a_writer_that_comes_late_and_is_slow(cli: Cli, fifo: Path, data: bytes, time_of: int) -> None:
    """Once it is there, nobody asks how long it takes."""
    done = writing(fifo, data[:20], data[20:], after=0.1, between=0.1)
    (row, *_) = cli("dump", fifo, *AS_JSON).rows()
    assert row["physic_msg_timestamp"] == time_of
    done()


def test_a_writer_that_waits_and_writes_nothing(
    cli: Cli, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paramtypes, "WRITER_SECONDS", 0.05)
    done = writing(fifo, b"", between=0.2)
    ended = cli("dump", fifo, "--kind", "checkpoint")
    done()
    assert ended.code == 0
    assert "the file is empty" in ended.out


def test_pipes_whose_writers_have_ended(cli: Cli, data: bytes, time_of: int) -> None:
    """`<(true)` ends at once, and what is in a pipe is read although nobody writes any more."""
    for content, expected in ((data, time_of), (b"", None)):
        reading, target = os.pipe()
        os.write(target, content)
        os.close(target)
        began = time.monotonic()
        (row, *_) = cli("dump", f"/dev/fd/{reading}", *AS_JSON).rows()
        os.close(reading)
        assert time.monotonic() - began < paramtypes.WRITER_SECONDS
        assert row.get("physic_msg_timestamp") == expected
