"""The view `damage`: one row a place of the commit log where a sound message should be and is not.

    damaged, malformed, torn, zero    a range of bytes that holds no message (`scan.log.regions`)
    record                            a message with a wrong CRC; topic and queue are those that it names
    unreadable                        bytes that could not be read, where such files are to be ignored

The parts are those of the view `messages`, which has all other rows. CRCs are compared unless `level` is
`cross`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rocketfsck.errors import StoreError
from rocketfsck.pipeline.views import arrays
from rocketfsck.pipeline.views.chunks import Chunk, Rows, chunks_of, topic_of
from rocketfsck.pipeline.views.damage import UNREADABLE, one_row, range_fields
from rocketfsck.pipeline.views.messages import DAMAGE_FAULTS, PartReader, plan_log_parts
from rocketfsck.pipeline.views.model import Part, View, WantedRows, ignores
from rocketfsck.pipeline.views.walking import DamagedRange
from rocketfsck.scan.views.arrow import LogBatch

RECORD = "record"
"""The kind of a message with a wrong CRC."""


def _fields() -> list[pa.Field]:
    text, long = pa.string(), pa.int64()
    return [
        *range_fields(),
        pa.field("live", pa.bool_()),
        pa.field("topic", text),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", long),
    ]


def _read(part: Part, wanted: WantedRows, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reader = DamageReader(part, wanted, schema)
    try:
        yield from reader.batches()
    except StoreError as error:
        if not ignores(wanted, error):
            raise
        yield reader.unread_row(error)


class DamageReader(PartReader):
    """Reads the damage of one part."""

    def __init__(self, part: Part, wanted: WantedRows, schema: pa.Schema) -> None:
        super().__init__(part, wanted, schema)
        self.checks = wanted.level in (None, "full")

    def damage_row(self, found: DamagedRange) -> pa.RecordBatch:
        return one_row(
            self.schema,
            {
                "broker": self.part.source.broker,
                "file": arrays.printable(self.part.file),
                "offset": self.item.base_offset + found.start,
                "pos": found.start,
                "size": found.end - found.start,
                "kind": found.kind,
                "reason": arrays.printable(found.reason),
                "live": found.is_live,
            },
        )

    def _damage(self, found: DamagedRange) -> Iterator[pa.RecordBatch]:
        self.demand_permissive(found)
        yield self.damage_row(found)

    def _messages(self, log: LogBatch) -> Iterator[pa.RecordBatch]:
        rows = self._rows(log)
        if self.wanted.mode == "FAILFAST":
            self._sound(log.batch, rows)
        faults = log.batch["faults"][rows]
        bad: Rows = rows[np.logical_or.reduce([(faults & fault) != 0 for fault, _ in DAMAGE_FAULTS])]
        text = self.topics and log.table.turned_away_count > 0
        for chunk in chunks_of(log, bad, self.item.parser, compiled=self.compiled, bodies=0, text=text):
            columns = [self._column(field, chunk) for field in self.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, field: pa.Field, chunk: Chunk) -> pa.Array:
        if field.name == "kind":
            return arrays.repeated(RECORD, len(chunk))
        if field.name == "reason":
            return arrays.chosen(_first_fault(chunk), [reason for _, reason in DAMAGE_FAULTS])
        if field.name == "topic":
            return topic_of(chunk)
        return super()._column(field, chunk).cast(field.type)


def _first_fault(chunk: Chunk) -> NDArray[np.intp]:
    """For each row the number of the first fault of DAMAGE_FAULTS that it has."""
    faults = chunk["faults"]
    found: NDArray[np.intp] = np.argmax([(faults & fault) != 0 for fault, _ in DAMAGE_FAULTS], axis=0)
    return found


DAMAGED = View(
    "damage",
    _fields,
    lambda _: [field.name for field in _fields()],
    lambda source, store, wanted: plan_log_parts("damage", source, store, wanted),
    _read,
    frozenset({"begin_offset", "end_offset"}),
    frozenset({"commitlog"}),
    frozenset({"broker", "file", "kind", "reason", "live"}),
    of_files=True,
)

__all__ = ["DAMAGED", "UNREADABLE", "DamageReader"]
