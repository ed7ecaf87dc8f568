"""Units that point to their records: what else they say is compared with the record.

Size, tagsCode, what a batch unit or an extension unit has besides. The delays of the schedule topic's units
are gathered, for the broker's list of levels is in no file. Reference 3.2, 3.6 to 3.8.

Checks of consume queue extension files: every address lands on a unit, every unit is named.

    ext file := ext unit* [ff ff]          a unit that does not fit in what is left starts the next file
    ext unit := size:i16 tagsCode:i64 msgStoreTime:i64 bitMapSize:i16 filterBitMap       20 + bitMapSize bytes
    address  := realOffset - 2**63         in the tagsCode of a consume queue unit

Consecutive addresses mostly lie one unit apart, which NumPy compares; only what lies between addresses that
do not is walked unit by unit, up to a limit. Reference 3.6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.consumequeue import EXT_UNIT, EXT_UNIT_MIN_SIZE, MAX_EXT_ADDRESS
from rocketfsck.formats.dtypes import EXT_HEAD_DTYPE, Flags, Longs
from rocketfsck.reader.units import StreamReader, UnitReader, Units, read_data_blocks
from rocketfsck.scan.units import UNKNOWN_TAGS
from rocketfsck.store.model import ConsumeQueue, MappedFileQueue
from rocketfsck.verify.finding import Where, unit_place
from rocketfsck.verify.tasks.task import Collector, add_rows

WALK_LIMIT = 100_000
"""Extension units walked one by one in a queue's gaps between addresses."""


_SIZE = EXT_UNIT.packer(last="size")
_NO_FILES = MappedFileQueue((), 0, ())


def ext_offsets(tags_code: Longs) -> Longs:
    """Stream positions of the extension units that these tagsCodes are addresses of."""
    return np.bitwise_xor(tags_code, np.int64(-(1 << 63)))


def read_ext_heads(reader: StreamReader, offsets: Longs) -> NDArray[np.void]:
    """The first 20 bytes of the extension units at `offsets` (any order), zeros where no file is."""
    heads = reader.gather(offsets, EXT_HEAD_DTYPE)
    heads[offsets + EXT_UNIT_MIN_SIZE > reader.end] = 0
    return heads


def check_ext(queue: ConsumeQueue, end_index: int, log_start: int, collector: Collector) -> None:
    """Check a queue's units below `end_index` against its extension files.

    `log_start` is the physical offset where the commit log begins: what expired with the log before it is
    deleted from the front of the extension files, too, while its units may stay.
    """
    walk = _ExtWalk(queue, collector)
    with UnitReader(queue) as units, StreamReader(queue.ext or _NO_FILES) as reader:
        for index, _, block in read_data_blocks(units):
            if block is None:
                continue
            kept = block[: max(end_index - index, 0)]
            tags_code = kept["tagsCode"].astype(np.int64)
            expired = (kept["offset"] < log_start) & (ext_offsets(tags_code) < reader.start)
            rows = np.flatnonzero((tags_code <= MAX_EXT_ADDRESS) & (kept["size"] > 0) & ~expired)
            if len(rows):
                walk.block(reader, index + rows, ext_offsets(tags_code[rows]))
        if walk.next_offset is not None or reader.files:
            walk.finish(reader)


