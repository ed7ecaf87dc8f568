"""The lock on byte 0: held by another process, free, absent, not testable. Never taken, never written."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rocketfsck.store import inuse as live
from rocketfsck.store.circumstances import LiveState, LockState
from rocketfsck.store.inuse import read_live_state

HOLDER = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]), os.SEEK_SET)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    return path


@contextmanager
def held(path: Path, start: int = 0, length: int = 1) -> Iterator[int]:
    """Another process holds a record lock on `start:start + length`, as a broker's tryLock does."""
    command = [sys.executable, "-c", HOLDER, os.fspath(path), str(start), str(length)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


def test_a_lock_that_a_process_holds(lock: Path) -> None:
    with held(lock) as pid:
        lock.chmod(0o444)  # now: only root could open it for the lock
        state = read_live_state(lock)
        assert (state.state, state.locked, state.holder_pid) == (LockState.HELD, True, pid)
        assert state.holder_command is not None
        assert "fcntl.lockf" in state.holder_command
        assert str(pid) in state.how
        # Asking did not take it: the holder still has it, and asking again says so.
        assert read_live_state(lock) == state
    assert read_live_state(lock).state is LockState.FREE


def test_only_byte_0_counts(lock: Path) -> None:
    with held(lock, 1, 1):
        state = read_live_state(lock)
    assert (state.state, state.locked, state.holder_pid) == (LockState.FREE, False, None)


def test_no_lock_file(tmp_path: Path) -> None:
    state = read_live_state(tmp_path / "lock")
    assert (state.state, state.locked) == (LockState.ABSENT, False)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
def test_a_lock_that_is_no_file_is_not_testable(tmp_path: Path, make: object) -> None:
    path = tmp_path / "lock"
    make(path)  # type: ignore[operator]
    state = read_live_state(path)
    assert (state.state, state.locked) == (LockState.UNKNOWN, None)
    assert "could not be tested" in state.how


@pytest.mark.parametrize(("number", "words"), [(37, "no record locks"), (5, "Input/output error")])
def test_a_file_system_that_does_not_answer(
    lock: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "fcntl", fail)
    state = read_live_state(lock)
    assert state.state is LockState.UNKNOWN
    assert words in state.how


def test_a_holder_out_of_sight(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock held on another host of a network file system, or in another pid namespace, has no pid."""
    answer = struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: answer)
    assert read_live_state(lock) == LiveState(
        LockState.HELD, "a process that is not visible here holds a record lock on byte 0 of `lock`"
    )


def test_a_holder_that_proc_does_not_name(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = struct.pack("@hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, (1 << 31) - 1)
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: answer)
    state = read_live_state(lock)
    assert (state.holder_pid, state.holder_command) == ((1 << 31) - 1, None)


def test_another_system(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_flock_is_known", lambda: False)
    assert read_live_state(lock).state is LockState.UNKNOWN
