"""Opens the store that a command names, or says which one was probably meant; keeps what is written out."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketfsck.common.outputs import STDOUT
from rocketfsck.common.privacy import limit_to
from rocketfsck.common.wording import visible
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.progress import phase

if TYPE_CHECKING:
    from rocketfsck.store import Store

SHOWN = 5


def open_named_store(command: str, path: Path, **stated: Any) -> Store:
    """The store at `path`, opened with what was `stated` of it (see `open_store`) for a command of this name.

    Raises UsageError for a part of a store, or a directory above one, with the command line that names the
    store; StoreError or UsageError as `open_store` does.
    """
    from rocketfsck.store import open_store
    from rocketfsck.store.meant import find_meant_stores

    meant = find_meant_stores(path)
    if meant:
        raise UsageError(_hint(command, path, meant))
    if path.is_file():
        raise StoreError(
            f"is a file, not a store; `{shlex.join(['rocketfsck', 'dump', str(path)])}` shows it",
            path=str(path),
        )
    with phase("opening the store"):
        store = open_store(path, **stated)
    for directory in store.commitlog.directories:  # a broker.conf may name some outside
        limit_to(directory)
    return store


def resolved(path: Path) -> Path:
    """The path without symbolic links; of a link that leads to itself, the link."""
    try:
        return path.resolve()  # a URL has a way of its own
    except RuntimeError:
        return Path(os.path.realpath(path))


def _hint(command: str, path: Path, meant: tuple[Path, ...]) -> str:
    line = shlex.join(["rocketfsck", *command.split(), str(meant[0])])
    place = path.absolute()
    if place.is_relative_to(meant[0]):
        what = "file" if place.is_file() else "directory"
        return f"{path} is a {what} of the store {meant[0]}, not a store; did you mean `{line}`?"
    if len(meant) == 1:
        return f"{path} is not a store, but there is one in it; did you mean `{line}`?"
    names = ", ".join(str(store.relative_to(place)) for store in meant[:SHOWN])
    more = f" and {len(meant) - SHOWN} more" if len(meant) > SHOWN else ""
    return f"{path} is not a store, but there are {len(meant)} in it ({names}{more}); name one, like `{line}`"


def refuse_inside(path: Path, stores: Sequence[Path]) -> None:
    """Raise UsageError if `path` is one of the files or inside one of the directories that are read."""
    if path == STDOUT:
        return
    real = resolved(path)
    if any(real.is_relative_to(resolved(store)) for store in stores):
        raise UsageError(f"{visible(str(path))} is inside the store that is read; choose another place")
