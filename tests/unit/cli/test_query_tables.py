"""Queries as tables: CSV, Arrow and Parquet hold the rows that JSON lines have."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import Directory
from tests.unit.cli.conftest import Cli

STORE = "5.3.3-basic"
KEY = "0A0F00072F1F18B4AAC247B7620D03E9"
QUERIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "unique-key": (("GammaOrder", KEY), ("kind", "topic", "physical_offset")),
    "key": (("GammaOrder", "O1"), ("kind", "topic", "physical_offset")),
    "offset": (("GammaOrder", "1", "0"), ("kind", "topic", "physical_offset")),
    "life": ((KEY,), ("kind", "event", "timestamp", "note")),
    "offsets": ((), ("kind", "topic", "queue_kind", "min_offset", "group", "lag")),
    "time": (("GammaOrder", "1", "0"), ("lower", "upper", "min_offset")),
}


def _names(row: dict[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    """The values of a row, whichever spelling its members have."""
    found = {name.replace("_", "").lower(): value for name, value in row.items()}
    return {name: found.get(name.replace("_", "").lower()) for name in wanted}


@pytest.mark.parametrize("query", QUERIES)
def test_tables_have_the_rows_of_json_lines(
    query: str, cli: Cli, store_dir: Directory, tmp_path: Path
) -> None:
    words, wanted = QUERIES[query]
    arguments = ("query", query, store_dir(STORE), *words)
    head, *rows = cli(*arguments, "--format", "jsonl").rows()
    expected = [_names(row, wanted) for row in rows or [head]]
    assert expected
    for form in ("arrow", "parquet"):
        target = tmp_path / form
        assert cli(*arguments, "--format", form, "-o", target).code == 0
        table = pq.read_table(target) if form == "parquet" else pa.ipc.open_stream(target).read_all()
        assert len(set(table.column_names)) == len(table.column_names)
        assert [_names(row, wanted) for row in table.to_pylist()] == expected
    ended = cli(*arguments, "--format", "csv")
    texts = [_names(row, wanted) for row in csv.DictReader(io.StringIO(ended.out))]
    assert texts == [
        {name: "" if value is None else str(value) for name, value in row.items()} for row in expected
    ]


def test_timers_are_a_table(cli: Cli, store_dir: Directory) -> None:
    ended = cli("query", "timers", store_dir(STORE), "--format", "csv")
    assert ended.out.splitlines()[0].startswith("kind,due_timestamp,action,physical_offset,")
