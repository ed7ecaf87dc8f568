"""Bytes that the driver puts by: in a file without a name, that goes with the object. Memory holds places."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO
from weakref import finalize

from rocketfsck.store.reading import named_errors
from rocketfsck.store.scratch import scratch_parent


@dataclass(frozen=True, slots=True)
class Kept:
    """Where some bytes are in a spool."""

    start: int = 0
    size: int = 0


class Spool:
    """Takes bytes, and gives them back; `what` names them in an error."""

    def __init__(self, what: str) -> None:
        self._what = what
        with named_errors(what, "cannot be kept in a temporary file"):
            self._file: IO[bytes] = TemporaryFile(prefix="rocketfsck-", dir=scratch_parent())  # noqa: SIM115
        finalize(self, self._file.close)

    def keep(self, data: bytes) -> Kept:
        """Put bytes by. Raises StoreError if the disk is full."""
        if not data:
            return Kept()
        with named_errors(self._what, "cannot be kept in a temporary file"):
            start = self._file.seek(0, 2)
            self._file.write(data)
        return Kept(start, len(data))

    def read(self, kept: Kept) -> bytes:
        """The bytes again. Raises StoreError where the disk does not give them back."""
        if not kept.size:
            return b""
        with named_errors(self._what, "cannot be read from a temporary file"):
            self._file.seek(kept.start)
            data = self._file.read(kept.size)
        assert len(data) == kept.size
        return data
