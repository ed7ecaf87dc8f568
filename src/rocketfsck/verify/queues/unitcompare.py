"""Units that point to their records: what else they say is compared with the record.

Size, tagsCode, what a batch unit or an extension unit has besides. The delays of the schedule topic's units
are gathered, for the broker's list of levels is in no file. Reference 3.2, 3.6 to 3.8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.formats.consumequeue import MAX_EXT_ADDRESS
from rocketfsck.reader.units import StreamReader, Units
from rocketfsck.scan.dispatch import UNKNOWN_TAGS
from rocketfsck.store.model import ConsumeQueue
from rocketfsck.verify.emit import add_rows, unit_place
from rocketfsck.verify.queues.extfile import ext_offsets, read_ext_heads
from rocketfsck.verify.tasks.task import Collector

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
        self._differences(RuleName.UNIT_SIZE, queue, rows, where, units["size"], rows.size, "size")
        tags = units["tagsCode"].astype(np.int64)
        ext = tags <= MAX_EXT_ADDRESS
        delayed = rows.level > 0
        if delayed.any():
            self._count_delays(number, rows, _after_addresses(queue, tags, ext & delayed), delayed)
        plain = ~ext & ~delayed & (rows.tags != UNKNOWN_TAGS)
        self._collector.ask(RuleName.UNIT_TAGS_CODE, int(np.count_nonzero(plain & (rows.tags != 0))))
        wrong = np.flatnonzero(plain & (tags != rows.tags))
        add_rows(
            self._collector,
            RuleName.UNIT_TAGS_CODE,
            unit_place(queue, int(where[0])).file,
            wrong,
            lambda row: (
                unit_place(queue, int(where[row]), physical_offset=int(rows.offset[row])),
                {"tags_code": int(tags[row])},
                {"tags_code": int(rows.tags[row])},
            ),
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
        found: Longs,
        expected: Longs,
        name: str,
    ) -> None:
        wrong = np.flatnonzero(found != expected)
        if len(wrong):
            add_rows(
                self._collector,
                rule,
                unit_place(queue, int(where[wrong[0]])).file,
                wrong,
                lambda row: (
                    unit_place(queue, int(where[row]), physical_offset=int(rows.offset[row])),
                    {name: int(found[row])},
                    {name: int(expected[row])},
                ),
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
