"""The epoch file of a store whose broker is under a controller, and its .bak. Reference 1.7."""

from __future__ import annotations

from collections.abc import Mapping

from rocketfsck.formats.epoch import EpochEntry, decode_epochs
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_whole

EPOCH_LIMIT = 16 << 20
"""Bytes; a longer file is not read."""
BACKUP = ".bak"


def epoch_files(store: Store) -> Mapping[str, StoreFile]:
    """The epoch files by name, those that end in .bak, too."""
    files = (file for other in store.others if other.kind is OtherKind.EPOCH for file in other.files)
    return {file.name: file for file in files}


def read_epochs(store: Store) -> tuple[EpochEntry, ...]:
    """The epochs in the file itself, as in the file; without one: none.

    Raises FormatError for a damaged file and StoreError for one that cannot be read.
    """
    found: tuple[EpochEntry, ...] = ()
    for name, file in epoch_files(store).items():
        if not name.endswith(BACKUP):
            found += decode_epochs(read_whole(file.path, EPOCH_LIMIT)).entries
    return found
