"""`_manifest.json` of an export: what was exported from what, every file, its rows and bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rocketfsck.pipeline.export.file import DataFile, FileShape
from rocketfsck.pipeline.export.model import MANIFEST, TIME, ExportOptions, ExportResult

NO_SELECTION = frozenset(
    {"mode", "corrupt_column", "damage_rows", "ignore_missing_files", "ignore_corrupt_files"}
)
"""Fields of `Wanted` that say nothing of which rows a table has."""


def write_manifest(
    building: Path, about: Mapping[str, Any], shape: FileShape, options: ExportOptions, result: ExportResult
) -> None:
    """Write what was exported, and from what, into `building`. Raises OSError."""
    head = dict(about) | {
        "format": options.table_format,
        "mode": options.wanted.mode,
        "selection": {
            name: value
            for name, value in asdict(options.wanted).items()
            if value is not None and name not in NO_SELECTION
        },
        "row_count": result.row_count,
        "damage_count": result.damage_count,
        "damaged_byte_count": result.damaged_byte_count,
        "damage_told": result.damage_told,
        "corrupt_count": result.corrupt_count,
    }
    with (building / MANIFEST).open("w", encoding="ascii") as stream:
        stream.write(json.dumps(head, indent=1)[:-2])
        for name, files in (("files", result.files), ("damage", result.aside), ("crowded", result.crowded)):
            stream.write(f',\n "{name}": [')
            before = "\n  "
            for file in files:
                stream.write(before + json.dumps(_file_facts(file, shape if name == "files" else None)))
                before = ",\n  "
            stream.write("]")
        stream.write("\n}\n")


def _file_facts(file: DataFile, shape: FileShape | None) -> dict[str, Any]:
    values = {} if shape is None else dict(zip(shape.partition, file.cell.values, strict=True))
    bounds = {
        name: {"min": low, "max": high}
        for name, (low, high, _) in file.bounds.items()
        if name in ("offset", TIME, "queue_offset")
    }
    return {"path": file.path, "partition": values, "row_count": file.row_count, "size": file.size, **bounds}
