"""What planners and acts are given: the store as it is, and the tree that may be changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rocketfsck.repair.plan.arguments import GroupOffset
from rocketfsck.repair.plan.model import Action, Extent
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    from rocketfsck.repair.area.worktree import WorkTree
    from rocketfsck.store.model import Store
    from rocketfsck.verify.finding import Finding
    from rocketfsck.verify.report import Report

_CHUNK_SIZE = 1 << 20
Found = TypeVar("Found")
LONGEST_PLAIN = 1 << 31
"""Bytes; a broker maps its files, so none of them has as many."""


@dataclass(frozen=True, slots=True)
class PlanScene:
    """The store, read-only, and the report that the plan is made from. `findings` are all of its findings,
    `wished` the committed offsets that the user asked for."""

    store: Store
    report: Report
    findings: tuple[Finding, ...]
    wished: tuple[GroupOffset, ...] = ()
    _known: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, find: Callable[[PlanScene], Found]) -> Found:
        """What `find` finds in this scene: found when it is asked for first, and kept for all planners."""
        if find not in self._known:
            self._known[find] = find(self)
        found: Found = self._known[find]
        return found

    def drafts(
        self,
        name: str,
        findings: Sequence[Finding],
        make: Callable[[PlanScene, Sequence[Finding]], Iterable[Action]],
    ) -> tuple[Action, ...]:
        """The actions that the repair of a name makes of some of these findings: made once."""
        key = (name, tuple(map(id, findings)))
        if key not in self._known:
            self._known[key] = tuple(make(self, findings))
        found: tuple[Action, ...] = self._known[key]
        return found

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

    Holes are hashed as the zeros they read as. More bytes than a file of a broker has, which may be little
    but holes, are hashed by their chunks of `_CHUNK_SIZE` that are not all zero, each after its place: the
    same bytes have the same hash, whether their zeros are holes or data. Raises StoreError if the bytes
    cannot be read.
    """
    digest = hashlib.sha256()
    with FileReader(path) as reader:
        stop = reader.size if end is None else end
        if end is None:
            digest.update(reader.size.to_bytes(8, "big"))
        if stop - start <= LONGEST_PLAIN:
            for pos in range(start, stop, _CHUNK_SIZE):
                digest.update(reader.read(pos, min(_CHUNK_SIZE, stop - pos)))
            return digest.hexdigest()
        reader.read(stop, 0)  # raises where the file ends before
        for pos, data in _chunks_with_data(reader, start, stop):
            digest.update((pos - start).to_bytes(8, "big") + len(data).to_bytes(8, "big") + data)
        digest.update(f"the chunks of {stop - start} bytes that are not zero".encode())
    return digest.hexdigest()


def _chunks_with_data(reader: FileReader, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a range, counted from its start, that are not all zero, and where they are."""
    done = 0
    for low, high in reader.data_extents(start, stop):
        last = -(-(high - start) // _CHUNK_SIZE)
        for number in range(max((low - start) // _CHUNK_SIZE, done), last):
            pos = start + number * _CHUNK_SIZE
            data = reader.read(pos, min(_CHUNK_SIZE, stop - pos))
            if data.count(0) < len(data):
                yield pos, data
        done = max(done, last)
