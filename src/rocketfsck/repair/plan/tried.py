"""A store as actions would leave it, to be looked at before anything is done: links, and what changes.

    <directory>/store/…    the store's directories, with symbolic links to its files; what changes is a copy
                           or, of a large file, a layer (`repair.area.worktree`)

The store itself is not touched: no hard links are made, and files are opened for reading only.

What a plan would make of a store, without repairing it: its actions are tried on a view of the store.

    plan, store --> TriedStore --acts--> store as the plan leaves it --predict--> starts

The view is in a scratch directory. Large files cost what is written to them; what is built (queues, index
files) costs its size. `apply` builds the same with the same acts, checks it and publishes it.

The bytes that actions of a plan would write, without a tree to write them to.

The act of a repair runs against the store itself, with a tree that keeps what it is to write and changes
nothing. What comes of it holds for the store as it is: an action that goes by what earlier ones of its plan
leave behind has none, and neither has one that makes, moves or deletes files, or writes much.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from rocketfsck.common.outputs import free_size, scratch_parent
from rocketfsck.common.wording import count_of
from rocketfsck.errors import RocketfsckError, StoreError
from rocketfsck.progress import phase
from rocketfsck.query.start.verdict import Prediction, predict_each, start_classes, versions_of
from rocketfsck.repair.area.manifests import outside_directories
from rocketfsck.repair.area.worktree import COPIED_SIZE, ThinTree, WorkTree
from rocketfsck.repair.plan.model import Action, Plan
from rocketfsck.repair.plan.planning import all_repairs, describe_store, open_planned
from rocketfsck.repair.plan.table import ActScene, is_near
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.reading import Closing, os_error_text
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import ConfinedPlace

REHEARSED_LIMIT = 1 << 16
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
        if size > REHEARSED_LIMIT:
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
    outside = [path for path in store.commitlog.directories if not path.is_relative_to(store.root)]
    tree = KeepingTree(store.root, outside)

    def reopen() -> Store:
        if done:
            raise NotKeptError("an act goes by what earlier ones leave", path=action.target)
        return store

    repair.act(ActScene(tree, reopen), action, action.arguments)
    return tuple(tree.kept)


_SPARE_SIZE = 1 << 20
_MAX_DEPTH = 64
_Identity = tuple[int, int]


class TriedStore(Closing):
    """A view of a store, in an empty directory, that takes the changes of actions. A context manager.

    `actions` are the first ones: room for them is looked for. Raises StoreError where there is none, or
    something cannot be read or written. What this process opens of the view after `close` reads wrong.
    """

    def __init__(self, store: Store, directory: Path, actions: Sequence[Action]) -> None:
        self._planned = describe_store(store)
        self._directory = directory
        _check_room(store, directory, actions)
        outside = outside_directories(self._planned.root, self._planned.commitlog_paths)
        self._tree = ThinTree(directory, outside)
        try:
            fileops.make_directory(self._tree.at("outside"))
            _lend(os.fspath(store.root), self._tree.at("store"))
            for path, place in self._tree.outside.items():
                _lend(path, self._tree.on_disk(place))
        except OSError as error:
            text = f"cannot be written: {os_error_text(error)}"
            raise StoreError(text, path=os.fspath(directory)) from error

    def close(self) -> None:
        self._tree.close()

    def carry_out(self, actions: Iterable[Action]) -> None:
        """Do what actions say."""
        table = all_repairs()
        for action in actions:
            table[action.name].act(ActScene(self._tree, self.reopen), action, action.arguments)

    def reopen(self) -> Store:
        """The store as it is now. Files of a commit log outside of the root have the names that they have in
        the store."""
        paths = [self._moved(path) for path in self._planned.commitlog_paths]
        store = open_planned(self._planned, self._tree.root, paths, self._tree.at("broker.conf"))
        files = tuple(
            replace(file, relative=self.name_of(file.relative)) if file.relative.startswith("/") else file
            for file in store.commitlog.files
        )
        return replace(store, commitlog=replace(store.commitlog, files=files))

    def name_of(self, file: str) -> str:
        """The store's name of a file of the view."""
        return self._tree.name_of(file) if file.startswith("/") else file

    def shown(self, text: str) -> str:
        """A text about the view as one about the store."""
        for name, place in ((self._planned.root, os.fspath(self._tree.root)), *self._tree.outside.items()):
            text = text.replace(place, name)
        return text

    def is_lent(self, file: StoreFile) -> bool:
        """Whether a file of the view is one of the store's, unchanged and under its own name."""
        name = self.name_of(file.location)
        path = name if name.startswith("/") else f"{self._planned.root}/{name}"
        return os.path.islink(file.location) and os.readlink(file.location) == os.path.abspath(path)  # noqa: PTH100, PTH114, PTH115

    def _moved(self, path: str) -> Path:
        inside = path.removeprefix(self._planned.root + "/")
        return self._tree.root / inside if inside != path else Path(self._tree.outside[path])