class _ExtWalk:
    """Follows the addresses of a queue through its extension files."""

    def __init__(self, queue: ConsumeQueue, collector: Collector) -> None:
        self.queue = queue
        self.collector = collector
        self.next_offset: int | None = None  # after the last unit that was named
        self.orphan_count = 0
        self.orphan_start: int | None = None
        self.walked = 0

    def block(self, reader: StreamReader, indexes: Longs, offsets: Longs) -> None:
        """Compare a block of addresses; `indexes` are the places of their units in the queue."""
        heads = read_ext_heads(reader, offsets)
        size = heads["size"].astype(np.int64)
        sound = (size >= EXT_UNIT_MIN_SIZE) & (heads["bitMapSize"] == size - EXT_UNIT_MIN_SIZE)
        first = self.next_offset if self.next_offset is not None else int(offsets[0])
        expected = np.concatenate(([first], (offsets + size)[:-1]))
        dangling = ~sound
        for row in np.flatnonzero(sound & (offsets != expected)).tolist():
            if row and not sound[row - 1]:
                continue  # the neighbour is the fault
            if not self._reaches(reader, int(expected[row]), int(offsets[row])):
                dangling[row] = True
        add_rows(
            self.collector,
            RuleName.EXT_ADDRESS_DANGLING,
            unit_place(self.queue, int(indexes[0])).file,
            np.flatnonzero(dangling),
            lambda row: unit_place(self.queue, int(indexes[row])),
            {"ext_offset": offsets},
            {},
        )
        last = np.flatnonzero(~dangling)
        if len(last):
            self.next_offset = int(offsets[last[-1]] + size[last[-1]])

    def _reaches(self, reader: StreamReader, start: int, target: int) -> bool:
        """Whether units lead from `start` to `target`; those in between are named by nothing.

        An address before `start` is one that repeats: the unit there was sound, so it is believed.
        """
        if target < start:
            return True
        pos, count = start, 0
        while pos < target and self.walked < WALK_LIMIT:
            self.walked += 1
            size = _SIZE.unpack(bytes(reader.read(pos, 2)))[0]
            if size >= EXT_UNIT_MIN_SIZE:
                pos += size
                count += 1
                continue
            following = [f.start_offset or 0 for f in reader.files if (f.start_offset or 0) > pos]
            if size not in (-1, 0) or not following:
                return False
            pos = min(following)
        if pos > target:
            return False
        self._orphans(start, count)
        return True

    def _orphans(self, start: int, count: int) -> None:
        if count:
            self.orphan_count += count
            self.orphan_start = start if self.orphan_start is None else self.orphan_start

    def finish(self, reader: StreamReader) -> None:
        """Walk what follows the last unit that was named."""
        pos = start = reader.start if self.next_offset is None else self.next_offset
        count = 0
        while pos + 2 <= reader.end and self.walked < WALK_LIMIT:
            self.walked += 1
            size = _SIZE.unpack(bytes(reader.read(pos, 2)))[0]
            if size < EXT_UNIT_MIN_SIZE:
                if size not in (-1, 0):
                    self._malformed(reader, pos, size)
                    break
                following = [f.start_offset or 0 for f in reader.files if (f.start_offset or 0) > pos]
                if size == 0 or not following:
                    break
                pos = min(following)
                continue
            bitmap_size = _SIZE.unpack(bytes(reader.read(pos + 18, 2)))[0]
            if bitmap_size != size - EXT_UNIT_MIN_SIZE:
                self._malformed(reader, pos, size)
                break
            pos += size
            count += 1
        self._orphans(start, count)
        if self.orphan_count:
            where = self._place(reader, self.orphan_start or 0)
            self.collector.find(RuleName.EXT_UNIT_ORPHAN, where, {"unit_count": self.orphan_count})

    def _malformed(self, reader: StreamReader, pos: int, size: int) -> None:
        reason = f"unit size {size}" if size < EXT_UNIT_MIN_SIZE else "bitmap size does not fit the unit size"
        self.collector.find(RuleName.EXT_UNIT_MALFORMED, self._place(reader, pos), {"reason": reason})

    def _place(self, reader: StreamReader, pos: int) -> Where:
        queue = self.queue
        for file in reversed(reader.files):
            start = file.start_offset or 0
            if start <= pos:
                return Where(file.relative, pos - start, topic=queue.topic, queue_id=queue.queue_id)
        return Where(topic=queue.topic, queue_id=queue.queue_id)


MAX_DELAYS = 64
FIELD_LIMIT = 64
"""Rows of one field and piece that become findings."""


@dataclass(frozen=True, slots=True)
class DispatchRows:
    """Records of one queue in log order: what their units must say."""

    index: Longs
    count: Longs
    offset: Longs
    size: Longs
    time: Longs
    tags: Longs
    level: Longs

    def part(self, chosen: slice | Longs) -> DispatchRows:
        return DispatchRows(*(getattr(self, name)[chosen] for name in DispatchRows.__slots__))


def _after_addresses(queue: ConsumeQueue, tags: Longs, ext: Flags) -> Longs:
    """The tagsCodes, those that are ext addresses replaced by what the ext units hold."""
    if queue.ext is None or not ext.any():
        return tags
    tags = tags.copy()
    with StreamReader(queue.ext) as reader:
        heads = read_ext_heads(reader, ext_offsets(tags[ext]))
    tags[ext] = heads["tagsCode"]
    return tags


