"""What the tests of exports share: an export, and its rows read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from rocketfsck.formats.magic import MAGIC_V2
from rocketfsck.pipeline.export.job import export_stores
from rocketfsck.pipeline.export.model import ExportOptions, ExportResult
from rocketfsck.pipeline.export.rows import NULL_NAME
from rocketfsck.pipeline.sources import find_sources

from tests.unit.scan.logmaker import closed, record

LONG = "%" * 127
ODD_TOPICS = (
    "../../etc",
    "..",
    "a=b",
    "%RETRY%g",
    "x\n\x1b]0;",
    "é中\u202e",
    "a/b",
    "q?#*'\"{}[]^:\\",
    "007",
    "a b+c",
    NULL_NAME,
    "é" * 60,
    LONG,
    LONG[:-1] + "1",
    "ü" * 63,
    "sha256-" + "0" * 64,
)
"""Topics whose directories need an escape, another name, or a reader that does not guess."""


def export(
    into: Path, *stores: Path, engine: Any = None, replace: bool = False, append: bool = False, **options: Any
) -> ExportResult:
    """Export stores; brokers are called by the directories above them."""
    names = [store.parent.name for store in stores]
    sources = find_sources(stores, brokers=names)
    chosen = ExportOptions(**options)
    return export_stores(sources, into, chosen, engine=engine, replace_existing=replace, append=append)


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


def damage_of(into: Path) -> list[dict[str, Any]]:
    """The rows of damage next to a table."""
    if not (into / "_damage").exists():
        return []
    rows: list[dict[str, Any]] = (
        ds.dataset(sorted((into / "_damage").glob("*.parquet"))).to_table().to_pylist()
    )
    return sorted(rows, key=lambda row: (row["broker"], row["offset"]))


def contents_of(into: Path) -> dict[str, list[dict[str, Any]]]:
    """All that an export of Parquet files has, whoever wrote it."""
    return {"rows": rows_of(into), "damage": damage_of(into)}


def manifest_of(into: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((into / "_manifest.json").read_text("ascii"))
    return found
