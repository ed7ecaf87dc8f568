"""A node of DLedger's: how far its entries go, and what its own small files say.

    entries      dledger-<selfId>/data          the first and the last sound entry
    state        dledger-<selfId>/checkpoint    up to which entry the group agreed
                 dledger-<selfId>/currterm      the node's term, and whom it voted for

Reference 2.14.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query.start.entries import SoundEntry, Window, read_entry
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.reading import read_whole
from rocketfsck.store.settings import parse_settings

STATE_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class NodeState:
    """The numbers in a node's checkpoint and currterm; None: none there."""

    directory: str
    committed_index: int | None
    current_term: int | None
    voted_for: str | None


@dataclass(frozen=True, slots=True)
class NodeSide:
    """A node of DLedger's: its entries, and its state as in `NodeState`.

    `end_offset` is the offset after its last sound entry.
    """

    directory: str
    first_index: int | None
    last_index: int | None
    last_term: int | None
    end_offset: int
    committed_index: int | None
    current_term: int | None
    voted_for: str | None


def data_files(store: Store) -> tuple[MappedFile, ...]:
    """The files of the log that hold entries of DLedger's, in order; () where the log is plain."""
    return tuple(file for file in store.commitlog.files if file.in_entries)


def opened(file: MappedFile) -> LoadedFile:
    """A data file, for `Window`."""
    return LoadedFile(file.location, file.relative, file.start_offset or 0, file.size, file.size)


def _walk(file: LoadedFile) -> Iterator[SoundEntry]:
    window, pos = Window(file), 0
    try:
        while isinstance(entry := read_entry(window, pos, file.start_offset), SoundEntry):
            yield entry
            pos += entry.size
    finally:
        window.close()


def node_side(store: Store) -> NodeSide | None:
    """How far the entries of a store's node go; None where its log is plain. Raises StoreError."""
    files, state = data_files(store), node_state(store)
    if state is None:
        return None
    first = next(_walk(opened(files[0])), None)
    last: SoundEntry | None = None
    for file in reversed(files):
        for entry in _walk(opened(file)):
            last = entry
        if last is not None:
            break
    return NodeSide(
        state.directory,
        None if first is None else first.index,
        None if last is None else last.index,
        None if last is None else last.term,
        (files[0].start_offset or 0) if last is None else last.pos + last.size,
        state.committed_index,
        state.current_term,
        state.voted_for,
    )


def node_state(store: Store) -> NodeState | None:
    """What checkpoint and currterm of a store's node say; None where its log is plain. Raises StoreError."""
    files = data_files(store)
    if not files:
        return None
    directory = files[0].relative.rpartition("/data/")[0]
    checkpoint, term = (_values(store, f"{directory}/{name}") for name in ("checkpoint", "currterm"))
    return NodeState(
        directory,
        _number(checkpoint, "committedIndex"),
        _number(term, "currTerm"),
        term.get("voteLeader") or None,
    )


def _values(store: Store, name: str) -> dict[str, str]:
    for other in store.others:
        for file in other.files:
            if file.relative == name:
                try:
                    return parse_settings(read_whole(file.path, STATE_SIZE))
                except ValueError:
                    return {}
    return {}


def _number(values: dict[str, str], key: str) -> int | None:
    return java_parse_long(values.get(key, "").strip())
