"""Reads views for tests: all parts, each batch seen to be what was declared."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import Part, WantedRows
from rocketfsck.pipeline.views.table import plan_parts, read_part, schema_of
from rocketfsck.store.places import entries

Row = dict[str, Any]


def read(view: str, *paths: Path, fixed: bool = False, **wanted: Any) -> list[Row]:
    """The rows of a view of stores, in the order of the parts; `fixed` ones are listed once a process.

    Of messages, damage is rows, too, as an export asks for it.
    """
    asked = WantedRows(**{"damage_rows": view == "messages", **wanted})
    sources = [replace(source, listed=int(fixed)) for source in find_sources(paths)]
    parts = plan_parts(view, sources, asked)
    return [row for part in parts for row in rows_of(part, asked)]


def rows_of(part: Part, wanted: WantedRows) -> list[Row]:
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


def hide(path: Path, monkeypatch: pytest.MonkeyPatch, *, is_link: bool) -> None:
    """Take a path away from those who list: by a link to nowhere, or as a stale handle of NFS."""
    if is_link:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        path.symlink_to(path.parent / "nowhere")
        return
    stale = OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    list_entries, look = os.scandir, entries._entry

    def scandir(place: str | os.PathLike[str]) -> Any:
        if os.fspath(place) == str(path):
            raise stale
        return list_entries(place)

    def entry_of(entry: os.DirEntry[str]) -> entries.DirectoryEntry | None:
        if entry.path == str(path) and not path.is_dir():
            return entries.DirectoryEntry(
                entry.name, entry.path, entries.EntryKind.UNREADABLE, detail=str(stale.strerror)
            )
        return look(entry)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(entries, "_entry", entry_of)
