"""Whether a repaired store has the owners, permissions and attributes that it had.

Everything that the repair made is compared with what it takes the place of. What is not kept is part of the
report; a store that its broker could not write to any more is not published.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from rocketfsck.errors import UsageError
from rocketfsck.repair.area.worktree import WorkTree
from rocketfsck.verify.rules.catalog import printable
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.traits import Traits, lost_traits, may_write, traits_of

_MOST = 100


def account_for_traits(root: str, tree: WorkTree, in_place: bool) -> tuple[str, ...]:
    """What is not kept, file by file, the first hundred. Raises OSError.

    Raises UsageError where the owner of the store, or of a file, could write to it before and no longer.
    Directories of the tree count only where they take the place of the store's.
    """
    owner = os.stat(root).st_uid  # noqa: PTH116
    lost: list[str] = []
    for name, kind, made in _made(tree, in_place):
        before = _before(root, name, kind)
        if before is None:
            _refuse_loss(name, owner, None, made)
            continue
        _refuse_loss(name, owner, before, made)
        _refuse_loss(name, before.user, before, made)
        lost += [f"{printable(name)}: {what}" for what in lost_traits(before, made)]
    more = [] if len(lost) <= _MOST else [f"and {len(lost) - _MOST} more"]
    return (*lost[:_MOST], *more)


def _made(tree: WorkTree, in_place: bool) -> Iterator[tuple[str, int, Traits]]:
    """The names, kinds and traits of all in the tree that is not shared with the store."""
    for base in ("", *tree.outside):
        for folder, _, names in fileops.walk(tree.on_disk(tree.place(base))):
            if not in_place:
                yield tree.name_of(str(folder)), stat.S_IFDIR, traits_of(str(folder))
            for name in names:
                status = fileops.status_of(folder / name)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    yield tree.name_of(str(folder / name)), stat.S_IFREG, traits_of(str(folder / name))


def _before(root: str, name: str, kind: int) -> Traits | None:
    """The traits of what has this name in the store; None where nothing of its kind has."""
    path = name if name.startswith("/") else f"{root}/{name}"
    try:
        same = stat.S_IFMT(os.stat(path).st_mode) == kind  # noqa: PTH116
        return traits_of(path) if same else None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _refuse_loss(name: str, user: int, before: Traits | None, made: Traits) -> None:
    if may_write(user, made) or (before is not None and not may_write(user, before)):
        return
    raise UsageError(
        f"{printable(name) or 'the store'} would belong to user {made.user}, and user {user}, whose store "
        f"it is, could not write to it any more; repair it as user {user} or as root"
    )
