"""The directory that a fleet's rebuild fills: who works in it, and what killed runs left there.

    DIR/.rebuilt/lock    locked (flock) by the driver for as long as it works in DIR
    DIR/.RUN_ID/         where workers build; gone at the end

Whoever has the lock knows that every other `.RUN_ID` is one of a killed driver. The workers of that driver
may live on for a moment, so the directory is renamed before anything else: no path below it leads anywhere
then, and nothing that the workers build gets a name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.fleet.records import RECORDS, clear_records
from rocketfsck.pipeline.rebuild.places import remove_tree
from rocketfsck.repair.area.locking import lock_directory
from rocketfsck.store.reading import named_errors
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import Root, open_root

LOCK = "lock"
_RUN = re.compile(r"\.\d{8}T\d{6}Z-\d{3}[0-9a-f]{6}")
"""The directory of a run (`fleet.run.make_run_id`)."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where workers build, and the names of the killed runs whose work was removed."""

    path: Path
    removed_runs: tuple[str, ...]


@contextmanager
def run_shelf(into: Path, run_id: str) -> Iterator[Shelf]:
    """The directory of a run's unfinished work in `into`, which is made if need be; gone at the end.

    Raises StoreError if another run works in `into`, or something cannot be made or removed.
    """
    with _locked(into) as is_locked:
        with named_errors(into, "cannot be made"):
            left = _runs_in(into)
            if left and not is_locked:
                raise StoreError(
                    "may belong to a rebuild that is running, because the file system has no locks: "
                    "remove the directory if no rebuild is running",
                    path=str(into / left[0]),
                )
            name = f".{run_id}"
            with open_root(os.path.realpath(into), only=frozenset({name, *left})) as root:
                fileops.make_directory(root / name)
                _remove_runs(root, name, left)
            clear_records(into)
        try:
            yield Shelf(into / name, tuple(run.removeprefix(".") for run in left))
        finally:
            with named_errors(into / name, "cannot be removed"):
                remove_tree(into / name)


def _runs_in(into: Path) -> list[str]:
    """The names of the directories of other runs, sorted."""
    return sorted(
        path.name
        for path in into.iterdir()
        if _RUN.fullmatch(path.name) and path.is_dir() and not path.is_symlink()
    )


def _remove_runs(root: Root, name: str, left: list[str]) -> None:
    for run in left:
        fileops.rename(root / run, root / f"{name}/{run}")
    for run in left:
        remove_tree(Path(root / f"{name}/{run}"))


@contextmanager
def _locked(into: Path) -> Iterator[bool]:
    """Make a directory, and hold its lock; False where its file system has no locks. Raises StoreError."""
    with named_errors(into, "cannot be made"):
        fileops.open_directory(into).close()
        with open_root(os.path.realpath(into), only=frozenset({RECORDS})) as root:
            fileops.make_directories(root / RECORDS)
            descriptor = fileops.open_file(root / f"{RECORDS}/{LOCK}", os.O_RDWR | os.O_CREAT)
    try:
        yield lock_directory(descriptor, str(into), "rebuild")
    finally:
        os.close(descriptor)
