"""`spark.readStream.format("rocketmq")`: the view `messages` of logs that are being written.

    offset := {broker: place}          a place is `tailplace.Place`, as JSON

The driver finds where the complete records end (`pipeline.tail`), for which it reads frames, never bodies; a
batch is what lies between two offsets, and a partition one range of one file. So a batch that is run again
after a failure reads the same bytes, and each record is delivered once, by its physical offset.

Needs pyspark 4.2: earlier versions have no limits of a batch, and do not say where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rocketfsck.engine.worker import plain_errors, settle
from rocketfsck.errors import UsageError
from rocketfsck.pipeline.columns import Request, declared, read_columns, shaped
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.tail import place as logs
from rocketfsck.pipeline.tail import reading
from rocketfsck.pipeline.tail.log import advance, latest_place
from rocketfsck.pipeline.tail.walk import WalkBounds

if TYPE_CHECKING:
    import pyarrow as pa


class TailPartition(InputPartition):
    """A partition that is one range of a log file."""

    def __init__(self, tail: reading.TailPart) -> None:
        super().__init__(tail)
        self.tail = tail


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows the commit logs of the request's stores."""

    def __init__(
        self, request: Request, options: logs.StreamOptions, schema: pa.Schema | None = None
    ) -> None:
        if request.view not in reading.VIEWS:
            raise UsageError(
                f"a stream reads only the views {' and '.join(reading.VIEWS)}, not {request.view}"
            )
        if request.wanted.selects_files:
            raise UsageError("a stream reads every file that comes: begin it by startingTimestamp")
        brokers = {source.broker for source in request.sources}
        if isinstance(options.starting, dict) and (unknown := sorted(set(options.starting) - brokers)):
            raise UsageError(f"startingOffset names unknown brokers: {', '.join(unknown)}")
        self.request = request
        self.options = options
        self.schema = declared(request.view, request.wanted) if schema is None else schema
        self.until: dict[str, int] | None = None

    @plain_errors()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - the names are Spark's
        return {source.broker: self._initial(source).to_json() for source in self.request.sources}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.max_size is not None:
            return ReadMaxBytes(self.options.max_size)
        if self.options.max_count is not None:
            return ReadMaxRows(self.options.max_count)
        return ReadAllAvailable()

    @plain_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.until = {
            source.broker: max(latest_place(self._log(source)).offset, 0) for source in self.request.sources
        }

    @plain_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        count = len(self.request.sources)
        found = dict(start)
        for source in self.request.sources:
            place = _place_of(start, source.broker)
            bounds = WalkBounds(
                until_offset=None if self.until is None else self.until[source.broker],
                max_size=max(limit.max_bytes // count, 1) if isinstance(limit, ReadMaxBytes) else None,
                max_count=max(limit.max_rows // count, 1) if isinstance(limit, ReadMaxRows) else None,
            )
            reached = advance(
                self._log(source), place, bounds, fail_on_data_loss=self.options.fail_on_data_loss
            )
            found[source.broker] = reached.to_json()
        return found

    @plain_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        found: list[InputPartition] = []
        demands_all = self.options.fail_on_data_loss
        sources = {source.broker: source for source in self.request.sources}
        for broker in end:
            first, last = _place_of(start, broker), _place_of(end, broker)
            if first == last:
                continue
            if broker not in sources:
                raise UsageError(f"the checkpoint has records of {broker!r}, whose store is not named")
            source = sources[broker]
            log = self._log(source)
            wholes = reading.ranges_between(log, first, last, fail_on_data_loss=demands_all)
            size = self.request.wanted.split_size
            ranges = [piece for whole in wholes for piece in reading.split_range(log, whole, size)]
            found += [
                TailPartition(tail) for tail in reading.parts_of(self.request.view, source, log, ranges, last)
            ]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, TailPartition):
            tail, request, demands_all = partition.tail, self.request, self.options.fail_on_data_loss
            wanted = read_columns(request.view, request.wanted)
            with plain_errors():
                for batch in reading.read_tail(tail, wanted, fail_on_data_loss=demands_all):
                    yield shaped(batch, tail.part, self.schema)
            settle()

    def _log(self, source: StoreSource) -> logs.Log:
        return logs.log_of(open_source(source), name=source.broker, clock_step=self.options.clock_step)

    def _initial(self, source: StoreSource) -> logs.LogPlace:
        log, options = self._log(source), self.options
        if options.starting_timestamp is not None:
            return reading.place_at_timestamp(log, options.starting_timestamp)
        starting = options.starting
        if isinstance(starting, dict):
            starting = starting.get(source.broker, logs.EARLIEST)
        if isinstance(starting, int):
            return reading.place_at_offset(log, starting)
        return logs.BEGINNING if starting == logs.EARLIEST else latest_place(log)


def _place_of(offset: Mapping[str, Any], broker: str) -> logs.LogPlace:
    """The broker's place; a store that was not there before is read from its beginning."""
    return logs.read_place(offset[broker]) if broker in offset else logs.BEGINNING
