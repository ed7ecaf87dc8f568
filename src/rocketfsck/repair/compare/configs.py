"""What two replicas keep of consumer groups: committed offsets, offsets of delay levels, topics and groups.

    apart    queue offsets between the two offsets of a group in a queue
    again    messages that the store has from the offset in it on to the offset in the other one
    skipped  messages that the store has from the offset in the other one on to the offset in it
    behind   the store that has no offset ahead of the other's: an earlier state of one table

A slave takes the offsets of its master over every ten seconds, also where its own are higher
(SlaveSynchronize, apache/rocketmq #1094), so a slave that lags has no higher offset. A group that has no
offset in a queue begins at the queue's beginning, or at its end, as its clients are set: the beginning counts
here. Reference 1.6, 9.6; fault class K6.

What two replicas say besides their records: DLedger's entries and state, the epochs of controller mode.

    node     how far the entries of a node go, what it treats as agreed on, in which term it votes
    parting  the first entry that is not the same on both sides
    epochs   the last epoch that both have with one start, and up to where a slave keeps its log

A slave in controller mode goes back to the end of the last common epoch, a follower of DLedger's to the last
entry that it has in common with its leader. Reference 1.7, 2.14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rocketfsck.errors import FormatError, StoreError
from rocketfsck.formats import config, javatext, smallfiles
from rocketfsck.query.nodes import NodeSide, SoundEntry, Window, data_files, node_side, read_entry
from rocketfsck.query.offsets import committed_positions, delivery_positions
from rocketfsck.query.start.load import LoadedFile
from rocketfsck.query.view import StoreView
from rocketfsck.reader.configs import read_epochs
from rocketfsck.store.elsewhere import QUEUE_DATABASES, has_queues_elsewhere
from rocketfsck.store.model import MappedFile, Store
from rocketfsck.store.rocks.lifting import lifted
from rocketfsck.verify.store.config import DELAYS, TOPICS
from rocketfsck.verify.store.configfiles import is_system_topic
from rocketfsck.verify.store.offsets import NO_QUEUE, SUBSCRIPTIONS, LiveBounds, Positions, is_system_group


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
        found = _parting_in(LoadedFile.of(mine), LoadedFile.of(other), first_unlike)
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


def _epochs_of(store: Store) -> tuple[smallfiles.EpochEntry, ...]:
    try:
        return read_epochs(store)
    except StoreError:
        return ()


T = TypeVar("T")
DIFFERENCE_LIMIT = 1000
"""Rows and names that are said one by one."""
UNKNOWN = LiveBounds(0, javatext.INT64_MAX)


@dataclass(frozen=True, slots=True)
class ConsumerEffect:
    """What consumers notice at most that go on with a store: messages again, messages that they never get."""

    again_count: int = 0
    skipped_count: int = 0

    def __add__(self, other: ConsumerEffect) -> ConsumerEffect:
        return ConsumerEffect(self.again_count + other.again_count, self.skipped_count + other.skipped_count)


@dataclass(frozen=True, slots=True)
class GroupDifference:
    """A group's offsets in the queues of a topic that differ: in how many queues, how far apart they are,
    and what the group notices that changes `to_b` from A, or `to_a` from B."""

    group: str
    topic: str
    queue_count: int
    apart_count: int
    to_a: ConsumerEffect
    to_b: ConsumerEffect


@dataclass(frozen=True, slots=True)
class OffsetsCompared:
    """One table of offsets. `differences` has the worst `DIFFERENCE_LIMIT` of `difference_count` rows."""

    difference_count: int = 0
    group_count: int = 0
    queue_count: int = 0
    to_a: ConsumerEffect = ConsumerEffect()
    to_b: ConsumerEffect = ConsumerEffect()
    behind: str | None = None
    differences: tuple[GroupDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class OneSided:
    """What only `side` lists: topics, and groups with settings of their own; the names up to the limit."""

    side: str
    topic_count: int
    topics: tuple[str, ...]
    group_count: int
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigsCompared:
    """`not_compared` says why something of a side is unknown, a clause each."""

    committed: OffsetsCompared = OffsetsCompared()
    delays: OffsetsCompared = OffsetsCompared()
    one_sided: tuple[OneSided, ...] = ()
    not_compared: tuple[str, ...] = ()


NO_CONFIGS = ConfigsCompared()


@dataclass(slots=True)
class _Side:
    """One store; None is what cannot be compared."""

    name: str
    store: Store
    view: StoreView
    reasons: list[str] = field(default_factory=list)

    def read(self, names: Iterable[str], read: Callable[[StoreView], T]) -> T | None:
        """A table; None, with the reason, where its files are there and say nothing."""
        files = [file for file in self.view.store.configs if file.name.removesuffix(".bak") in names]
        present = {file.name.removesuffix(".bak") for file in files if file.size}
        unread = sorted(name for name in present if self.view.config(name) is None)
        try:
            if not unread:
                return read(self.view)
        except FormatError:
            unread = sorted(present)
        self.reasons.append(f"{self.name}: {', '.join(unread)} cannot be read")
        return None

    def lists(self, name: str) -> bool:
        """Whether the store has a file, or its .bak, with something in it."""
        return any(file.size for file in self.view.store.configs if file.name in (name, f"{name}.bak"))

    def bounds(self, topic: str, queue_id: int) -> LiveBounds:
        """Where a queue begins and ends; `NO_QUEUE` without one, `UNKNOWN` where that is open."""
        queue = self.view.queue(topic, queue_id)
        if queue is None:
            return UNKNOWN if has_queues_elsewhere(self.store) else NO_QUEUE
        try:
            return LiveBounds(queue.min_offset, queue.max_offset)
        except StoreError as error:
            self.reasons.append(f"{self.name}: {topic}/{queue_id}: {error}")
            return UNKNOWN
        finally:
            queue.close()

    def begins(self, bounds: LiveBounds, offset: int | None) -> int:
        """The queue offset that a broker of this store sends a group to (reference 7.3)."""
        if offset is not None and bounds.low <= offset <= bounds.high:
            return offset
        is_behind = offset is None or offset < bounds.low
        to_low = is_behind or (self.store.dialect.overflow_to_min and bounds.low == 0)
        return bounds.low if to_low else bounds.high


def compare_configs(a: Store, b: Store) -> ConfigsCompared:
    """Compare what two stores keep of groups and topics, in files or in RocksDB.

    What only one side could tell is not compared, with the reason; where neither has configs, nothing is
    said. Raises StoreError where there is no room for what a database holds.
    """
    with ExitStack() as stack:
        sides = []
        for name, store in (("A", a), ("B", b)):
            lifting = stack.enter_context(lifted(_without_queue_databases(store)))
            sides.append(_Side(name, store, stack.enter_context(StoreView(lifting.store))))
            sides[-1].reasons += [f"{name}: {error}" for error in lifting.failed.values()]
        if not any(side.view.store.configs for side in sides):
            return ConfigsCompared(not_compared=_reasons(sides))
        for side in sides:
            if not side.view.store.configs and not side.reasons:
                side.reasons.append(f"{side.name} has no files in config/")
        if _reasons(sides):
            return ConfigsCompared(not_compared=_reasons(sides))
        committed = _compare(sides, [side.read(config.OFFSET_VIEWS, _committed) for side in sides])
        delays = _compare(sides, [side.read((DELAYS,), _delays) for side in sides])
        return ConfigsCompared(committed, delays, tuple(_one_sided(sides)), _reasons(sides))


def _without_queue_databases(store: Store) -> Store:
    """Without the queues in RocksDB, which take longer to read than all configs."""
    kept = tuple(other for other in store.others if other.relative not in QUEUE_DATABASES)
    return replace(store, others=kept)


def _reasons(sides: Iterable[_Side]) -> tuple[str, ...]:
    return tuple(reason for side in sides for reason in side.reasons)[:DIFFERENCE_LIMIT]


def _committed(view: StoreView) -> Positions:
    positions = ((row[:3], row[3]) for row in committed_positions(view))
    return {place: offset for place, offset in positions if not is_system_group(place[0])}


def _delays(view: StoreView) -> Positions:
    return {row[:3]: row[3] for row in delivery_positions(view)}


def _compare(sides: list[_Side], tables: list[Positions | None]) -> OffsetsCompared:
    mine, other = tables
    if mine is None or other is None:
        return OffsetsCompared()
    places = [place for place in mine.keys() | other.keys() if mine.get(place) != other.get(place)]
    places.sort(key=lambda place: (place[1], place[2], place[0]))
    rows: dict[tuple[str, str], GroupDifference] = {}
    ahead: set[str] = set()
    present: set[str] = set()
    queue, bounds = None, [NO_QUEUE, NO_QUEUE]
    for place in places:
        group, *named = place
        if named != queue:
            queue, bounds = named, [side.bounds(place[1], place[2]) for side in sides]
        offsets = [mine.get(place), other.get(place)]
        row = _difference(sides, place, offsets, bounds)
        if row is None:
            continue
        known = rows.get((group, row.topic))
        rows[group, row.topic] = row if known is None else _joined(known, row)
        if offsets[0] is not None and offsets[1] is not None:
            ahead.add("A" if offsets[0] > offsets[1] else "B")
        else:
            present.add("B" if offsets[0] is None else "A")
    leading = ahead or present
    worst = sorted(rows.values(), key=lambda row: (-_weight(row), row.group, row.topic))
    return OffsetsCompared(
        difference_count=len(worst),
        group_count=len({row.group for row in worst}),
        queue_count=sum(row.queue_count for row in worst),
        to_a=sum((row.to_a for row in worst), ConsumerEffect()),
        to_b=sum((row.to_b for row in worst), ConsumerEffect()),
        behind={"A": "B", "B": "A"}[min(leading)] if len(leading) == 1 else None,
        differences=tuple(worst[:DIFFERENCE_LIMIT]),
    )


def _difference(
    sides: list[_Side], place: tuple[str, str, int], offsets: list[int | None], bounds: list[LiveBounds]
) -> GroupDifference | None:
    """One queue of a group; None where neither store has the queue, or an offset that one lacks is where
    the group begins without it."""
    if all(found == NO_QUEUE for found in bounds):
        return None
    reached = [found.low if offset is None else offset for offset, found in zip(offsets, bounds, strict=True)]
    if reached[0] == reached[1]:
        return None
    changes = []
    for number, side in enumerate(sides):
        start, source = side.begins(bounds[number], offsets[number]), reached[1 - number]
        between = bounds[number].count_between
        changes.append(ConsumerEffect(between(start, source), between(source, start)))
    return GroupDifference(place[0], place[1], 1, abs(reached[0] - reached[1]), changes[0], changes[1])


def _joined(one: GroupDifference, other: GroupDifference) -> GroupDifference:
    return replace(
        one,
        queue_count=one.queue_count + other.queue_count,
        apart_count=one.apart_count + other.apart_count,
        to_a=one.to_a + other.to_a,
        to_b=one.to_b + other.to_b,
    )


def _weight(row: GroupDifference) -> int:
    return max(change.again_count + change.skipped_count for change in (row.to_a, row.to_b))


def _one_sided(sides: list[_Side]) -> Iterable[OneSided]:
    """Topics and groups that only one side has. Without the file, a side says nothing of them."""
    names: list[list[set[str]]] = []
    for file, read, is_own in _LISTED:
        found = [side.read((file,), read) if side.lists(file) else None for side in sides]
        for side, other in zip(sides, reversed(sides), strict=True):
            if not side.lists(file) and other.lists(file):
                side.reasons.append(f"{side.name} has no {file}")
        mine, others = found
        if mine is None or others is None:
            names.append([set(), set()])
            continue
        names.append([{name for name in more if not is_own(name)} for more in (mine - others, others - mine)])
    for number, side in enumerate(sides):
        topics, groups = (sorted(found[number]) for found in names)
        if topics or groups:
            limited = (tuple(listed[:DIFFERENCE_LIMIT]) for listed in (topics, groups))
            yield OneSided(side.name, len(topics), next(limited), len(groups), next(limited))


def _topics(view: StoreView) -> set[str]:
    return set(config.topic_configs(view.config(TOPICS)))


def _groups(view: StoreView) -> set[str]:
    value: Any = view.config(SUBSCRIPTIONS)
    listed = value.get("subscriptionGroupTable") if isinstance(value, Mapping) else None
    if not isinstance(listed, Mapping):
        raise FormatError("subscriptionGroupTable: not an object", offset=0)
    return set(map(str, listed))


_LISTED: tuple[tuple[str, Callable[[StoreView], set[str]], Callable[[str], bool]], ...] = (
    (TOPICS, _topics, is_system_topic),
    (SUBSCRIPTIONS, _groups, is_system_group),
)
