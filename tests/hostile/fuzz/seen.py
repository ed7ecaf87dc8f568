"""Which fields a rule checks, so that a changed one must not pass a full check; and why others may.

Every field of every format is in one of three tables. What is in PARTLY or BLIND can be damaged so that exit
status 0 says "nothing is wrong"; the reason says why that is so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.hostile.fuzz.drawing import Ground
from tests.hostile.fuzz.mutations import Mutation

CHECKED = frozenset({
    "record.totalSize", "record.magicCode", "record.bodyCRC", "record.queueId", "record.physicalOffset",
    "record.bodyLength", "record.body", "record.topicLength", "record.topic", "record.propertiesLength",
    "blank.totalSize", "blank.magicCode",
    "consumequeue_unit.size",
    "batch_consumequeue_unit.offset", "batch_consumequeue_unit.size", "batch_consumequeue_unit.msgBaseOffset",
    "batch_consumequeue_unit.batchSize",
    "consumequeue_ext_unit.size", "consumequeue_ext_unit.bitMapSize",
    "index_header.beginPhyOffset", "index_header.endPhyOffset", "index_header.indexCount",
    "index_slot.newestIndex",
    "index_entry.keyHash", "index_entry.phyOffset", "index_entry.prevIndex",
    "dledger_entry.magic", "dledger_entry.size", "dledger_entry.index", "dledger_entry.term",
    "dledger_entry.pos", "dledger_index.pos", "dledger_index.size", "dledger_index.index",
    "dledger_index.term",
})  # fmt: skip
"""Any other value is found."""

PARTLY: Mapping[str, str] = {}
"""Some other values are found."""

BLIND: Mapping[str, str] = {}
"""No other value is found."""


def unseen_damage(ground: Ground, store: Path, done: Sequence[Mutation]) -> Iterator[str]:
    """The changes that are still in the store, are of a field that a rule checks, and were not seen."""
    for mutation in done:
        if mutation.label in CHECKED and _is_there(ground, store, mutation):
            yield mutation.label


def _is_there(ground: Ground, store: Path, mutation: Mutation) -> bool:
    """Whether the changed bytes are in the file, and are not what they were."""
    if mutation.kind != "set":
        return False
    data, pos = bytes.fromhex(mutation.arguments["data"]), mutation.arguments["pos"]
    path = store / mutation.file
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        file.seek(pos)
        there = file.read(len(data))
    return there == data and ground.contents[mutation.file][pos : pos + len(data)] != data