class UnitComparer:
    """Compares matched units with their records. `delays` gathers, by (delay level, milliseconds), the unit
    count, queue number, queueOffset and physical offset of the first."""

    __slots__ = ("_collector", "delays")

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.delays: dict[tuple[int, int], list[int]] = {}

    def found_right(self, tags: Longs) -> None:
        """Count units of records with these tagsCodes that agree in everything."""
        self._collector.ask(RuleName.UNIT_SIZE, len(tags))
        self._collector.ask(RuleName.UNIT_TAGS_CODE, int(np.count_nonzero(tags)))

    def take(self, queue: ConsumeQueue, number: int, rows: DispatchRows, units: Units, where: Longs) -> None:
        """Compare `units`, which are at `where` in the queue, with the records that they point to."""
        self._collector.ask(RuleName.UNIT_SIZE, len(where))
        self._differences(RuleName.UNIT_SIZE, queue, rows, where, "size", units["size"], rows.size)
        tags = units["tagsCode"].astype(np.int64)
        ext = (tags <= MAX_EXT_ADDRESS) & (queue.kind == "file")  # batch queues never have an extension
        delayed = rows.level > 0
        if delayed.any():
            self._count_delays(number, rows, _after_addresses(queue, tags, ext & delayed), delayed)
        plain = ~ext & ~delayed & (rows.tags != UNKNOWN_TAGS)
        self._collector.ask(RuleName.UNIT_TAGS_CODE, int(np.count_nonzero(plain & (rows.tags != 0))))
        add_rows(
            self._collector,
            RuleName.UNIT_TAGS_CODE,
            unit_place(queue, int(where[0])).file,
            np.flatnonzero(plain & (tags != rows.tags)),
            lambda row: unit_place(queue, int(where[row]), 1, int(rows.offset[row])),
            {"tags_code": tags},
            {"tags_code": rows.tags},
        )
        if ext.any() and queue.ext is not None:
            self._compare_ext(queue, rows.part(np.flatnonzero(ext)), tags[ext])
        if queue.kind == "batch":
            self._collector.ask(RuleName.BATCH_UNIT_CONTENT, len(where))
            for name, column in (
                ("msgBaseOffset", rows.index),
                ("batchSize", rows.count),
                ("storeTime", rows.time),
            ):
                self._batch_field(queue, rows, where, name, units[name], column)

    def _differences(
        self,
        rule: str,
        queue: ConsumeQueue,
        rows: DispatchRows,
        where: Longs,
        name: str,
        found: Longs,
        expected: Longs,
    ) -> None:
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            add_rows(
                self._collector,
                rule,
                unit_place(queue, int(where[wrong[0]])).file,
                wrong,
                lambda row: unit_place(queue, int(where[row]), 1, int(rows.offset[row])),
                {name: found},
                {name: expected},
            )

    def _batch_field(
        self, queue: ConsumeQueue, rows: DispatchRows, where: Longs, name: str, found: Longs, expected: Longs
    ) -> None:
        for row in np.flatnonzero(found != expected)[:FIELD_LIMIT].tolist():
            self._collector.find(
                RuleName.BATCH_UNIT_CONTENT,
                unit_place(queue, int(where[row]), physical_offset=int(rows.offset[row])),
                {"field": name, "value": int(found[row]), "unit_number": int(where[row])},
                {"value": int(expected[row])},
            )

    def _compare_ext(self, queue: ConsumeQueue, rows: DispatchRows, addresses: Longs) -> None:
        assert queue.ext is not None
        with StreamReader(queue.ext) as reader:
            heads = read_ext_heads(reader, ext_offsets(addresses))
        sound = heads["size"] >= 20  # CQ011 says so of the others
        plain = rows.level <= 0  # when a delayed record is due depends on a list that is in no file
        for name, column, known in (("tagsCode", rows.tags, plain), ("msgStoreTime", rows.time, sound)):
            found = heads[name].astype(np.int64)
            for row in np.flatnonzero(sound & known & (found != column))[:FIELD_LIMIT].tolist():
                self._collector.find(
                    RuleName.EXT_UNIT_CONTENT,
                    unit_place(queue, int(rows.index[row]), physical_offset=int(rows.offset[row])),
                    {"field": name, "value": int(found[row])},
                    {"value": int(column[row])},
                )

    def _count_delays(self, number: int, rows: DispatchRows, tags: Longs, delayed: Flags) -> None:
        """Which delays the units of each level have: the broker's list is in no file."""
        level, wait = rows.level[delayed], (tags - rows.time)[delayed]
        index, offset = rows.index[delayed], rows.offset[delayed]
        pairs, first, count = np.unique(
            np.stack((level, wait), axis=1), axis=0, return_index=True, return_counts=True
        )
        for (key_level, key_wait), at, amount in zip(
            pairs.tolist(), first.tolist(), count.tolist(), strict=True
        ):
            known = self.delays.get((key_level, key_wait))
            if known is not None:
                known[0] += amount
            elif len(self.delays) < MAX_DELAYS:
                self.delays[key_level, key_wait] = [amount, number, int(index[at]), int(offset[at])]
