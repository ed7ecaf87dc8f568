"""The engine seam: one verb, `run(kernel, tasks)`, in process or (later) on Spark.

A kernel is a top-level function from a task (small, picklable: paths and ranges, never bytes) to an
iterable of results, each small and picklable too: findings, counters, column summaries. A MappedFile is the
natural task, since a record never crosses one.
"""

from rocketfsck.engine.local import LocalEngine, Outcome, core_count

__all__ = ["LocalEngine", "Outcome", "core_count"]
