"""What a simulated start leaves, put together: files that come and go, queues with their bounds.

For `simulate`, which holds the models that these are read from. Reference 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocketfsck.formats.javatext import java_decode
from rocketfsck.query.start.dispatch import QueueName
from rocketfsck.query.start.load import Loading, OpenFile
from rocketfsck.query.start.losses import Census
from rocketfsck.query.start.model import FileChange, QueueStart
from rocketfsck.query.start.queues import QueueModel
from rocketfsck.query.start.rows import RowsModel


def file_changes(
    loading: Loading,
    log_files: Sequence[OpenFile],
    kept_files: Sequence[OpenFile],
    cut_offset: int | None,
    queues: Mapping[QueueName, QueueModel],
    *,
    destroyed: bool,
) -> list[FileChange]:
    """Files of log and queues that the start deletes, creates or resizes.

    `log_files` are those that were loaded, `kept_files` those that the cut leaves. `destroyed` says that the
    queues go because the log has no files.
    """
    changes = list(loading.deleted) if not loading.refusals else []
    kept = {file.relative for file in kept_files}
    why = f"it begins behind the cut at {cut_offset}"
    changes += [
        FileChange(file.relative, "deleted", file.size, why)
        for file in log_files
        if file.relative not in kept
    ]
    why = "its units are behind the last valid one, or behind the cut"
    if destroyed:
        why = "the commit log has no files"
    hidden = {ignored.file for ignored in loading.ignored}
    for queue in queues.values():
        if isinstance(queue, RowsModel):
            continue
        size = queue.loaded.file_size
        now = [file.relative for file in queue.files]
        gone = [name for name in queue.original_files if name not in set(now)]
        fresh = [name for name in now if name not in set(queue.original_files)]
        changes += [FileChange(name, "deleted", size, why) for name in gone]
        changes += [
            FileChange(name, "resized" if name in hidden else "created", size, "units are appended")
            for name in fresh
        ]
    return changes


def queue_starts(queues: Mapping[QueueName, QueueModel], census: Census) -> list[QueueStart]:
    """Every queue that the broker has, and those that records name and it has not, by topic and queueId."""
    told = census.queues().items()
    seen = {(java_decode(topic), queue_id): counts for (topic, queue_id), counts in told}
    names = sorted({*queues, *(name for name, counts in seen.items() if any(counts))})
    starts = []
    for name in names:
        next_offset, missed = seen.get(name, (0, 0))
        queue = queues.get(name)
        if queue is None:
            starts.append(QueueStart(*name, "file", 0, 0, 0, 0, 0, 0, 0, max(next_offset, 0), missed))
            continue
        starts.append(
            QueueStart(
                *name,
                queue.loaded.kind,
                queue.min_offset,
                queue.max_offset,
                queue.found_count,
                queue.cut_count,
                queue.hidden_count,
                queue.added_count,
                queue.shifted_count,
                max(next_offset - queue.max_offset, 0),
                missed,
                queue.phantom_count if queue.files else 0,
            )
        )
    return starts
