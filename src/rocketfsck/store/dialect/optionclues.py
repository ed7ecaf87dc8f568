"""Clues in the options that RocksDB writes next to a database whenever a broker opens it.

    OPTIONS-NNNNNN   text; the highest number belongs to the last opening
      [DBOptions]
        bytes_per_sync=1048576   set by brokers from 5.3.2 on, 0 before

No setting of a broker changes this option. Reference 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocketfsck.errors import StoreError
from rocketfsck.store.dialect.clue import Clue, Fits, Found, Weight
from rocketfsck.store.elsewhere import QUEUE_DATABASES
from rocketfsck.store.model import OtherKind
from rocketfsck.store.reading import read_whole

OPTIONS_LIMIT = 1 << 20
"""Bytes of a file of options that are read; RocksDB's own have some 15 KB."""
_NAME = re.compile(r"OPTIONS-(\d{1,18})")
_SYNC = re.compile(rb"^\s*bytes_per_sync=(\d+)\s*$", re.MULTILINE)


def clues_in_options(found: Found) -> Iterator[Clue]:
    """What the newest options of each database of consume queues show; nothing where they cannot be read."""
    for other in found.others:
        if other.kind is not OtherKind.ROCKSDB or other.relative not in QUEUE_DATABASES:
            continue
        numbered = [(int(name[1]), file) for file in other.files if (name := _NAME.fullmatch(file.name))]
        if not numbered:
            continue
        _, newest = max(numbered, key=lambda item: item[0])
        try:
            option = _SYNC.search(read_whole(newest.path, OPTIONS_LIMIT))
        except StoreError:
            continue
        if option is not None:
            yield Clue(
                Weight.PRESENT,
                f"{newest.relative} has bytes_per_sync={int(option[1])}",
                "brokers set the option from 5.3.2 on",
                _set_by(int(option[1]) > 0),
            )


def _set_by(sets: bool) -> Fits:
    """Brokers that set the option, or those before."""
    return lambda dialect: dialect.version.since("5.3.2") == sets
