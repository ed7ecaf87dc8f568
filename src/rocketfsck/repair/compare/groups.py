"""The nodes of one group looked at together: which to start first, what each start would lose.

    DLedger     the node whose last entry has the latest term, then the highest number, leads; the others
                remove what they have after the last entry that is the same
    controller  the replica with the latest epoch, then the longest log, is to lead; the others remove what
                they have after the last epoch that both have
    plain       nothing chooses; a slave asks for what follows its own log and removes nothing: what it has
                otherwise stays

Every node is compared with the one that is to start first. Reference 1.7, 2.14.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.dledger import ENTRY_HEADER_SIZE
from rocketfsck.query.nodes import NodeSide, node_side
from rocketfsck.reader.configs import read_epochs
from rocketfsck.repair.compare.compare import Comparison, Side, compare_stores, describe_side
from rocketfsck.repair.compare.records import LogBytes, files_of
from rocketfsck.scan.spans import merge_spans
from rocketfsck.store.model import Store

Manner = Literal["dledger", "controller", "plain"]
Relation = Literal["first", "level", "behind", "parted", "damaged"]

RECORD_HEAD_SIZE = 64
"""Bytes of a record up to its storeTimestamp: two logs that begin with the same belong to one group."""
RANGE_LIMIT = 256
"""Ranges of a log that are listed one by one."""
MEMBER_LIMIT = 9
"""Stores among which groups are looked for without being asked."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A node of a group against the one that is to start first.

    `end_offset` is where its live records end. `last_epoch` is the term of the last entry, or the last epoch;
    `last_index` the number of the last entry. `parting_offset` is the physical offset up to which it has the
    bytes of the first, `kept_offset` up to where its log stays when it joins (None: it removes nothing).
    Records: `only_here_count` of it alone, `lacking_count` of the first alone. A `damaged` node and the first
    differ only where one copy is damaged. `agreed`: the node's group had agreed on an entry that
    parts. `cut_off`: it never gets what it lacks, since no epoch of the first holds its end.
    Ranges of physical offsets: `held` has what its files hold of its live records, `different` the first of
    `different_count` places where one of the two has another record, or a damaged one.
    """

    path: Path
    relation: Relation
    end_offset: int
    last_timestamp: int | None
    last_epoch: int | None
    last_index: int | None
    parting_offset: int | None = None
    kept_offset: int | None = None
    only_here_count: int = 0
    lacking_count: int = 0
    agreed: bool = False
    cut_off: bool = False
    held: tuple[tuple[int, int], ...] = ()
    different: tuple[tuple[int, int], ...] = ()
    different_count: int = 0

    @property
    def behind_count(self) -> int:
        """Records that it has not, damaged or whole, and the first has."""
        damaged = self.only_here_count if self.relation == "damaged" else 0
        return max(self.lacking_count - damaged, 0)

    @property
    def lost_count(self) -> int:
        """Records that are gone when it joins."""
        return self.only_here_count if self.relation == "parted" and self.kept_offset is not None else 0


@dataclass(frozen=True, slots=True)
class ReplicaGroup:
    """The nodes of a group, the one that is to start first before the others in the order in which they may
    lead. `next_loss_count` are the records that are gone where the second leads instead."""

    manner: Manner
    members: tuple[Replica, ...]

    @property
    def is_level(self) -> bool:
        """Whether all have the same records."""
        return all(member.relation in ("first", "level") for member in self.members)

    @property
    def next_loss_count(self) -> int:
        return self.members[1].behind_count if self.manner != "plain" else 0


@dataclass(frozen=True, slots=True)
class _Node:
    store: Store
    side: Side
    node: NodeSide | None
    last_epoch: int | None


def groups_of(stores: Sequence[Store], worse: Container[Path] = ()) -> Iterator[ReplicaGroup]:
    """Yield the groups that these stores are nodes of: those with the same bytes where their logs overlap.

    A store whose log cannot be read belongs to none. Those that are `worse` come after their equals.
    """
    left = list(stores)
    while left:
        first, *others = left
        mine = [first, *(store for store in others if _of_one_group(first, store))]
        left = [store for store in others if not any(store is member for member in mine)]
        if len(mine) > 1:
            try:
                yield _look_at_group(mine, worse)
            except (StoreError, UsageError):
                continue


def _of_one_group(a: Store, b: Store) -> bool:
    """Whether both logs have the same bytes, and any, where the later one begins."""
    files = [files_of(store) for store in (a, b)]
    if not all(files):
        return False
    start = max(min(file.start_offset or 0 for file in side) for side in files)
    heads = []
    try:
        for side in files:
            with LogBytes(side) as log:
                reader, begins = log.reader_at(start)
                heads.append(reader.read_upto(start - begins, ENTRY_HEADER_SIZE + RECORD_HEAD_SIZE))
    except (StoreError, UsageError):
        return False
    size = ENTRY_HEADER_SIZE * any(file.in_entries for file in files[0]) + RECORD_HEAD_SIZE
    return heads[0][:size] == heads[1][:size] and len(heads[0]) >= size and any(heads[0][:size])


def _look_at_group(stores: Sequence[Store], worse: Container[Path] = ()) -> ReplicaGroup:
    """Compare the nodes of a group. Raises StoreError, UsageError where one has no log."""
    nodes = [_Node(store, describe_side(store), node_side(store), _last_epoch(store)) for store in stores]
    manner = _manner(nodes)
    first, *others = sorted(nodes, key=lambda node: _reach(node, manner, worse), reverse=True)
    members = (_compared(first, other, manner) for other in others)
    return ReplicaGroup(manner, (_member(first, "first"), *members))


def _manner(nodes: Sequence[_Node]) -> Manner:
    if all(node.node is not None for node in nodes):
        return "dledger"
    return "controller" if all(node.last_epoch is not None for node in nodes) else "plain"


def _last_epoch(store: Store) -> int | None:
    try:
        epochs = read_epochs(store)
    except StoreError:
        return None
    return epochs[-1].epoch if epochs else None


def _reach(node: _Node, manner: Manner, worse: Container[Path]) -> tuple[int, int, bool, int]:
    """What is compared to choose who leads; of equals one that is sound, then the one written to last."""
    sound, written = node.store.root not in worse, node.side.last_timestamp or 0
    if manner == "dledger" and node.node is not None:
        term, index = node.node.last_term, node.node.last_index
        return -1 if term is None else term, -1 if index is None else index, sound, written
    epoch = (node.last_epoch or 0) if manner == "controller" else 0
    return epoch, node.side.end_offset, sound, written


def _member(node: _Node, relation: Relation) -> Replica:
    entry = node.node
    return Replica(
        path=node.store.root,
        relation=relation,
        end_offset=node.side.end_offset,
        last_timestamp=node.side.last_timestamp,
        last_epoch=node.last_epoch if entry is None else entry.last_term,
        last_index=None if entry is None else entry.last_index,
        held=_held(node),
    )


def _held(node: _Node) -> tuple[tuple[int, int], ...]:
    """What the files of a log hold up to the end of its live records: the first ranges."""
    files = ((file.start_offset, file.size) for file in node.store.commitlog.files)
    known = [(start, min(start + size, node.side.end_offset)) for start, size in files if start is not None]
    return _ranges([(start, end) for start, end in known if end > start])


def _different(comparison: Comparison) -> tuple[tuple[int, int], ...]:
    """The first places where records differ, neighbours as one."""
    sizes = [max(copy.size for copy in (one.a, one.b) if copy is not None) for one in comparison.different]
    starts = [one.physical_offset for one in comparison.different]
    return _ranges([(start, start + size) for start, size in zip(starts, sizes, strict=True)])


def _ranges(spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The first ranges of physical offsets, neighbours as one."""
    starts, ends = merge_spans(*np.array(spans, np.int64).reshape(-1, 2).T)
    return tuple(zip(starts[:RANGE_LIMIT].tolist(), ends[:RANGE_LIMIT].tolist(), strict=True))


