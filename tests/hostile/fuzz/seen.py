"""Which fields a rule checks, so that a changed one must not pass a full check; and why others may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.hostile.fuzz.drawing import Ground
from tests.hostile.fuzz.mutations import Mutation

UNSEEN: Mapping[str, str] = {}


def unseen_damage(ground: Ground, store: Path, done: Sequence[Mutation]) -> Iterator[str]:
    """The changes that are still in the store, are of a field that a rule checks, and were not seen."""
    for mutation in done:
        if mutation.label and mutation.label not in UNSEEN and _is_there(ground, store, mutation):
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
