"""Reads views for tests: all parts, each batch seen to be what was declared."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views import Part, Wanted, plan_parts, read_part, schema_of

Row = dict[str, Any]


def read(view: str, *paths: Path, fixed: bool = False, **wanted: Any) -> list[Row]:
    """The rows of a view of stores, in the order of the parts; `fixed` ones are listed once a process."""
    asked = Wanted(**wanted)
    sources = [replace(source, listed=int(fixed)) for source in find_sources(paths)]
    parts = plan_parts(view, sources, asked)
    return [row for part in parts for row in rows_of(part, asked)]


def rows_of(part: Part, wanted: Wanted) -> list[Row]:
    """The rows of one part, which came by post."""
    schema = schema_of(part.view, wanted)
    rows: list[Row] = []
    for batch in read_part(pickle.loads(pickle.dumps(part)), wanted):
        assert batch.schema.equals(schema, check_metadata=True)
        assert batch.num_rows
        batch.validate(full=True)
        rows += batch.to_pylist()
    return rows


def messages(rows: list[Row]) -> list[Row]:
    """The rows that are messages."""
    return [row for row in rows if row["magic_code"] is not None]


def damage(rows: list[Row]) -> list[Row]:
    """The rows that are damaged ranges."""
    return [row for row in rows if row["magic_code"] is None]
