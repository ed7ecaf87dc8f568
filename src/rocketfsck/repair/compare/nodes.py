"""What two replicas say besides their records: DLedger's entries and state, the epochs of controller mode.

    node     how far the entries of a node go, what it treats as agreed on, in which term it votes
    parting  the first entry that is not the same on both sides
    epochs   the last epoch that both have with one start, and up to where a slave keeps its log

A slave in controller mode goes back to the end of the last common epoch, a follower of DLedger's to the last
entry that it has in common with its leader. Reference 1.7, 2.14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocketfsck.errors import StoreError
from rocketfsck.formats.epoch import EpochEntry
from rocketfsck.query.nodes import NodeSide, data_files, node_side, opened
from rocketfsck.query.start.entries import SoundEntry, Window, read_entry
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.reader.epochs import read_epochs
from rocketfsck.store.model import MappedFile, Store


@dataclass(frozen=True, slots=True)
class EntryParting:
    """The first place where the entries are not the same, and what is there; None: no sound entry."""

    physical_offset: int
    index: int | None
    terms: tuple[int | None, int | None]
    in_header: bool


@dataclass(frozen=True, slots=True)
class EpochsCompared:
    """The last epoch that both have with one start (None: there is none), and where both logs go on from."""

    common_epoch: int | None
    consistent_offset: int | None
    last_epochs: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Replication:
    """What the replicas' own files say. `ahead` is the side whose last entry has a later term, or the same
    term and a higher number: the one that may lead; None where both are alike, or one is not a node."""

    nodes: tuple[NodeSide | None, NodeSide | None]
    parting: EntryParting | None
    ahead: str | None
    epochs: EpochsCompared | None


NO_REPLICATION = Replication((None, None), None, None, None)


def compare_replication(a: Store, b: Store, ends: tuple[int, int], first_unlike: int | None) -> Replication:
    """Both sides' nodes and epochs. `ends` are where the records end, `first_unlike` is the offset of the
    first block of bytes that is not the same. Raises StoreError."""
    nodes = (node_side(a), node_side(b))
    parting = None
    if first_unlike is not None and all(nodes):
        parting = _parting(data_files(a), data_files(b), first_unlike)
    reach = [_reach(node) for node in nodes if node is not None]
    ahead = None
    if len(reach) == len(nodes) and reach[0] != reach[1]:
        ahead = "A" if reach[0] > reach[1] else "B"
    return Replication(nodes, parting, ahead, _epochs(a, b, ends))


def _reach(node: NodeSide) -> tuple[int, int]:
    """What Raft compares: the term and the number of the last entry."""
    return (
        -1 if node.last_term is None else node.last_term,
        -1 if node.last_index is None else node.last_index,
    )


def _parting(a: Sequence[MappedFile], b: Sequence[MappedFile], first_unlike: int) -> EntryParting | None:
    """The first entry from the file of the first unlike block on that differs."""
    for mine in a:
        other = next((file for file in b if file.start_offset == mine.start_offset), None)
        if other is None or (mine.start_offset or 0) + mine.size <= first_unlike:
            continue
        found = _parting_in(opened(mine), opened(other), first_unlike)
        if found is not None:
            return found
    return None


def _parting_in(a: LoadedFile, b: LoadedFile, first_unlike: int) -> EntryParting | None:
    windows, pos = (Window(a), Window(b)), 0
    try:
        while True:
            entries = [read_entry(window, pos, a.start_offset) for window in windows]
            sound = [entry if isinstance(entry, SoundEntry) else None for entry in entries]
            mine = sound[0]
            if mine is None and sound[1] is None:
                return None
            end = pos + (mine.size if mine is not None else 0)
            same = sound[0] == sound[1]
            before = a.start_offset + end <= first_unlike
            if same and mine is not None and (before or _alike(windows, pos, end)):
                pos = end
                continue
            index = next(entry.index for entry in sound if entry is not None)
            terms = tuple(None if entry is None else entry.term for entry in sound)
            return EntryParting(a.start_offset + pos, index, (terms[0], terms[1]), in_header=not same)
    finally:
        for window in windows:
            window.close()


def _alike(windows: tuple[Window, Window], pos: int, end: int) -> bool:
    step = 1 << 20
    for start in range(pos, end, step):
        size = min(step, end - start)
        if windows[0].at(start, size) != windows[1].at(start, size):
            return False
    return True


def _epochs(a: Store, b: Store, ends: tuple[int, int]) -> EpochsCompared | None:
    """EpochFileCache.findConsistentPoint; None where a side has no epochs that can be read."""
    sides = [_epochs_of(store) for store in (a, b)]
    if not all(sides):
        return None
    starts = [{entry.epoch: number for number, entry in enumerate(side)} for side in sides]
    last = (sides[0][-1].epoch, sides[1][-1].epoch)
    for epoch in sorted(starts[0].keys() & starts[1].keys(), reverse=True):
        places = [numbers[epoch] for numbers in starts]
        if sides[0][places[0]].start_offset == sides[1][places[1]].start_offset:
            reached = [
                side[place + 1].start_offset if place + 1 < len(side) else end
                for side, place, end in zip(sides, places, ends, strict=True)
            ]
            return EpochsCompared(epoch, min(reached), last)
    return EpochsCompared(None, None, last)


def _epochs_of(store: Store) -> tuple[EpochEntry, ...]:
    try:
        return read_epochs(store)
    except StoreError:
        return ()
