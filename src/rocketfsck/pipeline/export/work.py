"""Rows into Parquet files by the workers of a cluster: each task has Arrow write one part (`local`).

    a task a part  ->  files with names of their own, and what they are called  ->  others are deleted

A task that dies, is made again or runs twice leaves files that no answer names: these are deleted before the
others become a table, and no commit of a table names them.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from rocketfsck.engine import Engine, LocalEngine
from rocketfsck.engine.seam import Dead, surviving
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.files import Place
from rocketfsck.pipeline.export.local import Written, write_here
from rocketfsck.pipeline.export.model import MANIFEST, DamageCount, ExportOptions
from rocketfsck.pipeline.export.rows import ExportRows
from rocketfsck.pipeline.views.model import Part
from rocketfsck.progress import phase


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part, and where its rows go."""

    rows: ExportRows
    part: Part
    place: Place
    options: ExportOptions


def write_part(task: PartTask) -> Written | StoreError:
    """The kernel: the files of one part."""
    try:
        return write_here(task.rows, (task.part,), task.place, task.options, LocalEngine(1))
    except StoreError as error:
        return error


def write_by_workers(
    engine: Engine,
    rows: ExportRows,
    parts: Sequence[Part],
    place: Place,
    options: ExportOptions,
    kept: Set[str],
) -> DamageCount:
    """Have workers write the rows of the parts below `place`, where files with the names `kept` stay.

    Gives what is damaged. Raises StoreError, with the file that no worker survives.
    """
    tasks = [PartTask(rows, part, place, options) for part in parts]
    damage, names = DamageCount(), set[str]()
    with phase("exporting", sum(part.size for part in parts)) as at:
        done = 0
        for task, found, _ in surviving(engine, write_part, tasks):
            if isinstance(found, StoreError):
                raise found
            if isinstance(found, Dead):
                path = f"{task.part.source.path}/{task.part.file}".rstrip("/")
                raise StoreError(f"cannot be read by any worker: {found.error}", path=path)
            damage += found.damage
            names.update(found.names)
            done += task.part.size
            at.at(done)
    place.clear({*kept, *names, MANIFEST})
    return damage
