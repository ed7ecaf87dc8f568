"""The stream's reader as Spark drives it, without Spark: offsets in JSON, partitions pickled."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from rocketfsck.errors import StoreError, UsageError, may_pass
from rocketfsck.pipeline.columns import declared, parse_options, shaped
from rocketfsck.pipeline.datasource import RocketMQDataSource
from rocketfsck.pipeline.streaming import RocketMQStreamReader
from rocketfsck.pipeline.tail.place import DataLossError
from rocketfsck.pipeline.views.table import plan_parts, read_part, schema_of

from tests.conftest import Directory
from tests.unit.pipeline.viewing import hide

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

FEW = ("4.4.0-multiseg", "4.9.8-ghosttail", "4.9.8-lagkill-transient", "5.0.0-innerbatch", "5.3.3-killed")


def _reader(root: Path | str, **options: str) -> RocketMQStreamReader:
    source = RocketMQDataSource({"path": str(root), **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, RocketMQStreamReader)
    return reader


def _json(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found


def _rows(reader: RocketMQStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[pa.RecordBatch]:
    """What a batch gives, by a reader and partitions that went to a worker."""
    worker = pickle.loads(pickle.dumps(reader))
    return [
        batch
        for partition in pickle.loads(pickle.dumps(reader.partitions(start, end)))
        for batch in worker.read(partition)
    ]


def _batches(
    reader: RocketMQStreamReader, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
) -> Iterator[tuple[dict[str, Any], list[pa.RecordBatch]]]:
    """Trigger until nothing comes any more."""
    limit = limit or reader.getDefaultReadLimit()
    start = _json(reader.initialOffset()) if start is None else start
    while (end := _json(reader.latestOffset(start, limit))) != start:
        yield end, _rows(reader, start, end)
        start = end


def _all(reader: RocketMQStreamReader) -> list[dict[str, Any]]:
    return [row for _, found in _batches(reader) for batch in found for row in batch.to_pylist()]


def _place(offset: dict[str, Any]) -> dict[str, int]:
    """The place of the only broker."""
    (place,) = offset.values()
    assert isinstance(place, dict)
    return place


def _offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("options", [{}, {"maxRowsPerTrigger": "37"}, {"split_size": "16K"}], ids=str)
def test_the_same_rows_as_in_one_go(store_dir: Directory, name: str, options: dict[str, str]) -> None:
    found = [batch for _, batches in _batches(_reader(store_dir(name), **options)) for batch in batches]
    request = parse_options({"path": str(store_dir(name))})
    schema = declared("messages", request.wanted)
    whole = [
        shaped(batch, part, schema)
        for part in plan_parts("messages", request.sources)
        for batch in read_part(part)
    ]
    stream = pa.Table.from_batches(found, schema)
    assert stream.equals(pa.Table.from_batches(whole, schema))
    assert stream.num_rows


def test_the_schema_is_that_of_the_view() -> None:
    source = RocketMQDataSource({"path": "/nowhere", "columns": "topic,offset"})
    with pytest.raises(StoreError):
        source.schema()


def test_limits(store_dir: Directory) -> None:
    root = store_dir("5.3.3-multiseg")
    counts = [sum(map(len, found)) for _, found in _batches(_reader(root, maxRowsPerTrigger="200"))]
    assert counts[:-1] == [200] * (len(counts) - 1)
    sizes = [_place(end)["offset"] for end, _ in _batches(_reader(root, maxBytesPerTrigger="100K"))]
    steps = [high - low for low, high in zip([0, *sizes], sizes, strict=False)]
    assert len(steps) > 5
    assert max(steps) <= 100 << 10
    reader = _reader(root, maxRowsPerTrigger="1")
    assert [sum(map(len, found)) for _, found in _batches(reader, limit=ReadAllAvailable())] == [sum(counts)]
    assert reader.getDefaultReadLimit() == ReadMaxRows(1)
    assert _reader(root, maxBytesPerTrigger="2m").getDefaultReadLimit() == ReadMaxBytes(2 << 20)
    assert _reader(root).getDefaultReadLimit() == ReadAllAvailable()


def test_available_now_ends_where_the_log_ended(store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    last = sorted((root / "commitlog").iterdir())[-1]
    data = last.read_bytes()
    last.write_bytes(data[:40_000] + bytes(len(data) - 40_000))
    reader = _reader(root, maxRowsPerTrigger="300")
    reader.prepareForTriggerAvailableNow()
    until = None
    for number, (end, _) in enumerate(_batches(reader)):
        if number == 0:
            last.write_bytes(data)
        until = end
    assert until is not None
    assert int(last.name) < _place(until)["offset"] <= int(last.name) + 40_000
    more = [offset for _, found in _batches(_reader(root), until) for offset in _offsets(found)]
    assert more[0] == _place(until)["offset"]


def test_several_stores(store_dir: Directory, tmp_path: Path) -> None:
    for name, source in (("a", "5.3.3-basic"), ("b", "4.9.8-basic")):
        shutil.copytree(store_dir(source), tmp_path / name)
    reader = _reader(tmp_path, maxRowsPerTrigger="20", columns="broker,offset")
    found = [batch for _, batches in _batches(reader) for batch in batches]
    rows = [(row["broker"], row["offset"]) for batch in found for row in batch.to_pylist()]
    assert len(rows) == len(set(rows))
    assert {broker for broker, _ in rows} == {"a", "b"}
    end = _json(reader.latestOffset(reader.initialOffset(), ReadAllAvailable()))
    shutil.copytree(store_dir("5.0.0-basic"), tmp_path / "c")
    later = _reader(tmp_path)
    ((now, added),) = _batches(later, end)
    assert {name for batch in added for name in batch.column("broker").to_pylist()} == {"c"}
    shutil.rmtree(tmp_path / "c")
    fewer = _reader(tmp_path)
    assert _json(fewer.latestOffset(now, ReadAllAvailable())) == now
    assert fewer.partitions(now, now) == []
    with pytest.raises(UsageError, match="records of 'c'"):
        fewer.partitions(end, now)


def test_where_it_starts(store_dir: Directory) -> None:
    root = store_dir("4.9.8-expired")
    every = [offset for _, found in _batches(_reader(root)) for offset in _offsets(found)]
    name = "4.9.8-expired"
    for starting in (str(every[100]), json.dumps({name: every[100]}), str(every[100] - 3)):
        got = [
            offset
            for _, found in _batches(_reader(root, startingOffset=starting))
            for offset in _offsets(found)
        ]
        assert got == every[100:]
    assert list(_batches(_reader(root, startingOffset="Latest"))) == []
    assert list(_batches(_reader(root, startingOffset=json.dumps({name: "latest"})))) == []
    times = [round(row["store_timestamp"].timestamp() * 1000) for row in _all(_reader(root))]
    later = [
        offset
        for _, found in _batches(_reader(root, startingTimestamp=str(times[300])))
        for offset in _offsets(found)
    ]
    assert later == every[300:]
    with pytest.raises(DataLossError, match="now begins at offset 262144"):
        list(_batches(_reader(root, startingOffset="0")))
    lenient = _reader(root, startingOffset="0", failOnDataLoss="false")
    ((end, found),) = _batches(lenient)
    assert _place(end)["lost_size"] == 262_144
    assert _offsets(found) == every


def test_a_file_that_goes_between_plan_and_read(store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    first = sorted((root / "commitlog").iterdir())[0]
    for view, fail in (("messages", "true"), ("messages", "false"), ("damage", "false")):
        reader = _reader(root, view=view, failOnDataLoss=fail)
        start = _json(reader.initialOffset())
        planned = reader.partitions(start, _json(reader.latestOffset(start, ReadAllAvailable())))
        first.rename(root / "gone")
        try:
            if fail == "true":
                with pytest.raises(StoreError, match="cannot be opened"):
                    list(reader.read(planned[0]))
            else:
                rows = [row for batch in reader.read(planned[0]) for row in batch.to_pylist()]
                assert [row.get("kind") for row in rows] == (["unreadable"] if view == "damage" else [])
        finally:
            (root / "gone").rename(first)


def test_a_disk_that_fails_is_no_loss(store_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are there but cannot be read now may be read by the next attempt."""
    root = store_copy("4.9.8-multiseg")

    def failing(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    for fail, ignored, view in (
        ("true", "false", "messages"),
        ("false", "false", "damage"),
        ("false", "true", "messages"),
        ("false", "true", "damage"),
    ):
        reader = _reader(root, failOnDataLoss=fail, ignoreCorruptFiles=ignored, view=view)
        start = _json(reader.initialOffset())
        planned = reader.partitions(start, _json(reader.latestOffset(start, ReadAllAvailable())))
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", failing)
            if ignored == "false":
                with pytest.raises(
                    StoreError, match="at byte 0: cannot be read: Input/output error"
                ) as caught:
                    list(reader.read(planned[0]))
                assert may_pass(caught.value)
                continue
            rows = [row for batch in reader.read(planned[0]) for row in batch.to_pylist()]
        assert [(row["kind"], row["offset"], row["pos"], row["size"]) for row in rows] == (
            [("unreadable", 0, 0, 131_072)] if view == "damage" else []
        )


@pytest.mark.parametrize("name", ["commitlog/00000000000000131072", "commitlog"])
@pytest.mark.parametrize("is_link", [True, False])
def test_a_log_that_cannot_be_listed_is_no_shorter_log(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch, name: str, is_link: bool
) -> None:
    root = store_copy("4.9.8-multiseg")
    reader = _reader(root, failOnDataLoss="false")
    start = _json(reader.initialOffset())
    with monkeypatch.context() as patch:
        hide(root / name, patch, is_link=is_link)
        with pytest.raises(StoreError, match=re.escape(f"{root}/{name}: cannot be ")):
            reader.latestOffset(start, ReadAllAvailable())


def test_damage_is_what_the_mode_says(store_copy: Directory) -> None:
    root = store_copy("4.9.8-multiseg")
    path = sorted((root / "commitlog").iterdir())[2]
    every = [offset for _, found in _batches(_reader(root)) for offset in _offsets(found)]
    hit = next(offset for offset in every if offset > int(path.name) + 5000)
    with path.open("r+b") as file:
        file.seek(hit - int(path.name))
        file.write(b"\xff" * 40)
    (damaged,) = _all(_reader(root, view="damage"))
    assert (damaged["offset"], damaged["pos"], damaged["topic"]) == (hit, hit - int(path.name), None)
    for mode in ("permissive", "dropmalformed"):
        kept = [row["offset"] for row in _all(_reader(root, mode=mode))]
        assert kept == [offset for offset in every if offset != hit]
    with pytest.raises(StoreError, match="bytes up to"):
        list(_batches(_reader(root, mode="failfast")))


def test_zeros_between_records_are_damage(store_copy: Directory) -> None:
    root = store_copy("5.3.3-multiseg")
    path = sorted((root / "commitlog").iterdir())[1]
    every = _all(_reader(root))
    hit = [row for row in every if row["file"].endswith(path.name)][20:60]
    with path.open("r+b") as file:
        file.seek(hit[0]["pos"])
        file.write(bytes(sum(row["size"] for row in hit)))
    (damaged,) = _all(_reader(root, view="damage"))
    assert (damaged["pos"], damaged["size"]) == (hit[0]["pos"], sum(row["size"] for row in hit))
    assert _all(_reader(root)) == [row for row in every if row not in hit]


def test_records_that_are_cut_while_they_are_read(store_copy: Directory) -> None:
    root = store_copy("5.3.3-basic")
    reader = _reader(root)
    start = _json(reader.initialOffset())
    end = _json(reader.latestOffset(start, ReadAllAvailable()))
    (planned,) = reader.partitions(start, end)
    path = next((root / "commitlog").iterdir())
    with path.open("r+b") as file:
        file.seek(_place(end)["witness_offset"] + 60)
        file.write(b"\x01")
    with pytest.raises(DataLossError, match="changed after the stream read it"):
        list(reader.read(planned))
    with pytest.raises(DataLossError, match="changed after the stream read it"):
        reader.partitions(start, end)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "files"}, "a stream reads only the views messages and damage, not files"),
        ({"startingOffset": "soon"}, "earliest, latest or a physical offset"),
        ({"startingOffset": "{"}, "not JSON"),
        ({"startingOffset": '{"x": 1}'}, "unknown brokers: x"),
        ({"startingOffset": "5", "startingTimestamp": "5"}, "choose one"),
        ({"maxBytesPerTrigger": "1", "maxRowsPerTrigger": "1"}, "choose one"),
        ({"maxRowsPerTrigger": "0"}, "at least 1"),
        ({"maxClockStep": "-1"}, "number of milliseconds"),
        ({"failOnDataLoss": "perhaps"}, "true or false"),
        ({"pathGlobFilter": "0*"}, "a stream reads every file that comes"),
        ({"startingOffsets": "latest"}, "no option has the name startingoffsets"),
    ],
    ids=str,
)
def test_options_that_make_no_sense(store_dir: Directory, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        _reader(store_dir("5.3.3-basic"), **options)


def test_a_batch_has_no_options_of_a_stream(store_dir: Directory) -> None:
    source = RocketMQDataSource({"path": str(store_dir("5.3.3-basic")), "startingOffset": "latest"})
    with pytest.raises(UsageError, match="no option has the name startingoffset"):
        source.reader(from_arrow_schema(schema_of("messages")))


def test_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "store" / "abort").touch()
    reader = _reader(tmp_path / "store")
    reader.prepareForTriggerAvailableNow()
    assert list(_batches(reader)) == []
