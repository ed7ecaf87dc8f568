"""`rocketfsck rebuild` as a job: consume queues and index files of a log that outgrows a machine.

    job       rebuild_on: the stages, and what the driver does between them
    segment   the first stage: a commit log file into scratch files
    index     index files as ranges of keys, consume queues by buckets
    places    where tasks write, and scratch files

No sort and no shuffle: what a task needs of others is in scratch files, in the order of the log.
"""

from __future__ import annotations

from rocketfsck.pipeline.rebuild.job import rebuild_on

__all__ = ["rebuild_on"]
