"""Which paths a job over many stores is about. Only names are looked at: workers open the stores."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rocketfsck.errors import UsageError
from rocketfsck.store.areas import absolute_path, glob_remote
from rocketfsck.store.places.locations import locate, path_of
from rocketfsck.store.places.urls import is_remote
from rocketfsck.store.reading import named_errors

LIST_SIZE = 64 << 20
"""Bytes that a list of stores may have."""
_PATTERN = frozenset("*?[")


def is_pattern(path: Path | str) -> bool:
    """Whether a path has wildcards, and is not a file or directory of that very name."""
    text = os.fspath(path)
    return bool(_PATTERN & set(text)) and (is_remote(text) or not os.path.lexists(text))


def find_places(paths: Iterable[Path | str]) -> tuple[Path, ...]:
    """The absolute paths and URLs of the stores, each once, in their order; those of a pattern by name.

    Raises UsageError for a pattern without a match, or without any path; StoreError for a URL whose
    directories cannot be listed.
    """
    found = dict.fromkeys(place for path in paths for place in _expanded(path))
    if not found:
        raise UsageError("name at least one store")
    return tuple(found)


def _expanded(path: Path | str) -> Iterator[Path]:
    if not is_pattern(path):
        yield absolute_path(locate(path))
        return
    text = os.fspath(path)
    if is_remote(text):
        matches = glob_remote(text)
    else:
        matches = [match for match in sorted(glob.glob(text)) if Path(match).is_dir()]  # noqa: PTH207
    if not matches:
        raise UsageError(f"{text}: no directory matches this pattern")
    yield from (absolute_path(path_of(match)) for match in matches)


def read_list(file: Path) -> tuple[str, ...]:
    """The paths that a text file names, one a line; empty lines and lines that begin with # name none.

    Raises StoreError for a file that cannot be read, UsageError for one that names no path or is not a list.
    """
    with named_errors(file, "cannot be read"), file.open("rb") as stream:
        data = stream.read(LIST_SIZE + 1)
    if len(data) > LIST_SIZE or b"\0" in data:
        raise UsageError(f"{file}: not a list of paths, one on each line")
    lines = (os.fsdecode(line).strip() for line in data.splitlines())
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if not found:
        raise UsageError(f"{file}: the list names no store")
    return found
