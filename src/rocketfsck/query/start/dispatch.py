"""Records handed to consume queues and index while a broker starts. Reference 3.4, 4.5, 8.

The queues' rules (what is there already is passed over, what is missing shifts what follows) are applied to
whole runs of units where these rise, as they do in any log that a broker wrote; else one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import dtypes, javatext, magic, smallfiles
from rocketfsck.formats.dialect import Dialect
from rocketfsck.query.start.databases import RowsModel
from rocketfsck.query.start.index import IndexModel
from rocketfsck.query.start.load import QUEUE_AREAS, LoadedQueue
from rocketfsck.query.start.losses import Census
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.scan.columns import Fault, RecordBatch, Trait
from rocketfsck.scan.queues import QueueTable
from rocketfsck.scan.units import dispatches_of
from rocketfsck.store.model import QueueKind

QueueName = tuple[str, int]
Watcher = Callable[[QueueModel, int, AppendedColumns], None]


@dataclass(frozen=True, slots=True)
class DispatchRules:
    """What decides where records go: dialect, settings, and what the topics' settings say.

    Without `kinds_known` a topic counts as a batch topic from its first inner batch on, too. `rows_in` is
    the database that has the queues, None where they are files. `blocked`: no file of a queue can be made.
    """

    dialect: Dialect
    delay_levels: Mapping[int, int]
    multi_dispatch: bool
    batch_topics: frozenset[str]
    queue_sizes: Mapping[QueueKind, int]
    kinds_known: bool = True
    rows_in: str | None = None
    blocked: bool = False


@dataclass(slots=True, eq=False)
class Dispatcher:
    """Hands batches of records to the queues and the index; counts what happens to them.

    `watch` gets every run of units that is appended, and the number of its first in the queue. `mark` is
    where the last record ends that queues in a database were handed; None before there is one.
    """

    queues: MutableMapping[QueueName, QueueModel]
    index: IndexModel
    table: QueueTable
    rules: DispatchRules
    census: Census
    watch: Watcher | None = None
    record_count: int = 0
    mark: int | None = None
    _by_row: dict[int, QueueModel] = field(default_factory=dict)

    def dispatch(self, batch: RecordBatch, base_offset: int, wanted: NDArray[np.bool_]) -> None:
        """Dispatch those records of the batch that are `wanted`, in order."""
        rows = np.flatnonzero(wanted)
        if not len(rows):
            return
        self.record_count += len(rows)
        missed = np.zeros(batch.record_count, np.bool_)
        self._to_queues(batch, base_offset, wanted, missed)
        offset = batch["physical_offset"][rows]
        key_count = batch["key_count"][rows].astype(np.int64)
        rolled_back = (batch["sys_flag"][rows] & magic.TRANSACTION_MASK) == magic.TRANSACTION_ROLLBACK
        taken = self.index.put(offset, key_count, rolled_back)
        if self.index.entries is not None:
            self.index.entries.add(batch, rows[taken])
        without_entry = np.zeros(batch.record_count, np.bool_)
        keyed = (key_count > 0) & ~rolled_back
        without_entry[rows] = keyed & ~taken & self.index.lacks(offset)
        had_unit = np.zeros(batch.record_count, np.bool_)  # a queue that passes it over has not had it
        had_entry = self.index.covered_before(batch["physical_offset"])
        in_place = (batch["faults"] & Fault.PHYSICAL_OFFSET) == 0  # others are messages of another place
        own = wanted & in_place
        self.census.see(batch, base_offset, own, missed, without_entry, had_unit, had_entry)

    def _to_queues(
        self, batch: RecordBatch, base_offset: int, wanted: NDArray[np.bool_], missed: NDArray[np.bool_]
    ) -> None:
        rules = self.rules
        found = dispatches_of(batch, base_offset, delay_levels=rules.delay_levels)
        if rules.rows_in is not None and (last := np.flatnonzero(wanted[found.row])).size:
            row = found.row[last[-1]]
            self.mark = int(batch["physical_offset"][row] + batch["total_size"][row])
        is_main = np.append(True, found.row[1:] != found.row[:-1]) if len(found) else np.zeros(0, np.bool_)
        chosen = np.flatnonzero(wanted[found.row] & (found.queue >= 0) & (is_main | rules.multi_dispatch))
        row, queue = found.row[chosen], found.queue[chosen]
        is_inner = (batch["traits"] & Trait.INNER_BATCH) != 0
        # a further queue has the offset of its list; the record's own field is right for its own queue
        index = np.where(is_main[chosen], batch["queue_offset"][row], found.index[chosen])
        offset = batch["physical_offset"][row]
        order = np.argsort(queue, kind="stable")
        bounds = np.flatnonzero(np.append(True, queue[order][1:] != queue[order][:-1]))
        for first, last in zip(bounds.tolist(), [*bounds[1:].tolist(), len(order)], strict=True):
            if first == last:
                continue
            part = order[first:last]
            picked, number = chosen[part], int(queue[part[0]])
            units = AppendedColumns(index[part], offset[part], found.size[picked], found.tags[picked])
            if rules.rows_in is not None:
                self._to_rows(self._queue_of_row(number, False), units)
                continue
            topic = javatext.java_decode(self.table.names[number][0])
            missed[row[part]] = rules.blocked or not smallfiles.is_queue_name(topic)
            if rules.blocked or not smallfiles.is_directory_name(topic):
                continue
            inner = bool((is_main[picked] & is_inner[row[part]]).any())
            model = self._queue_of_row(number, inner)
            if model.loaded.kind == "batch":
                self._to_batch_queue(model, units, found.index[picked] + found.count[picked])
                continue
            skipped = self._to_queue(model, units)
            missed[row[part[skipped]]] = True

    def _queue_of_row(self, row: int, inner: bool) -> QueueModel:
        model = self._by_row.get(row)
        if model is None:
            topic, queue_id = self.table.names[row]
            name = (javatext.java_decode(topic), queue_id)
            model = self.queues.get(name)
            if model is None:
                model = self.queues[name] = self._new_queue(*name, inner)
            self._by_row[row] = model
        return model

    def _new_queue(self, topic: str, queue_id: int, inner: bool = False) -> QueueModel:
        rules = self.rules
        in_rows = rules.rows_in is not None
        stated = topic in rules.batch_topics or (inner and not rules.kinds_known)
        is_batch = rules.dialect.batch_queues and stated and not in_rows
        kind: QueueKind = "batch" if is_batch else "file"
        area = rules.rows_in or QUEUE_AREAS[kind]
        directory = f"{area}/{topic}/{queue_id}"
        loaded = LoadedQueue(topic, queue_id, kind, directory, rules.queue_sizes[kind], [])
        return (RowsModel if in_rows else QueueModel)(loaded, rules.dialect)

    def _append(self, model: QueueModel, units: AppendedColumns, chosen: dtypes.Longs) -> None:
        if len(chosen):
            taken = units.at(chosen)
            place = model.append(taken)
            if self.watch is not None:
                self.watch(model, place, taken)

    def _to_rows(self, model: QueueModel, units: AppendedColumns) -> None:
        """Every unit goes to the row of its own queue offset; none is passed over."""
        assert isinstance(model, RowsModel)
        model.put(units)
        if self.watch is None:
            return
        steps = np.flatnonzero(np.diff(units.index) != 1) + 1
        for first, last in pairwise([0, *steps.tolist(), len(units.index)]):
            self.watch(model, int(units.index[first]), units.at(slice(first, last)))

    def _to_batch_queue(self, model: QueueModel, units: AppendedColumns, next_base: dtypes.Longs) -> None:
        highest = np.maximum.accumulate(np.append(model.max_physic_offset, units.offset))[:-1]
        chosen = np.flatnonzero(units.offset > highest)
        if not len(chosen):
            return
        was_empty = not model.files
        self._append(model, units, chosen)
        model.max_base_offset = int(next_base[chosen[-1]])
        if was_empty:
            model.min_base_offset = int(units.index[chosen[0]])

    def _to_queue(self, model: QueueModel, units: AppendedColumns) -> dtypes.Longs:
        """Append what is not there yet; which elements were passed over though they are not there."""
        reach = units.offset + units.size if model.counts_ends else units.offset
        if _rises(reach) and _rises(units.index):
            known = int(np.searchsorted(reach, model.max_physic_offset, side="right"))
            place = model.end_pos // model.unit_size if model.files else 0
            fresh = max(known, int(np.searchsorted(units.index, place, side="left")))
            if self.rules.dialect.skips_units_below_current:
                if known < fresh and units.index[known] == 0:
                    return self._one_by_one(model, units, reach)
                if known < fresh:
                    model.open_next()
                self._append(model, units, np.arange(fresh, len(reach)))
                return np.arange(known, fresh)
            self._append(model, units, np.arange(known, len(reach)))
            return np.zeros(0, np.int64)
        return self._one_by_one(model, units, reach)

    def _one_by_one(self, model: QueueModel, units: AppendedColumns, reach: dtypes.Longs) -> dtypes.Longs:
        skipped: list[int] = []
        for element, (index, end) in enumerate(zip(units.index.tolist(), reach.tolist(), strict=True)):
            if end <= model.max_physic_offset:
                continue
            below = model.files and index * model.unit_size < model.end_pos
            if below and index != 0 and self.rules.dialect.skips_units_below_current:
                model.open_next()
                skipped.append(element)
                continue
            self._append(model, units, np.array([element]))
        return np.array(skipped, np.int64)


def _rises(column: dtypes.Longs) -> bool:
    return bool((column[1:] > column[:-1]).all())
