"""Checks the index files of tiered storage: segments, and those that are still written. Reference 1.10.

header: magic, numbers, times of the metadata    TS020
slot -> items, one slot behind the other         TS021
item -> record of its topic, queue and key       TS022
key of a record -> item                          TS023
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.common.wording import count_of
from rocketfsck.formats import dtypes, tiered
from rocketfsck.formats.javatext import INT32_MIN, index_hash
from rocketfsck.formats.magic import MAGIC_V1, MAGIC_V2
from rocketfsck.reader import tiered as reader_tiered
from rocketfsck.reader.units import StreamReader
from rocketfsck.store.model import Store, StoreFile
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Finding, Findings, Where
from rocketfsck.verify.report import Items, NotChecked
from rocketfsck.verify.tiered.indexheaders import (
    MAX_KEYS,
    QueueItems,
    QueueKeys,
    check_header,
    field_finding,
    first_time,
    is_in,
    pairs,
)

BLOCK = 1 << 16
"""Slots and items that are looked at together."""
MAX_ITEMS = 16 << 20
"""Items of all queues that are compared with their records: 12 bytes each are kept."""
_SECOND = 1000


@dataclass(frozen=True, slots=True)
class _Places:
    """Where slots have their items, with those of the two slots before first. `odd`: no such length can be.

    A slot begins where the one before it ends. One whose place or length is wrong says nothing of those after
    it: they are right where they follow what it says, or where it should have been.
    """

    position: dtypes.Longs
    length: dtypes.Longs
    odd: dtypes.Flags

    @classmethod
    def at(cls, start: int) -> _Places:
        """Of items that begin at `start`, with no slot yet."""
        return cls(np.full(2, start), np.zeros(2, np.int64), np.zeros(2, bool))

    def then(self, more: _Places) -> _Places:
        """More slots, after the last two of these."""
        return _Places(
            np.concatenate((self.position[-2:], more.position)),
            np.concatenate((self.length[-2:], more.length)),
            np.concatenate((self.odd[-2:], more.odd)),
        )

    def judged(self) -> tuple[dtypes.Longs, dtypes.Flags]:
        """Of all rows but the first two: where their items should begin, and whether they are wrong."""
        position, odd, last_odd = self.position[2:], self.odd[2:], self.odd[1:-1]
        ends = self.position + self.length
        by_last, by_both = ends[1:-1], ends[:-2] + self.length[1:-1]
        follows = last_odd | (position == by_last) | (~self.odd[:-2] & (position == by_both))
        return np.where(last_odd, position, by_last), odd | ~follows


@dataclass(frozen=True, slots=True)
class _IndexFile:
    """An index file that is open, with its header, and where its slots and items are."""

    file: StoreFile
    reader: FileReader
    header: reader_tiered.TieredIndexHeader
    shape: tiered.IndexShape

    def item(self, place: int, reason: str, number: int | None = None) -> Finding:
        """Something wrong with the item at a position; `number` where it is another than its place's."""
        size, start = self.shape.item_size, self.shape.items_start
        entry = (place - start) // size if number is None else number
        where = Where(self.file.relative, place, place + size, entry=entry)
        return Finding(RuleName.TIERED_INDEX_ITEM, where, {"reason": reason})


