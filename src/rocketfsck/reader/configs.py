"""A file of config/ as a broker loads it: the file, and where that is missing, empty or broken its .bak.

ConfigManager.load. Reference 1.6.
"""

from __future__ import annotations

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats.config import decode_config
from rocketfsck.store.model import Store
from rocketfsck.store.reading import read_whole

BACKUP = ".bak"


def loaded_config(store: Store, name: str, limit: int) -> object | None:
    """The value that a broker goes by, of a file of at most `limit` bytes; None where neither helps."""
    files = {file.name: file for file in store.configs}
    for candidate in (name, f"{name}{BACKUP}"):
        file = files.get(candidate)
        if file is None or not file.size:
            continue
        try:
            value: object = decode_config(read_whole(file.path, limit))
        except (FormatError, StoreError):
            continue
        return value
    return None