def _by_damage(comparison: Comparison, only_here_count: int) -> bool:
    """Whether two logs are one, and differ only where one copy of a record is damaged or not there."""
    parting, places = comparison.replication.parting, comparison.different
    both = any(place.a and place.b and place.a.valid and place.b.valid for place in places)
    here = sum(place.b is not None for place in places)
    return not both and only_here_count <= here and not (parting is not None and parting.in_header)


def _compared(first: _Node, other: _Node, manner: Manner) -> Replica:
    """What another node is against the first. Raises StoreError, UsageError where logs cannot be compared."""
    comparison = compare_stores(first.store, other.store, sides=(first.side, other.side))
    counts = {"A": 0, "B": 0}
    for lack in comparison.lacks:
        counts[lack.side] += lack.record_count
    relation: Relation = "behind" if counts["A"] else "level"
    if counts["B"] or (not comparison.same and not counts["A"]):
        relation = "damaged" if _by_damage(comparison, counts["B"]) else "parted"
    parting, epochs = comparison.replication.parting, comparison.replication.epochs
    kept = {
        "dledger": comparison.resume_offset,
        "controller": None if epochs is None else epochs.consistent_offset or 0,
        "plain": None,
    }[manner]
    agreed = other.node.committed_index if other.node is not None else None
    index = parting.index if parting is not None else None
    return replace(
        _member(other, relation),
        parting_offset=comparison.resume_offset,
        kept_offset=kept,
        different=_different(comparison),
        different_count=comparison.different_count,
        only_here_count=counts["B"],
        lacking_count=counts["A"],
        agreed=agreed is not None and index is not None and agreed >= index,
        cut_off=manner == "controller"
        and relation == "behind"
        and all(epoch.start_offset > other.side.end_offset for epoch in read_epochs(first.store)),
    )
