"""Index entries for tags: which records have theirs, and what it means where some have none.

Brokers from 5.4.0 on put one more entry for a record with tags. A store that was upgraded has records
without: all before the first one with its entry, or many in a row where an older broker ran in
between. A few records without, among others that have theirs, have lost them. Reference 4.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Flags, Longs
from rocketfsck.verify.finding import Finding, Where
from rocketfsck.verify.tasks.task import Context, TaskResult

LEAST_RECORDS = 8
"""So many neighbours without the entry are an older broker's work; fewer have lost it."""
MAX_RUNS = 1 << 16
MET, FIRST, LAST, COUNT = range(4)
WIDTH = 4


class TagRuns:
    """Takes the records with tags of one commit log file, batch by batch, and keeps them as runs.

    A row of the table: 1 if the records have their entry, physical offset of the first and the last record,
    how many they are. Once there are too many runs the last one continues whatever follows: hostile files
    only.
    """

    def __init__(self) -> None:
        self._rows: list[list[int]] = []

    def add(self, physical: Longs, met: Flags) -> None:
        """Take records at these physical offsets, in order; `met` says which of them have their entry."""
        if not len(physical):
            return
        edges = np.flatnonzero(np.diff(met.view(np.int8))) + 1
        bounds = [0, *edges.tolist(), len(met)]
        for low, high in pairwise(bounds):
            row = [int(met[low]), int(physical[low]), int(physical[high - 1]), high - low]
            last = self._rows[-1] if self._rows else None
            if last is not None and (last[MET] == row[MET] or len(self._rows) >= MAX_RUNS):
                last[LAST], last[COUNT] = row[LAST], last[COUNT] + row[COUNT]
            else:
                self._rows.append(row)

    def table(self) -> Longs:
        """The runs, one row each."""
        return np.array(self._rows, np.int64).reshape(-1, WIDTH)


@dataclass(slots=True)
class _TagRun:
    file: str
    pos: int
    met: bool
    first: int
    last: int
    count: int


def judge_tags(context: Context, logs: Sequence[TaskResult | None]) -> Iterator[Finding]:
    """What the runs of all commit log files, in store order, say together."""
    store = context.store
    if not store.indexes:
        return  # then no record has an entry
    runs: list[_TagRun] = []
    for file, log in zip(store.commitlog.files, logs, strict=True):
        if log is None:
            continue
        base = log.summary.start_offset
        for met, first, last, count in log.summary.entries.tags.tolist():
            if runs and runs[-1].met == bool(met):
                runs[-1].last, runs[-1].count = last, runs[-1].count + count
            else:
                runs.append(_TagRun(file.relative, first - base, bool(met), first, last, count))
    began = next((number for number, run in enumerate(runs) if run.met), len(runs))
    older = [
        run
        for number, run in enumerate(runs)
        if not run.met and (number < began or run.count >= LEAST_RECORDS)
    ]
    if older:
        found = {
            "record_count": sum(run.count for run in older),
            "first_physical_offset": older[0].first,
            "last_physical_offset": older[-1].last,
        }
        yield Finding(RuleName.TAGS_OF_OLDER_BROKER, Where(file="index"), found)
    for run in runs[began:]:
        if not run.met and run.count < LEAST_RECORDS:
            place = Where(file=run.file, start=run.pos, physical_offset=run.first)
            facts = {"record_count": run.count, "last_physical_offset": run.last}
            yield Finding(RuleName.TAGS_UNINDEXED, place, facts, count=run.count)