@dataclass(slots=True)
class IndexWalk:
    """All index files: `logs` are the queues by topic and queueId, `keys` the keys of their records."""

    store: Store
    metadata: reader_tiered.TieredMetadata
    logs: Mapping[tuple[str, int], reader_tiered.TieredQueue]
    keys: Mapping[tuple[str, int], QueueKeys]
    earliest: int = 2**63 - 1
    complete: bool = True
    file_count: int = 0
    item_count: int = 0
    _items: dict[tuple[str, int], QueueItems] = field(default_factory=dict)

    def segment(self, file: StoreFile, row: reader_tiered.SegmentRow | None, level: str) -> Findings:
        """An index segment: header, slots, items."""
        with FileReader(file.location) as reader:
            header = reader_tiered.read_segment_header(reader)
            yield from check_header(file, reader, header, row)
            if header.shape is None:
                self.complete = False
            elif level != "quick":
                self.file_count += 1
                yield from self._compacted(_IndexFile(file, reader, header, header.shape))

    def local(self, file: StoreFile, level: str) -> Items:
        """A file of `tiered_index_file/`, which is not a segment yet."""
        with FileReader(file.location) as reader:
            header = reader_tiered.read_local_header(self.store, reader)
            if header.shape is None:
                self.complete = False
                wrong = list(check_header(file, reader, header, None))
                yield from wrong
                if not wrong:
                    reason = "the number of slots is unknown; give the settings with --broker-conf"
                    yield NotChecked(file.relative, reason)
                return
            yield from check_header(file, reader, header, None)
            if level != "quick":
                self.file_count += 1
                yield from self._written(_IndexFile(file, reader, header, header.shape))

    def _compacted(self, index: _IndexFile) -> Findings:
        """Slots that have their items behind each other, in order of the slots."""
        shape = index.shape
        chain, used = _Places.at(shape.items_start), 0
        for first in range(0, shape.slot_count, BLOCK):
            count = min(BLOCK, shape.slot_count - first)
            start = tiered.TIERED_INDEX_HEADER.size + first * tiered.TIERED_COMPACTED_SLOT.size
            slots = np.frombuffer(
                index.reader.read(start, count * tiered.TIERED_COMPACTED_SLOT.size),
                dtypes.TIERED_COMPACTED_SLOT_DTYPE,
            )
            length = slots["length"].astype(np.int64)
            position = slots["position"].astype(np.int64)
            odd = (length < 0) | (length % shape.item_size != 0)
            odd |= (position < shape.items_start) & (length > 0)
            odd |= position + length > shape.end
            rows = np.flatnonzero((length != 0) | (position != 0))
            chain = chain.then(_Places(position[rows], length[rows], odd[rows]))
            expected, wrong = chain.judged()
            for row, right in zip(rows[wrong].tolist(), expected[wrong].tolist(), strict=True):
                at = start + row * tiered.TIERED_COMPACTED_SLOT.size
                where = Where(
                    index.file.relative, at, at + tiered.TIERED_COMPACTED_SLOT.size, slot=first + row
                )
                found: Facts = {"items_pos": int(position[row]), "items_size": int(length[row])}
                yield Finding(RuleName.TIERED_INDEX_SLOT, where, found, {"items_pos": right})
            good = rows[~wrong & (length[rows] > 0)]
            used += len(good)
            yield from self._of_slots(index, first + good, position[good], length[good])
        stated = index.header.values["slotCount"]
        if not shape.old and stated != used:
            text = f"slotCount is {stated}, but {count_of(used, 'slot is', 'slots are')} in use"
            yield field_finding(index.file, "slotCount", text)

    def _of_slots(
        self, index: _IndexFile, numbers: dtypes.Longs, position: dtypes.Longs, length: dtypes.Longs
    ) -> Findings:
        """The items of some slots, a bounded number at a time; behind a wrong slot they may be anywhere."""
        shape = index.shape
        order = np.argsort(position, kind="stable")
        numbers, position, length = numbers[order], position[order], length[order]
        count = length // shape.item_size
        pieces = -(-count // BLOCK)  # of slots with more items than are looked at together
        behind = _numbered(pieces) * BLOCK
        numbers = np.repeat(numbers, pieces)
        position = np.repeat(position, pieces) + behind * shape.item_size
        count = np.minimum(np.repeat(count, pieces) - behind, BLOCK)
        ends = np.maximum.accumulate(position + count * shape.item_size)
        done = 0
        while done < len(numbers):
            low = int(position[done])
            take = max(int(np.searchsorted(ends[done:], low + BLOCK * shape.item_size, "right")), 1)
            part = slice(done, done + take)
            high = int(ends[done + take - 1])
            slot = np.repeat(numbers[part], count[part])
            place = np.repeat(position[part], count[part]) + _numbered(count[part]) * shape.item_size
            data = np.frombuffer(index.reader.read(low, high - low), np.uint8)
            picked = data[(place - low)[:, None] + np.arange(shape.item_size)]
            rows = picked.view(dtypes.TIERED_COMPACTED_ITEM_DTYPE).reshape(-1)
            yield from self._rows(index, rows, place, slot)
            done += take

    def _written(self, index: _IndexFile) -> Findings:
        """Items in the order in which they came; a slot has the number of its newest."""
        shape = index.shape
        newest: NDArray[np.int64] = np.full(shape.slot_count, shape.no_item, np.int64)
        behind = shape.first_item + shape.item_count
        for first in range(shape.first_item, behind, BLOCK):
            count = min(BLOCK, behind - first)
            start = shape.items_start + first * shape.item_size
            rows = np.frombuffer(index.reader.read(start, count * shape.item_size), dtypes.TIERED_ITEM_DTYPE)
            number = np.arange(first, first + count, dtype=np.int64)
            slot = np.mod(rows["hash"].astype(np.int64), shape.slot_count)
            order = np.lexsort((number, slot))
            before = np.empty(count, np.int64)
            same = np.concatenate(([False], slot[order][1:] == slot[order][:-1]))
            before[order] = np.where(same, np.roll(number[order], 1), newest[slot[order]])
            place = start + (number - first) * shape.item_size
            for row in np.flatnonzero(rows["prevItem"] != before).tolist():
                text = f"prevItem is {int(rows['prevItem'][row])}, not {int(before[row])}"
                yield index.item(int(place[row]), text, int(number[row]))
            newest[slot[order]] = number[order]
            yield from self._rows(index, rows, place, None)
        for first in range(0, shape.slot_count, BLOCK):
            count = min(BLOCK, shape.slot_count - first)
            start = tiered.TIERED_INDEX_HEADER.size + first * tiered.TIERED_COMPACTED_SLOT.size
            slots = np.frombuffer(
                index.reader.read(start, count * tiered.TIERED_COMPACTED_SLOT.size), dtypes.TIERED_SLOT_DTYPE
            )
            right = newest[first : first + count]
            for row in np.flatnonzero(np.maximum(slots["newestItem"], shape.no_item) != right).tolist():
                at = start + row * tiered.TIERED_COMPACTED_SLOT.size
                where = Where(index.file.relative, at, at + 8, slot=first + row)
                found: Facts = {"items_pos": int(slots["newestItem"][row]), "items_size": None}
                yield Finding(RuleName.TIERED_INDEX_SLOT, where, found, {"items_pos": int(right[row])})

    def _rows(
        self, index: _IndexFile, rows: NDArray[Any], place: dtypes.Longs, slot: dtypes.Longs | None
    ) -> Findings:
        """Items by themselves, and against the records that they point to."""
        shape = index.shape
        self.item_count += len(rows)
        if not self.metadata.topic_ids:  # without the metadata nobody knows the topics
            self.complete = False
            return
        unit = 1 if shape.old else _SECOND
        times = index.header.values["beginTimestamp"] + rows["timeDiff"].astype(np.int64) * unit
        if len(times):
            self.earliest = min(self.earliest, int(times.min()))
        hashes = rows["hash"].astype(np.int64)
        if slot is not None:
            for row in np.flatnonzero(np.mod(hashes, shape.slot_count) != slot).tolist():
                text = f"the hash {int(hashes[row])} belongs to slot {int(hashes[row]) % shape.slot_count}"
                yield index.item(int(place[row]), text)
        pairs = np.stack([rows["topicId"].astype(np.int64), rows["queueId"].astype(np.int64)], axis=1)
        for topic_id, queue_id in np.unique(pairs, axis=0).tolist():
            mine = np.flatnonzero((pairs[:, 0] == topic_id) & (pairs[:, 1] == queue_id))
            topic = self.metadata.topic_ids.get(topic_id)
            queue = self.logs.get((topic or "", queue_id))
            if queue is None:  # of a topic or queue that was deleted, or of none
                if topic_id < 0 or queue_id < 0 or topic_id > max(self.metadata.topic_ids, default=0):
                    for row in mine.tolist():
                        text = f"no queue has topicId {topic_id} and queueId {queue_id}"
                        yield index.item(int(place[row]), text)
                continue
            yield from self._of_queue(index, rows[mine], place[mine], times[mine], queue)

    def _of_queue(
        self,
        index: _IndexFile,
        rows: NDArray[Any],
        place: dtypes.Longs,
        times: dtypes.Longs,
        queue: reader_tiered.TieredQueue,
    ) -> Findings:
        with StreamReader(queue.log) as log:
            offset = rows["offset"].astype(np.int64)
            where, heads = reader_tiered.heads_at(log, offset)
            magic = (heads["magicCode"] == MAGIC_V1) | (heads["magicCode"] == MAGIC_V2)
            began = first_time(queue)
        # A queue that was deleted and made again begins at 0: older items belong to the one before.
        kept = (offset >= log.start) & (times + _SECOND >= began)
        tests: list[tuple[dtypes.Flags, str]] = [
            (offset < 0, "in front of all offsets"),
            (kept & (offset >= log.end), "beyond the end of the queue's log"),
            (kept & (offset < log.end) & ~magic, "where no record begins"),
            (kept & magic & (heads["totalSize"] != rows["size"]), "to a record of another size"),
        ]
        wrong = np.zeros(len(rows), np.bool_)
        for flags, text in tests:
            for row in np.flatnonzero(flags & ~wrong).tolist():
                reason = f"the item points to {int(offset[row])}, {text}"
                yield index.item(int(place[row]), reason)
            wrong |= flags
        kept &= ~wrong
        keys = self.keys.get((queue.topic, queue.queue_id))
        if keys is None or not keys.complete:
            return
        hashes = np.where(rows["hash"] == INT32_MIN, 0, rows["hash"]).astype(np.int32)
        known = is_in(pairs([hashes[kept]], [where[kept]]), keys.pairs())
        empty = index_hash(queue.topic, "")  # brokers index the nothing between two blanks of KEYS
        for row in np.flatnonzero(kept)[~known].tolist():
            if int(hashes[row]) != empty:
                reason = f"no key of the message at {int(offset[row])} has the hash {int(hashes[row])}"
                yield index.item(int(place[row]), reason)
        mine = self._items.setdefault((queue.topic, queue.queue_id), QueueItems())
        if sum(items.count for items in self._items.values()) + len(rows) > MAX_ITEMS:
            mine.drop()
        if not mine.complete:
            return
        mine.hashes.append(hashes[~wrong])
        mine.places.append(where[~wrong])
        mine.count += len(rows)

    def unindexed(self) -> Items:
        """Keys that no index file has, of records that are not older than what the index has at all."""
        for name, keys in sorted(self.keys.items()):
            items = self._items.get(name, QueueItems())
            if not keys.complete or not items.complete:
                limit = MAX_ITEMS if keys.complete else MAX_KEYS
                reason = f"keys are not compared with the index files: more than {limit:,} in all queues"
                yield NotChecked(self.logs[name].directory, reason)
                continue
            if not self.complete or not self.file_count or not keys.count:
                continue
            there, own = np.sort(pairs(items.hashes, items.places)), pairs(keys.hashes, keys.places)
            times = np.concatenate(keys.times)
            missing = np.flatnonzero(~is_in(own, there) & (times >= self.earliest))
            if not len(missing):
                continue
            queue = self.logs[name]
            places = np.concatenate(keys.places)[missing]
            number = int(places.min())
            file = max(
                (file for file in queue.log.files if (file.start_offset or 0) <= number),
                key=lambda file: file.start_offset or 0,
            )
            where = Where(
                file.relative, number - (file.start_offset or 0), topic=queue.topic, queue_id=queue.queue_id
            )
            count = len(missing)
            yield Finding(RuleName.TIERED_KEY_UNINDEXED, where, {"key_count": count}, count=count)


def _numbered(counts: dtypes.Longs) -> dtypes.Longs:
    """0, 1, ... for each of the counts, one behind the other."""
    starts = np.cumsum(counts) - counts
    found: dtypes.Longs = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(starts, counts)
    return found
