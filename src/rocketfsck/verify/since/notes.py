"""Notes on how the keys of an index file spread (`verify.index.spread`): kept while nothing changes them.

A note rests on a sample of the file's entries and on the records that some of them lead to. So it holds while
the file has the same entries in use, and the commit log is what it was from the first of them to the last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rocketfsck.errors import StoreError
from rocketfsck.verify.index.file import IndexResult
from rocketfsck.verify.index.places import IndexExtent
from rocketfsck.verify.index.spread import spread_notes
from rocketfsck.verify.since.proving import Due, Proven
from rocketfsck.verify.tasks.planning import Unit
from rocketfsck.verify.tasks.task import Context, IndexFileTask, TaskResult


def add_notes(
    context: Context,
    units: Iterable[Unit],
    results: dict[str, TaskResult | None],
    proven: Proven,
    due: Due,
) -> None:
    """Put the notes on each index file into the extent that was found of it: those of the state, or new ones.

    A file that cannot be read has none; who wants its notes tries again.
    """
    for unit in units:
        result = results[unit.key]
        if not isinstance(unit.task, IndexFileTask) or not isinstance(result, IndexResult):
            continue
        if result.summary is None:
            continue
        file, state = context.store.indexes[unit.task.index], proven.indexes.get(unit.task.index)
        extent = result.summary
        if state is not None and state.extent == extent and _holds(proven, due, file.relative, extent):
            notes = state.extent.notes
        else:
            try:
                notes = spread_notes(context, file, extent)
            except StoreError:
                notes = None
        results[unit.key] = replace(result, summary=replace(extent, notes=notes))


def _holds(proven: Proven, due: Due, name: str, extent: IndexExtent) -> bool:
    """Whether an index file and the records that its entries lead to are what they were."""
    if name in due.indexes:
        return False
    for place, file in enumerate(proven.store.commitlog.files):
        start = file.start_offset or 0
        if start > extent.last_offset or start + file.size <= extent.first_offset:
            continue
        state = proven.logs.get(place)
        if state is None or state.proof.file in due.logs:
            return False
        if start + state.proof.end <= min(extent.last_offset, start + file.size - 1):
            return False
    return True
