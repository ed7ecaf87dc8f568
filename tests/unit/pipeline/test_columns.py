"""What Spark is told of columns: types, nulls, files; and what a count has to read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rocketfsck.errors import UsageError
from rocketfsck.pipeline.columns import (
    METADATA,
    NARROW,
    TIMESTAMP,
    declared,
    read_columns,
    shaped,
)
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.messages import PartReader
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import VIEW_NAMES, plan_parts, read_part, schema_of, view_named
from rocketfsck.pipeline.views.walking import Chunk

from tests.conftest import Directory
from tests.unit.scan.logmaker import closed, log

STORES = ("4.9.8-lmq", "5.0.0-innerbatch", "5.3.3-trans", "4.4.0-legacybatch-propedge")


def _shaped(view: str, *roots: Path, **wanted: Any) -> list[dict[str, Any]]:
    asked = WantedRows(**wanted)
    schema = declared(view, asked)
    rows: list[dict[str, Any]] = []
    for part in plan_parts(view, find_sources(roots), read_columns(view, asked)):
        for batch in read_part(part, read_columns(view, asked)):
            found = shaped(batch, part, schema)
            assert found.schema.equals(schema)
            for field, column in zip(schema, found.columns, strict=True):
                assert field.nullable or not column.null_count, field.name
            rows += found.to_pylist()
    return rows


@pytest.mark.parametrize("view", VIEW_NAMES)
def test_what_is_declared_not_null_never_is(view: str, store_dir: Directory, restart_dir: Directory) -> None:
    roots = [restart_dir("4.9.8-basic--torn-tail"), restart_dir("5.3.3-multiseg--flip-older-file")]
    columns = (*schema_of(view).names, *(("properties_bytes",) if view == "messages" else ()))
    assert set(columns) >= view_named(view).not_null
    rows = _shaped(view, *roots, *(store_dir(name) for name in STORES), columns=columns, live_only=False)
    assert rows
    assert len(rows[0]) == len(columns)


def test_times_are_timestamps(store_dir: Directory) -> None:
    root = store_dir("5.3.3-basic")
    names = [name for name in schema_of("messages").names if name.endswith("_timestamp")]
    assert names
    for view, column in [*(("messages", name) for name in names), ("index", "store_timestamp")]:
        assert declared(view, WantedRows(columns=(column,))).field(column).type == TIMESTAMP
        numbers = [
            row[column]
            for part in plan_parts(view, find_sources([root]))
            for batch in read_part(part)
            for row in batch.to_pylist()
        ]
        times = [row[column] for row in _shaped(view, root, columns=(column,))]
        assert times == [datetime.fromtimestamp(number / 1000, UTC) for number in numbers]


def test_times_that_are_none_are_null(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    data = closed(log(b"one", b"two", base=0, born_timestamp=1 << 62), 1 << 16)
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(data)
    assert _shaped("messages", tmp_path, columns=("born_timestamp",)) == [{"born_timestamp": None}] * 2
    schema = pa.schema([pa.field("born_timestamp", pa.int64(), nullable=False)])
    (part,) = plan_parts("messages", find_sources([tmp_path]))
    (batch,) = read_part(part, WantedRows(columns=("born_timestamp",)))
    assert shaped(batch, part, schema).to_pylist() == [{"born_timestamp": 1 << 62}] * 2


@pytest.mark.parametrize("view", ["messages", "damage", "regions", "index"])
def test_metadata_is_that_of_the_file(view: str, restart_dir: Directory) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    (root_row, *_) = rows = _shaped(view, root, columns=(METADATA, "file"))
    assert list(root_row) == [METADATA, "file"]
    for row in rows:
        path = root / row["file"]
        assert row[METADATA] == {
            "file_path": str(path),
            "file_name": path.name,
            "file_size": path.stat().st_size,
            "file_modification_time": datetime.fromtimestamp(path.stat().st_mtime_ns // 1000 / 1e6, UTC),
        }
    assert _shaped(view, root, columns=(METADATA,)) == [{METADATA: row[METADATA]} for row in rows]
    with pytest.raises(UsageError, match="the view consumequeue has no column _metadata"):
        declared("consumequeue", WantedRows(columns=(METADATA,)))


def test_a_count_gathers_no_bytes(restart_dir: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The columns that are given by default come from the frames: no CRC is compared, nothing is copied."""
    root = restart_dir("5.1.3-basic--flip-last-file")
    (part,) = plan_parts("messages", find_sources([root]))
    monkeypatch.setattr(Chunk, "_read", lambda _: pytest.fail("bodies and properties were read"))
    wanted = WantedRows(columns=NARROW)
    reader = PartReader(part, wanted, schema_of("messages", wanted))
    assert sum(map(len, reader.batches())) > 100
    assert not reader.checks
    for more in ("tags", "body"):
        with pytest.raises(pytest.fail.Exception):
            _shaped("messages", root, columns=(*NARROW, more))