def _check_room(store: Store, directory: Path, actions: Iterable[Action]) -> None:
    targets = {action.target for action in actions}
    logs = (file for file in store.commitlog.files if file.relative in targets)
    needed = sum(file.allocated_size for file in logs if file.size <= COPIED_SIZE)
    needed += sum(action.write_byte_count for action in actions) + _SPARE_SIZE
    free = free_size(directory)
    if free < needed:
        raise StoreError(
            f"the trial of the plan needs {count_of(needed, 'byte')}, and {free:,} are free; name another "
            "place with --work-dir",
            path=os.fspath(directory),
        )


def _lend(source: str, target: ConfinedPlace, above: tuple[_Identity, ...] = ()) -> None:
    """The directories below `source`, with links to its files. Links to directories are followed."""
    status = os.stat(source)  # noqa: PTH116 - names may be any bytes
    inner = (*above, (status.st_dev, status.st_ino))
    fileops.make_directory(target, 0o700)
    with os.scandir(source) as entries:
        listed = sorted(entries, key=lambda entry: entry.name)
    for entry in listed:
        place = target / entry.name
        is_directory = os.path.isdir(entry.path)  # noqa: PTH112 - False for a link to itself
        if is_directory and len(inner) <= _MAX_DEPTH and _identity(entry) not in inner:
            _lend(entry.path, place, inner)
        else:
            fileops.symlink(os.path.abspath(entry.path), place)  # noqa: PTH100


def _identity(entry: os.DirEntry[str]) -> _Identity:
    status = entry.stat()
    return status.st_dev, status.st_ino


WRITTEN_LIMIT = 2 << 30
"""Bytes that the actions of a plan that is only tried may write."""


def untried_reason(plan: Plan, store: Store) -> str:
    """Why a plan is not tried; "" where it can be."""
    if store.live.locked:
        return "a broker is running on the store"
    size = sum(action.write_byte_count for action in plan.actions)
    if size > WRITTEN_LIMIT:
        return f"the plan writes up to {count_of(size, 'byte')}, more than the {WRITTEN_LIMIT:,} of a trial"
    return ""


@contextmanager
def trying(plan: Plan, store: Store) -> Iterator[TriedStore]:
    """A view of the store, which is as the plan was made for, with all actions of the plan carried out.

    Raises RocketfsckError where an action cannot be carried out, StoreError for what cannot be read or
    written.
    """
    with (
        tempfile.TemporaryDirectory(prefix="rocketfsck-trial-", dir=scratch_parent()) as place,
        TriedStore(store, Path(place).resolve(), plan.actions) as view,
    ):
        with phase("trying the plan"):
            view.carry_out(plan.actions)
        yield view


def predict_tried(tried: Store, predictions: Sequence[Prediction]) -> list[Prediction]:
    """The starts on a store that a plan was tried on: of the versions of `predictions`, which are those of
    the store before, grouped by what the store is now."""
    asked = {version for one in predictions for version in (one.version, *one.alike)}
    classes = start_classes(version for version in versions_of(tried) if str(version) in asked)
    with phase("predicting the starts after the plan"):
        return predict_each(tried, classes)
