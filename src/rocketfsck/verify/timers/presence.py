"""Whether the files of the timers are all there. Reference 1.8.

config/timercheck: flushed up to p > 0   -> timerlog/ has files
timerlog/ has units                      -> a wheel, or a snapshot of it; config/timercheck
timerlog/: file of n bytes at p          -> the next one is at p + n
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rocketfsck.errors import StoreError
from rocketfsck.formats.filename import offset_to_filename
from rocketfsck.formats.timer import TIMER_LOG_UNIT_SIZE
from rocketfsck.reader.timerfiles import (
    WHEEL,
    progress_file,
    read_progress,
    timer_log,
    wheel_files,
)
from rocketfsck.reader.timers import is_unit, unit_at
from rocketfsck.reader.units import StreamReader
from rocketfsck.rulenames import RuleName
from rocketfsck.store.model import MappedFileQueue, Store
from rocketfsck.verify.finding import Finding, Where

TIMER_LOG = "timerlog"
TIMER_CHECK = "config/timercheck"
LOG_OUTCOME = "a broker never delivers the messages that wait in the timer wheel"
GAP_OUTCOME = "a broker never delivers the messages whose units were in the file"
WHEEL_OUTCOME = "a start fills an empty wheel from the last two files of the timer log only"
CHECK_OUTCOME = "a start reads the whole timer topic again and delivers its messages a second time"


def check_presence(store: Store) -> Iterator[Finding]:
    """Files that must be there and are not."""
    log, progress = timer_log(store), read_progress(store)
    if log is None or not log.files:
        if progress is not None and progress.flush_pos > 0:
            yield _missing(TIMER_LOG, LOG_OUTCOME)
        return
    for file, after in pairwise(log.files):
        expected = (file.start_offset or 0) + file.size
        if (after.start_offset or 0) > expected:
            yield _missing(f"{TIMER_LOG}/{offset_to_filename(expected)}", GAP_OUTCOME)
    if _has_units(log):
        if not wheel_files(store):
            yield _missing(WHEEL, WHEEL_OUTCOME)
        if progress_file(store) is None:
            yield _missing(TIMER_CHECK, CHECK_OUTCOME)


def _missing(file: str, outcome: str) -> Finding:
    return Finding(RuleName.TIMER_FILE_MISSING, Where(file=file), {"outcome": outcome})


def _has_units(log: MappedFileQueue) -> bool:
    """Whether one of the files begins with a unit."""
    starts = [file.start_offset or 0 for file in log.files if file.size >= TIMER_LOG_UNIT_SIZE]
    try:
        with StreamReader(log) as stream:
            return bool(is_unit(unit_at(stream, np.array(starts, np.int64))).any())
    except StoreError:
        return False  # the check of the log says so
