"""The engine seam: one verb, `run(kernel, tasks)`, in process (`seam`) or on Spark (`spark`).

A kernel is a top-level function from a task (small, picklable: paths and ranges, never bytes) to an
result, small and picklable too: findings, counters, column summaries. A MappedFile is the
natural task, since a record never crosses one.

Names are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketfsck.common.late import late_names

if TYPE_CHECKING:
    from rocketfsck.engine.seam import Engine as Engine
    from rocketfsck.engine.seam import LocalEngine as LocalEngine
    from rocketfsck.engine.seam import Outcome as Outcome

__getattr__ = late_names(__name__, {"seam": "Engine LocalEngine Outcome"})
