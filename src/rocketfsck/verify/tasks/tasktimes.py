"""The times of a check's tasks, by the files that they go through."""

from __future__ import annotations

from collections.abc import Sequence

from rocketfsck.engine.passes import Passes
from rocketfsck.verify.tasks.planning import Unit
from rocketfsck.verify.tasks.task import IndexFileTask, LogFileTask, QueuesTask

_NAMES = {LogFileTask: "commit log files", QueuesTask: "consume queues", IndexFileTask: "index files"}


class TaskTimes:
    """Adds up what the tasks take; `finish` makes a pass of each kind of task."""

    def __init__(self, units: Sequence[Unit], passes: Passes | None) -> None:
        self._units = units
        self._passes = passes
        self._seconds: dict[int, float] = {}

    def add(self, index: int, seconds: float) -> None:
        """The task of `units[index]` took this long."""
        self._seconds[index] = seconds

    def finish(self) -> None:
        """A pass for each kind of task that was run, each followed by its tasks where these are wanted."""
        if self._passes is None:
            return
        for kind, name in _NAMES.items():
            ran = [index for index in sorted(self._seconds) if isinstance(self._units[index].task, kind)]
            if not ran:
                continue
            size = sum(self._units[index].byte_count for index in ran)
            total = sum(self._seconds[index] for index in ran)
            self._passes.add(name, total, size, task_count=len(ran))
            for index in ran if self._passes.each_task else ():
                unit = self._units[index]
                self._passes.add(unit.key, self._seconds[index], unit.byte_count, detail=True)
