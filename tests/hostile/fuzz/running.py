"""Runs command lines in this process, through the console script's own way to an exit status."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rocketfsck.cli.app import run as run_command_line

OUTPUT_LIMIT = 8 << 20
_FRAME = re.compile(r'File ".*?/(rocketfsck/[^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended. `out` and `err` are what it wrote, up to a limit."""

    arguments: tuple[str, ...]
    status: int
    out: bytes
    err: str

    @property
    def crash(self) -> str:
        """Where in our own code an unexpected exception came from, and which; "" if there was none."""
        frames = _FRAME.findall(self.err)
        lines = [line for line in self.err.splitlines() if line.startswith("Internal error: ")]
        if not lines and self.status != 128:
            return ""
        file, _, name = frames[-1] if frames else ("?", "", "?")
        return f"{file}:{name}: {(lines or ['exit status 128'])[-1].removeprefix('Internal error: ')}"


def run(*arguments: str) -> Ended:
    """One command line, with --debug so that a crash says where it was. Nothing is raised."""
    with _captured() as (out, err):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ResourceWarning)
                status = run_command_line([*arguments, "--debug"])
        except BaseException as error:  # noqa: BLE001 - `run` promises to raise nothing
            status = 128
            print(f"Internal error: escaped: {type(error).__name__}: {error}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        written = _content(out), _content(err).decode("utf-8", "replace")
    return Ended(tuple(arguments), status, *written)


def _content(descriptor: int) -> bytes:
    size = min(os.fstat(descriptor).st_size, OUTPUT_LIMIT)
    return os.pread(descriptor, size, 0)


_FILES: dict[int, tuple[int, int]] = {}
"""By process: two files in memory, in which standard output and error end."""


@contextmanager
def _captured() -> Iterator[tuple[int, int]]:
    """Standard output and standard error are files in memory, also for what writes to their descriptors."""
    pid = os.getpid()
    if pid not in _FILES:
        _FILES[pid] = (os.memfd_create("out"), os.memfd_create("err"))
    files = _FILES[pid]
    kept = [os.dup(1), os.dup(2)]
    streams = sys.stdin, sys.stdout, sys.stderr
    try:
        for number, file in enumerate(files, 1):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, number)
        sys.stdin = io.TextIOWrapper(io.BytesIO(b""))
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        yield files
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.close()
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, old in enumerate(kept, 1):
            os.dup2(old, number)
            os.close(old)


def is_safe_text(out: bytes) -> bool:
    """Whether nothing in it could drive a terminal: no control character but the line's end."""
    return not set(out) & ((set(range(0x20)) - {0x0A}) | {0x7F})


def shown(arguments: Sequence[str]) -> str:
    """A command line for people."""
    return "rocketfsck " + " ".join(arguments)
