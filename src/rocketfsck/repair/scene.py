"""What planners and acts are given: the store as it is, and the tree that may be changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketfsck.repair.plan import Extent
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.repair.worktree import WorkTree
    from rocketfsck.store.model import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report

_CHUNK_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class PlanScene:
    """The store, read-only, and the report that the plan is made from. `findings` are all of its findings."""

    store: Store
    report: Report
    findings: tuple[Finding, ...]

    def path_of(self, file: str) -> str:
        """The path of a file named relative to the root (or by its full path)."""
        return file if file.startswith("/") else f"{self.store.root}/{file}"

    def extent(self, file: str, start: int = 0, end: int | None = None) -> Extent:
        """The bytes of a file as they are now. Raises StoreError if they cannot be read."""
        return Extent(file, start, end, hash_bytes(self.path_of(file), start, end))


@dataclass(frozen=True, slots=True)
class ActScene:
    """The tree to change, and `reopen`, which opens it as a store in its present state."""

    tree: WorkTree
    reopen: Callable[[], Store]


def hash_bytes(path: str, start: int = 0, end: int | None = None) -> str:
    """Hex SHA-256 of bytes of a file; a whole file's length is hashed before its data.

    Holes are hashed as the zeros they read as. Raises StoreError if the bytes cannot be read.
    """
    digest = hashlib.sha256()
    with FileReader(path) as reader:
        stop = reader.size if end is None else end
        if end is None:
            digest.update(reader.size.to_bytes(8, "big"))
        for pos in range(start, stop, _CHUNK_SIZE):
            digest.update(reader.read(pos, min(_CHUNK_SIZE, stop - pos)))
    return digest.hexdigest()
