"""Where the live records of a commit log file end, by the check's own judgement (reference 6.6)."""

from __future__ import annotations

import time

from rocketfsck.store.model import Store
from rocketfsck.verify.logfile import check_log_file
from rocketfsck.verify.task import Context, LogFileTask


def live_end_offset(store: Store, index: int) -> int:
    """The physical offset behind the last live record of `store.commitlog.files[index]`.

    The file's own start where it has none. Raises StoreError when the file cannot be read.
    """
    context = Context(store, "cross", int(time.time() * 1000))
    summary = check_log_file(LogFileTask(context, index)).summary
    return int(summary.start_offset + summary.live_end)
