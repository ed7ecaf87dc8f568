"""Damages as people and machines make them: what was done to a store of several files, and how much of its
commit log is damaged or missing by it.

    renamed-file       a commit log file in the middle was renamed by hand
    lost-last-file     the last commit log files are missing, of which two have messages
    bit-rot            a disk changed bits in twenty bodies, and overwrote 6,000 bytes with something else
    power-loss         the last record was written in part, and the broker did not stop in order
    deleted-queues     the consume queues of a topic were deleted
    wrong-index        an index file is the copy of another one

All of them work on `5.3.3-multiseg`. What is expected comes from the bytes that a damage writes, and from no
check.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STORE = "5.3.3-multiseg"
MAGIC = bytes.fromhex("daa320a7")
BLOCK = 6000


@dataclass(frozen=True, slots=True)
class Expected:
    """Bytes of the commit log: those that are damaged, and those that are missing in the middle of it."""

    bad_size: int = 0
    hole_size: int = 0


def records_of(log: Path) -> list[tuple[int, int]]:
    """Where the records of a commit log file begin, and their sizes."""
    data = log.read_bytes()
    found, pos = [], 0
    while data[pos + 4 : pos + 8] == MAGIC:
        found.append((pos, int.from_bytes(data[pos : pos + 4], "big")))
        pos += found[-1][1]
    return found


def logs_of(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def _write(path: Path, pos: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(pos)
        file.write(data)


def _rename(root: Path) -> Expected:
    log = logs_of(root)[2]
    log.rename(log.with_name("99999999"))
    return Expected(hole_size=log.with_name("99999999").stat().st_size)


def _lose_last(root: Path) -> Expected:
    last = [log for log in logs_of(root) if records_of(log)][-2]
    for log in logs_of(root):
        if log >= last:
            log.unlink()
    return Expected()


def _rot(root: Path) -> Expected:
    logs = logs_of(root)
    bad = 0
    for pos, size in records_of(logs[1])[5::10][:20]:
        _write(logs[1], pos + 100, bytes([(logs[1].read_bytes()[pos + 100]) ^ 4]))  # in the body
        bad += size
    listed = records_of(logs[3])
    start = listed[60][0]
    _write(logs[3], start, random.Random(1).randbytes(BLOCK))
    end = next(pos for pos, _ in listed if pos >= start + BLOCK)
    return Expected(bad_size=bad + end - start)


def _tear(root: Path) -> Expected:
    last = [log for log in logs_of(root) if records_of(log)][-1]
    pos, size = records_of(last)[-1]
    _write(last, pos + size // 2, bytes(size - size // 2))
    (root / "abort").touch()
    return Expected(bad_size=size)


def _delete_queues(root: Path) -> Expected:
    shutil.rmtree(root / "consumequeue" / "Seg1")
    return Expected()


def _wrong_index(root: Path) -> Expected:
    files = sorted((root / "index").iterdir())
    files[1].write_bytes(files[3].read_bytes())
    return Expected()


DAMAGES: dict[str, Callable[[Path], Expected]] = {
    "renamed-file": _rename,
    "lost-last-file": _lose_last,
    "bit-rot": _rot,
    "power-loss": _tear,
    "deleted-queues": _delete_queues,
    "wrong-index": _wrong_index,
}
