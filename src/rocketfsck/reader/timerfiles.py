"""The files of the arbitrary-delay timers, and what their progress file says. Reference 1.8."""

from __future__ import annotations

from dataclasses import dataclass

from rocketfsck.errors import StoreError
from rocketfsck.formats.javatext import parse_int64
from rocketfsck.formats.timer import TIMER_CHECK
from rocketfsck.store.model import MappedFileQueue, OtherKind, Store, StoreFile
from rocketfsck.store.reading import read_at

WHEEL = "timerwheel"
SNAPSHOT = "timerwheel."


@dataclass(frozen=True, slots=True)
class TimerProgress:
    """What `config/timercheck` says: delivered up to `read_timestamp` (ms), log flushed up to `flush_pos`,
    the timer topic read up to `queue_offset`, by the master up to `master_queue_offset`."""

    read_timestamp: int
    flush_pos: int
    queue_offset: int
    master_queue_offset: int


def wheel_files(store: Store) -> list[StoreFile]:
    """The timer wheel and its snapshots."""
    return [file for other in store.others for file in other.files if is_wheel(file)]


def is_wheel(file: StoreFile) -> bool:
    """Whether a file is the timer wheel, or a snapshot of it."""
    name = file.relative
    return name == WHEEL or (name.startswith(SNAPSHOT) and snapshot_pos(file) is not None)


def snapshot_pos(file: StoreFile) -> int | None:
    """The position of the timer log that a snapshot of the wheel is named after; None for another name."""
    return parse_int64(file.relative.removeprefix(SNAPSHOT))


def timer_log(store: Store) -> MappedFileQueue | None:
    """The files of `timerlog/`; None where there are none."""
    return next(
        (other.mapped_files for other in store.others if other.kind is OtherKind.TIMER_LOG and other.files),
        None,
    )


def read_progress(store: Store) -> TimerProgress | None:
    """The fields of `config/timercheck`; None where it cannot be read."""
    file = progress_file(store)
    if file is None or file.size < TIMER_CHECK.size:
        return None
    try:
        return _progress(read_at(file.path, 0, TIMER_CHECK.size))
    except StoreError:
        return None  # the check of the config directory says so


def mapped_progress(store: Store) -> TimerProgress:
    """The fields as a start maps them: zeros for what a short or missing file lacks. Raises StoreError."""
    file = progress_file(store)
    if file is None:
        return _progress(bytes(TIMER_CHECK.size))
    data = read_at(file.path, 0, min(file.size, TIMER_CHECK.size))
    return _progress(data.ljust(TIMER_CHECK.size, b"\0"))


def progress_file(store: Store) -> StoreFile | None:
    """`config/timercheck`; None where there is none."""
    files = (file for other in store.others if other.kind is OtherKind.TIMER_CHECK for file in other.files)
    return next((file for file in files if not file.name.endswith(".bak")), None)


def _progress(data: bytes) -> TimerProgress:
    values = TIMER_CHECK.parse(data)
    return TimerProgress(
        values["lastReadTimeMs"],
        values["lastTimerLogFlushPos"],
        values["lastTimerQueueOffset"],
        values["masterTimerQueueOffset"],
    )
