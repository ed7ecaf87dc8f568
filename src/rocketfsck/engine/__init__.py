"""The engine seam: one verb, `run(kernel, tasks)`, in process (`seam`) or on Spark (`spark`).

A kernel is a top-level function from a task (small, picklable: paths and ranges, never bytes) to an
result, small and picklable too: findings, counters, column summaries. A MappedFile is the
natural task, since a record never crosses one.
"""

from rocketfsck.engine.seam import Engine, LocalEngine, Outcome

__all__ = ["Engine", "LocalEngine", "Outcome"]
