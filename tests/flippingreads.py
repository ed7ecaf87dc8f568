"""A disk that gives wrong bytes the first time: for tests of the second look."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rocketfsck.store.reading import FileReader


@contextmanager
def flipping(path: Path, pos: int, marker: Path) -> Iterator[None]:
    """The first reader opened that reads the byte at `pos` of a file gets it with all bits turned.

    `marker` is a file that is made then; whoever finds it, in whichever process, reads what is there.
    """
    true_read = FileReader.read_into

    def read_into(self: FileReader, view: memoryview | bytearray, start: int = 0) -> None:
        true_read(self, view, start)
        target = memoryview(view).cast("B")
        if self.path != str(path) or not start <= pos < start + len(target):
            return
        try:
            owner = marker.read_text("ascii")
        except FileNotFoundError:
            owner = f"{id(self)}"
            marker.write_text(owner, "ascii")
        if owner == f"{id(self)}" and not marker.with_suffix(".closed").exists():
            target[pos - start] ^= 0xFF

    def close(self: FileReader) -> None:
        if self.path == str(path) and marker.exists() and marker.read_text("ascii") == f"{id(self)}":
            marker.with_suffix(".closed").touch()
        true_close(self)

    true_close = FileReader.close

    def pread(descriptor: int, size: int, start: int) -> bytes:
        data = true_pread(descriptor, size, start)
        if start <= pos < start + len(data) and Path(f"/proc/self/fd/{descriptor}").readlink() == path:
            with suppress(FileExistsError), marker.open("x", encoding="ascii"):
                wrong = bytearray(data)
                wrong[pos - start] ^= 0xFF
                return bytes(wrong)
        return data

    true_pread = os.pread
    FileReader.read_into, FileReader.close = read_into, close  # type: ignore[method-assign, assignment]
    os.pread = pread
    try:
        yield
    finally:
        os.pread = true_pread
        FileReader.read_into, FileReader.close = true_read, true_close  # type: ignore[method-assign]
