"""What the tests of exports share: batches of any shape, an export read back, its bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from rocketfsck.formats.magic import MAGIC_V2
from rocketfsck.pipeline.export.file import NULL_NAME, TEMPORARY, FileShape, escape
from rocketfsck.pipeline.export.job import export_stores
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult
from rocketfsck.pipeline.sources import find_sources

from tests.unit.scan.logmaker import closed, record

HOSTILE = (
    "../../etc",
    "..",
    "a=b",
    "%RETRY%g",
    "x\n\x1b]0;",
    "",
    "é中\u202e",
    "T" * 300,
    "a/b",
    "q?#*'\"{}[]^:\\",
)
START = 1_700_000_000_000
DAY_MS = 86_400_000

LONG = "%" * 127
ODD_TOPICS = (
    *(topic for topic in HOSTILE if topic and len(topic) < 200),
    "007",
    "a b+c",
    NULL_NAME,
    "é" * 60,
    LONG,
    LONG[:-1] + "1",
    "ü" * 150,
    escape(LONG, 249),
)
"""Topics whose directories need an escape, a cut, or a reader that does not guess."""

SCHEMA = pa.schema(
    [
        pa.field("broker", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("store_timestamp", pa.int64()),
        pa.field("body", pa.binary()),
    ]
)


def batches(
    topics: Sequence[str],
    count: int,
    *,
    size: int = 500,
    body: int = 40,
    step: int = 100_000,
) -> Iterator[pa.RecordBatch]:
    """`count` batches of messages of these topics at random, `step` ms apart, in the log's order."""
    random = np.random.default_rng(1)
    names = pa.array(topics)
    for number in range(count):
        offsets = np.arange(number * size, (number + 1) * size)
        yield pa.record_batch(
            {
                "broker": pa.array(["b"] * size),
                "topic": names.take(pa.array(random.integers(0, len(topics), size))),
                "offset": pa.array(offsets),
                "store_timestamp": pa.array(START + offsets * step),
                "body": pa.array([random.bytes(body) for _ in range(size)], pa.binary()),
            }
        )


def shape(**given: Any) -> FileShape:
    """A shape of files of `SCHEMA` by topic and date."""
    return FileShape(
        **({"schema": SCHEMA, "partition": ("topic", "date"), "order": ("broker", "offset")} | given)
    )


def new_root(place: Path) -> Path:
    """A directory such as the driver makes for the workers."""
    (place / TEMPORARY).mkdir(parents=True)
    return place


def export(
    into: Path, *stores: Path, engine: Any = None, replace: bool = False, **options: Any
) -> ExportResult:
    """Export stores; brokers are called by the directories above them."""
    names = [store.parent.name for store in stores]
    sources = find_sources(stores, brokers=names)
    return export_stores(sources, into, ExportOptions(**options), engine=engine, replace_existing=replace)


def odd_topics_store(root: Path) -> Path:
    """A store with a message in each of ODD_TOPICS."""
    data = b""
    for topic in ODD_TOPICS:
        data += record(len(data), topic=topic.encode(), magic_code=MAGIC_V2, queue_offset=0)
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(closed(data, 1 << 16))
    return root


def rows_of(into: Path) -> list[dict[str, Any]]:
    """All rows of the table, in the order of the log, with the partition's columns."""
    fields = pa.schema([pa.field("topic", pa.string()), pa.field("date", pa.string())])
    table = ds.dataset(into, partitioning=ds.partitioning(fields, flavor="hive")).to_table()
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["broker"], row["offset"]))


def manifest_of(into: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((into / "_manifest.json").read_text("ascii"))
    return found


def sums_of(into: Path) -> dict[str, str]:
    """The SHA-256 of every file."""
    return {
        path.relative_to(into).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(into.rglob("*"))
        if path.is_file()
    }
