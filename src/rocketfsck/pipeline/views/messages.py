"""The view `messages`: one row a message of the commit log; damaged ranges are the view `damage`.

    provenance       broker, file, pos and size in the file, offset in the commit log, live
    the record       every field under its name in RocketMQ, in snake case (reference 2.1)
    its properties   the map, and tags, keys and unique_key out of it (reference 2.5, 2.7)
    its soundness    body_crc_ok, faults; _corrupt_record says what damage is

A body whose CRC differs is damage of a message, whose row has all its fields. With `damage_rows`, which an
export sets, damaged ranges are rows here, too, with their provenance and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketfsck.errors import StoreError
from rocketfsck.formats.columns import DERIVED, NUMBERS, ValueKind
from rocketfsck.formats.javatext import INT32_MAX, java_decode
from rocketfsck.pipeline.sources import StoreSource
from rocketfsck.pipeline.views import model, walking
from rocketfsck.scan.columns import Fault, RecordBatch
from rocketfsck.scan.machine.jit import compiled_wanted
from rocketfsck.scan.options import LogItem, log_item
from rocketfsck.scan.threads.pieces import PIECE_SIZE
from rocketfsck.scan.views.arrow import LogBatch, scanned_name
from rocketfsck.store.model import Store
from rocketfsck.store.reading import FileReader

_TYPES: dict[ValueKind, pa.DataType] = {
    "i4": pa.int32(),
    "i8": pa.int64(),
    "text": pa.string(),
    "words": pa.list_(pa.field("element", pa.string())),
    "map": pa.map_(pa.string(), pa.string()),
    "bytes": pa.binary(),
}
_OWN: dict[str, pa.DataType] = {
    "broker": pa.string(),
    "file": pa.string(),
    "offset": pa.int64(),
    "pos": pa.int64(),
    "live": pa.bool_(),
    "tags_code": pa.int64(),
    "delay_level": pa.int32(),
    "batch_count": pa.int32(),
    "inner_base_offset": pa.int64(),
    "body_crc_ok": pa.bool_(),
    "properties_bytes": pa.binary(),
    model.CORRUPT: pa.string(),
}
"""What the view knows of a message beyond its columns."""
_FIRST = (
    "broker", "file", "offset", "pos", "size", "live", "topic", "queue_id", "queue_offset", "store_timestamp",
    "born_timestamp", "tags", "keys", "unique_key", "properties", "born_host", "store_host", "transaction",
    "compression", "physical_offset", "reconsume_times", "prepared_transaction_offset", "magic_code", "flag",
    "sys_flag",
)  # fmt: skip
_LAST = (
    "tags_code", "delay_level", "batch_count", "inner_base_offset", "body_crc_ok", "faults",
    "properties_bytes", "body", model.CORRUPT,
)  # fmt: skip
"""The order of the columns; the other numbers of the record are between these."""
_NUMBERS = frozenset({column.name for column in NUMBERS} | {"pos", *_LAST[:4]})
"""Columns of the scan as they are."""
_TEXT = frozenset({"tags", "keys", "unique_key", "properties", "properties_bytes"})
_CHECKED = frozenset({"body", "body_crc_ok"})
DAMAGE_FAULTS = ((Fault.BODY_CRC, "body-crc"), (Fault.PROPERTY_CRC, "property-crc"))
MOST_PARTS = 8
LONG_SIZE = 64 << 20
"""Bytes of a file from which on a walk of its frames takes some time."""


def _fields() -> list[pa.Field]:
    types = _OWN | {column.name: _TYPES[column.kind] for column in (*NUMBERS, *DERIVED)}
    others = [name for name in types if name not in (*_FIRST, *_LAST)]
    return [pa.field(name, types[name]) for name in (*_FIRST, *others, *_LAST)]


def plan_log_parts(
    view: str, source: StoreSource, store: Store, wanted: model.WantedRows
) -> Iterator[model.Part]:
    """A part for every log file that the offsets touch, or for every `split_size` bytes of it."""
    for file in store.commitlog.files:
        base = file.start_offset or 0
        low = max((wanted.begin_offset or 0) - base, 0)
        high = file.size if wanted.end_offset is None else min(wanted.end_offset - base, file.size)
        if (
            (low and low >= file.size)
            or high <= 0 < file.size
            or (high <= 0 and wanted.end_offset is not None)
        ):
            continue
        item = log_item(store, file)
        end = None if high == file.size else high
        step = _step(file.size, wanted.split_size)
        bounds = [low, *range(low - low % step + step, high, step)]
        for start, stop in zip(bounds, [*bounds[1:], end], strict=True):
            part = model.Part(source, view, file.relative, start, stop, (stop or high) - start, item)
            yield part.of_file(file)


def _step(size: int, split_size: int) -> int:
    """The bytes of a part of a file of `size` bytes.

    Each part walks the frames in front of it, or those that its process has not walked yet (`walking`): n
    parts in as many processes cost n(n - 1) / 2 walks of a part. So a long file has at most MOST_PARTS,
    whatever size was asked for. Parts of a file of several pieces are whole pieces, as a walk goes by these:
    two parts in one would both read all of it.
    """
    if not split_size:
        return max(size, 1)
    least = -(-size // MOST_PARTS) if size > LONG_SIZE else 1
    piece = PIECE_SIZE if size > PIECE_SIZE else 1
    return -(-max(split_size, least) // piece) * piece


class PartReader:
    """Reads one part."""

    def __init__(self, part: model.Part, wanted: model.WantedRows, schema: pa.Schema) -> None:
        self.part = part
        self.item: LogItem = part.item
        self.wanted = wanted
        self.schema = schema
        names = set(schema.names)
        self.end = (1 << 63) - 1 if part.end is None else part.end
        self.bodies = wanted.max_body_size if "body" in names else 0
        self.checks = wanted.level == "full" or (wanted.level is None and bool(names & _CHECKED))
        self.text = bool(names & _TEXT) or wanted.tag is not None or wanted.key is not None
        self.topics = "topic" in names or wanted.topic is not None
        self.reached = part.start
        self.gives_damage = wanted.damage_rows

    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows; what cannot be read is an error, a row, or nothing."""
        try:
            yield from self.batches()
        except StoreError as error:
            if not model.ignores(self.wanted, error):
                raise
            if self.gives_damage:
                yield self.unread_row(error)

    def batches(self) -> Iterator[pa.RecordBatch]:
        part, item, wanted = self.part, self.item, self.wanted
        with FileReader(item.location) as reader:
            options = item.options(reader.size, read_bodies=self.checks, body_range=(part.start, self.end))
            self.compiled = compiled_wanted(reader.allocated_size)
            same = walking.identity(reader, item.base_offset, options) if part.start or part.end else None
            known = None if same is None else walking.continuations.take(same, part.start)
            walk = walking.PartWalk(reader, item.base_offset, options, part.start, self.end, known)
            self.walk = walk
            for found in walk.items(live_only=wanted.live_only):
                yield from self.rows_of(found, reader)
            if same is not None and walk.walked is not None:
                walking.continuations.keep(same, walk.walked)

    def rows_of(
        self, found: RecordBatch | walking.DamagedRange, reader: FileReader
    ) -> Iterator[pa.RecordBatch]:
        """The rows of what a walk has found; from `reached` on there are none yet."""
        if isinstance(found, walking.DamagedRange):
            yield from self._damage(found)
            self.reached = max(self.reached, found.end)
            return
        end = int(found["pos"][-1]) + int(found["total_size"][-1])
        yield from self._messages(
            LogBatch(found, self.walk.table, self.item.base_offset, self.part.file, reader)
        )
        self.reached = max(self.reached, end)

    def unread_row(self, error: StoreError) -> pa.RecordBatch:
        """The row for what is left of the part when bytes cannot be read: from where its rows ended."""
        part = self.part
        end = part.start + part.size if part.end is None else part.end
        return self.damage_row(
            walking.DamagedRange(self.reached, max(end, self.reached), model.UNREADABLE, str(error))
        )

    def damage_row(self, found: walking.DamagedRange) -> pa.RecordBatch:
        """The row of one damaged range."""
        place = self.place_of(found)
        said = model.account(
            found.kind, found.reason, self.part.file, start=found.start, end=found.end, offset=place["offset"]
        )
        size = min(found.end - found.start, INT32_MAX)
        values = {**place, "size": size, self.wanted.corrupt_column: said}
        return model.one_row(self.schema, values)

    def place_of(self, found: walking.DamagedRange) -> model.Row:
        """Where a damaged range is."""
        return {
            "broker": self.part.source.broker,
            "file": model.printable(self.part.file),
            "offset": self.item.base_offset + found.start,
            "pos": found.start,
            "live": found.is_live,
        }

    def demand_permissive(self, found: walking.DamagedRange) -> None:
        """Raise StoreError for a damaged range with `FAILFAST`."""
        if self.wanted.mode == "FAILFAST":
            said = f"{found.kind} bytes up to {found.end} ({found.reason})"
            raise StoreError(said, path=self.item.location, offset=found.start)

    def _damage(self, found: walking.DamagedRange) -> Iterator[pa.RecordBatch]:
        self.demand_permissive(found)
        if self.wanted.damage_rows and not self.wanted.selects_messages and self.wanted.mode == "PERMISSIVE":
            yield self.damage_row(found)

    def _messages(self, log: LogBatch) -> Iterator[pa.RecordBatch]:
        rows = self._rows(log)
        if self.wanted.mode != "PERMISSIVE":
            rows = self._sound(log.batch, rows)
        for chunk in walking.chunks_of(
            log,
            rows,
            self.item.parser,
            compiled=self.compiled,
            bodies=self.bodies,
            text=self.text or (self.topics and log.table.turned_away_count > 0),
        ):
            columns = [self._column(field, chunk) for field in self.schema]
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
            yield self._exactly(batch, chunk)
            self.reached = int(chunk["pos"][-1]) + int(chunk["total_size"][-1])

    def _rows(self, log: LogBatch) -> walking.Rows:
        """The rows of the part that are wanted, but for the words of tag and key."""
        pos = log.batch["pos"]
        rows = self.wanted.filter.rows(log.batch, log.table, log.base_offset)
        keep = (pos[rows] >= self.part.start) & (pos[rows] < self.end)
        if self.wanted.topic is not None:
            named = [java_decode(name) == self.wanted.topic for name, _ in log.table.names]
            known = np.array([*named, log.table.turned_away_count > 0], np.bool_)
            keep &= known[log.batch["queue_index"][rows]]
        found: walking.Rows = rows[keep]
        return found

    def _sound(self, batch: RecordBatch, rows: walking.Rows) -> walking.Rows:
        faults = batch["faults"][rows]
        bad = np.zeros(len(rows), np.bool_)
        for fault, reason in DAMAGE_FAULTS:
            odd = (faults & fault) != 0
            if self.wanted.mode == "FAILFAST" and odd.any():
                pos = int(batch["pos"][rows[odd]][0])
                raise StoreError(
                    f"a message with a wrong CRC ({reason})", path=self.item.location, offset=pos
                )
            bad |= odd
        found: walking.Rows = rows[~bad]
        return found

    def _exactly(self, batch: pa.RecordBatch, chunk: walking.Chunk) -> pa.RecordBatch:
        """Only the rows whose own words are those asked for."""
        wanted = self.wanted
        if wanted.topic is not None and self.walk.table.turned_away_count:
            batch = batch.filter(pc.equal(walking.topic_of(chunk), wanted.topic))
        if wanted.tag is not None:
            batch = batch.filter(pc.equal(pc.fill_null(chunk.named(b"TAGS"), ""), wanted.tag))
        if wanted.key is not None:
            words = chunk.key_words(pa.list_(pa.field("element", pa.string())))
            hit = np.zeros(len(chunk), np.bool_)
            parents = pc.list_parent_indices(words).to_numpy()
            hit[parents[pc.equal(words.flatten(), wanted.key).to_numpy(zero_copy_only=False)]] = True
            unique = pc.fill_null(pc.equal(chunk.named(b"UNIQ_KEY"), wanted.key), False)
            batch = batch.filter(pc.or_(pa.array(hit), unique))
        return batch

    def _column(self, field: pa.Field, chunk: walking.Chunk) -> pa.Array:
        name = field.name
        if name in _NUMBERS:
            return model.numbers(chunk[scanned_name(name)])
        if name == "broker":
            return model.repeated(self.part.source.broker, len(chunk))
        if name == "file":
            return model.repeated(self.part.file, len(chunk))
        if name == "offset":
            return model.numbers(chunk["pos"] + np.int64(self.item.base_offset))
        if name == "live":
            return model.numbers(chunk["pos"] < self.walk.live_end)
        if name == "body_crc_ok":
            return self._crc_verdict(chunk)
        if name == self.wanted.corrupt_column:
            return self._corrupt(chunk)
        return walking.COLUMNS[name](chunk, field.type)

    def _crc_verdict(self, chunk: walking.Chunk) -> pa.Array:
        if not self.checks:
            return pa.nulls(len(chunk), pa.bool_())
        return model.numbers((chunk["faults"] & Fault.BODY_CRC) == 0)

    def _corrupt(self, chunk: walking.Chunk) -> pa.Array:
        said = pa.nulls(len(chunk), pa.string())
        for fault, reason in DAMAGE_FAULTS:
            bad = (chunk["faults"] & fault) != 0
            if bad.any():
                start = chunk["pos"]
                end, offset = start + chunk["total_size"], start + np.int64(self.item.base_offset)
                stated = model.accounts("record", reason, self.part.file, start=start, end=end, offset=offset)
                said = pc.coalesce(said, pc.if_else(pa.array(bad), stated, pa.scalar(None, pa.string())))
        return said


MESSAGES = model.View(
    "messages",
    _fields,
    partial(plan_log_parts, "messages"),
    lambda part, wanted, schema: PartReader(part, wanted, schema).read(),
    model.CONDITIONS,
    model.COMMITLOG,
    model.PLACE
    | {column.name for column in NUMBERS if column.unit != "ms"}
    | {"topic", "tags_code", "live", "keys", "transaction", "properties_bytes", "faults"},
    of_files=True,
    further=frozenset({"properties_bytes"}),
)
