"""The bytes that actions of a plan would write, without a tree to write them to.

The act of a repair runs against the store itself, with a tree that keeps what it is to write and changes
nothing. What comes of it holds for the store as it is: an action that goes by what earlier ones of its plan
leave behind has none, and neither has one that makes, moves or deletes files, or writes much.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from rocketfsck.errors import RocketfsckError, StoreError
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import all_repairs
from rocketfsck.repair.plan.table import ActScene, is_near
from rocketfsck.store.model import Store

WRITTEN_LIMIT = 1 << 16
"""Bytes that are kept of an action."""
TOTAL_LIMIT = 1 << 22
"""Bytes that are kept of all actions of a plan."""
ACTION_LIMIT = 4096
PLACE_LIMIT = 256
"""Places that are kept of an action."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """`size` bytes of a file (its name in the store) at `pos` become `data`, maybe shorter or longer."""

    file: str
    pos: int
    size: int
    data: bytes


class NotKeptError(StoreError):
    """An act does more than to replace a few bytes of files."""


class KeepingTree(WorkTree):
    """A tree that reads the store's own files and keeps what an act writes; NotKeptError for the rest."""

    def __init__(self, root: Path, outside: Sequence[Path] = ()) -> None:
        # No area: nothing of this tree is on disk.
        self.area = self.root = self.set_aside_root = root
        self.outside = {os.fspath(path): os.fspath(path) for path in outside}
        self.links, self.pins = [], {}
        self.kept: list[Replacement] = []

    def size(self, file: str) -> int:
        self._refuse_changed(file)
        return super().size(file)

    def read(self, file: str, start: int, size: int) -> bytes:
        self._refuse_changed(file)
        return super().read(file, start, size)

    def write(self, file: str, pos: int, data: bytes) -> None:
        size = super().size(file)
        for other in self.kept:
            if other.file == file and (other.size != len(other.data) or pos < other.pos + other.size):
                raise NotKeptError("is written twice", path=file)
        if pos > size:
            raise NotKeptError("is written after its end", path=file)
        self._keep(Replacement(file, pos, min(len(data), size - pos), data))

    def zero(self, file: str, start: int, end: int) -> None:
        if not 0 <= start <= end <= super().size(file):
            raise StoreError(f"has no bytes {start} to {end}", path=file)
        self._check_limit(file, end - start)
        self.write(file, start, bytes(end - start))

    def resize(self, file: str, size: int) -> None:
        old = self.size(file)
        self._check_limit(file, size - old)
        self._keep(Replacement(file, min(old, size), max(old - size, 0), bytes(max(size - old, 0))))

    def _keep(self, made: Replacement) -> None:
        self._check_limit(made.file, sum(len(item.data) for item in (*self.kept, made)))
        if len(self.kept) >= PLACE_LIMIT:
            raise NotKeptError("is changed in more places than are kept", path=made.file)
        if made.size or made.data:
            self.kept.append(made)

    def _check_limit(self, file: str, size: int) -> None:
        if size > WRITTEN_LIMIT:
            raise NotKeptError("gets more bytes than are kept", path=file)

    def _refuse_changed(self, file: str) -> None:
        if any(item.file == file for item in self.kept):
            raise NotKeptError("is read after it was changed", path=file)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotKeptError("an act makes, moves or copies files")

    at = on_disk = create = rename = set_aside = adopt = scratch = set_mtime = _refuse


def replacements_of(plan: Plan, store: Store) -> Iterator[tuple[Action, tuple[Replacement, ...]]]:
    """The actions of a plan that only replace bytes, and which, in the order of the plan.

    `store` is the one that the plan was made for, unchanged since. An action whose act fails has none.
    """
    done: list[Action] = []
    left = TOTAL_LIMIT
    for action in plan.actions[:ACTION_LIMIT]:
        try:
            kept = _rehearse(action, done, store)
        except RocketfsckError:
            kept = ()
        done.append(action)
        left -= sum(len(item.data) for item in kept)
        if left < 0:
            return
        if kept:
            yield action, kept


def _rehearse(action: Action, done: Sequence[Action], store: Store) -> tuple[Replacement, ...]:
    """What an action's act writes. Raises RocketfsckError where it does anything else."""
    repair = all_repairs()[action.name]
    # Acts on other parts than their target build these from the whole log.
    if repair.areas or action.sources or any(is_near(other.target, action.target) for other in done):
        return ()
    tree = KeepingTree(store.root, [path for path in store.commitlog.directories if not _within(path, store)])

    def reopen() -> Store:
        if done:
            raise NotKeptError("an act goes by what earlier ones leave", path=action.target)
        return store

    repair.act(ActScene(tree, reopen), action, action.arguments)
    return tuple(tree.kept)


def _within(path: Path, store: Store) -> bool:
    return path.is_relative_to(store.root)
