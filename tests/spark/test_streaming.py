"""A stream that is stopped and started again while its log grows, rolls and expires: every record once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.conftest import Directory
from tests.unit.pipeline.growing import Found, Stream, Writer, stream_of

pytest.importorskip("pyspark.sql.streaming.datasource", reason="pyspark has such streams from 4.2 on")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

STEP = 7919


@pytest.fixture
def stores(store_dir: Directory, tmp_path: Path) -> dict[str, Writer]:
    """Two brokers' stores in which nothing is written yet, with and without files made ahead."""
    writers = {}
    for name, (source, preallocated) in {
        "broker-a": ("4.4.0-multiseg", True),
        "broker-b": ("5.3.3-killed", False),
    }.items():
        (tmp_path / "stores" / name / "commitlog").mkdir(parents=True)
        (tmp_path / "stores" / name / "abort").touch()
        stream: Stream = stream_of(store_dir(source) / "commitlog", 3)
        writers[name] = Writer(tmp_path / "stores" / name / "commitlog", stream, preallocated)
    return writers


def _start(frame: DataFrame, directory: Path, *, live: bool) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(directory / "checkpoint"))
    writer = writer.option("path", str(directory / "out"))
    return (writer.trigger(processingTime="0 seconds") if live else writer.trigger(availableNow=True)).start()


def _found(directory: Path) -> dict[str, list[tuple[int, int]]]:
    """What the sink has, of each broker, by offset."""
    rows = pq.read_table(directory / "out", columns=["broker", "offset", "size"]).to_pylist()
    found: dict[str, list[tuple[int, int]]] = {}
    for row in sorted(rows, key=lambda row: (row["broker"], row["offset"])):
        found.setdefault(row["broker"], []).append((row["offset"], row["size"]))
    return found


def _written(stores: dict[str, Writer]) -> dict[str, list[tuple[int, int]]]:
    def whole(writer: Writer) -> Found:
        end = writer.stream.pieces[0][0] + writer.written
        return [item for item in writer.stream.records if item[0] + len(item[1]) <= end]

    return {name: [(offset, len(data)) for offset, data in whole(writer)] for name, writer in stores.items()}


def _grow(stores: dict[str, Writer], size: int) -> None:
    while any(writer.written < min(size, writer.stream.size) for writer in stores.values()):
        for writer in stores.values():
            writer.write_to(min(writer.written + STEP, size))


def test_every_record_once(spark: SparkSession, stores: dict[str, Writer], tmp_path: Path) -> None:
    """A live run beside a writer, then runs from the checkpoint after the log went on."""
    reader = spark.readStream.format("rocketmq").option("columns", "broker,offset,size,topic")
    frame = reader.option("maxRowsPerTrigger", "400").load(str(tmp_path / "stores"))
    _grow(stores, 20_000)
    live = _start(frame, tmp_path, live=True)
    thread = threading.Thread(target=_grow, args=(stores, 80_000))
    thread.start()
    thread.join()
    live.processAllAvailable()
    live.stop()
    assert _found(tmp_path) == _written(stores)
    for size in (150_000, 1 << 20):
        _grow(stores, size)
        stores["broker-a"].path_of(0).unlink(missing_ok=True)
        _start(frame, tmp_path, live=False).awaitTermination()
        assert _found(tmp_path) == _written(stores)


def test_what_was_deleted_unread_ends_the_query(
    spark: SparkSession, stores: dict[str, Writer], tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    writer = stores["broker-a"]
    first, end = writer.stream.records[50][0], len(writer.stream.pieces[0][1])
    writer.write_to(writer.stream.size)
    writer.delete_first()
    reader = spark.readStream.format("rocketmq").options(columns="broker,offset,size", startingOffset=first)
    path = str(writer.directory.parent)
    with pytest.raises(StreamingQueryException, match=f"bytes {first} to {end} were deleted before"):
        _start(reader.load(path), tmp_path, live=False).awaitTermination()
    _start(reader.option("failOnDataLoss", "false").load(path), tmp_path, live=False).awaitTermination()
    rest = [item for item in _written(stores)["broker-a"] if item[0] >= end]
    assert _found(tmp_path) == {"broker-a": rest}
