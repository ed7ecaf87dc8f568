"""How far each broker's log is in a table: what a run that appends starts from.

    mark := epoch, offset and size of the last record read, 63 bits of the SHA-256 of its bytes

A broker never changes a record of its commit log, and never reuses an offset, but where the log was cut: then
another record, or none, is at that offset, or another epoch of the controller holds it. So a log whose record
and epoch agree with the mark continues what the table has; everything after the record is new.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from rocketfsck.engine import Engine
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.export.model import DeletedRange, ExportOptions, Mark
from rocketfsck.pipeline.sources import StoreSource, open_source
from rocketfsck.pipeline.views.messages import MESSAGES
from rocketfsck.pipeline.views.model import CONDITIONS
from rocketfsck.reader.configs import read_epochs
from rocketfsck.store.areas import demand_listed
from rocketfsck.store.model import Store, files_at
from rocketfsck.store.reading import read_at

NO_EPOCH = 0
UNKNOWN_EPOCH = -1
"""The epoch file could not be read when the mark was made."""


def selection_digest(options: ExportOptions) -> int:
    """63 bits for what is selected: a table is appended to by the selection that it was made with."""
    wanted = options.wanted
    chosen = {name: getattr(wanted, name) for name in sorted(CONDITIONS)}
    return _digest(json.dumps([chosen, wanted.mode, wanted.live_only]).encode())


@dataclass(frozen=True, slots=True)
class MarkTask:
    """The last message of a store that is in the files of a run: its place in the commit log."""

    source: StoreSource
    offset: int


def marks_of(sources: Sequence[StoreSource], last: Mapping[str, int], engine: Engine) -> dict[str, Mark]:
    """The marks of the brokers with a `last` message. Raises StoreError where one cannot be read."""
    read = [MarkTask(source, last[source.broker]) for source in sources if source.broker in last]
    marks: dict[str, Mark] = {}
    for outcome in engine.run(mark_one, read):
        if isinstance(outcome.result, StoreError):
            raise outcome.result
        if outcome.result is not None:
            marks[outcome.task.source.broker] = outcome.result
    return marks


def mark_one(task: MarkTask) -> Mark | StoreError:
    """The kernel: the mark of one store, or the reason why its last record cannot be read."""
    try:
        store = open_source(task.source)
        try:
            epoch = _epoch_of(store, task.offset)
        except StoreError:
            epoch = UNKNOWN_EPOCH
        size = int.from_bytes(_bytes_at(store, task.offset, 4))
        return Mark(epoch, task.offset, size, _record_digest(store, task.offset, size))
    except StoreError as error:
        return error


def continuation(source: StoreSource, mark: Mark) -> tuple[int, DeletedRange | None]:
    """Where to continue in a log that has a mark, and what was deleted since.

    Raises StoreError, also for a log that does not continue what the mark says.
    """
    store = open_source(source)
    demand_listed(store, MESSAGES.areas)  # a log that cannot be listed looks cut
    _demand_same(store, source, mark)
    start = store.commitlog.start_offset or 0
    return mark.end, DeletedRange(source.broker, mark.end, start) if start > mark.end else None


def newly_listed(sources: Sequence[StoreSource]) -> tuple[StoreSource, ...]:
    """The sources with one new look at each store for all that a run does."""
    now = time.time_ns()
    return tuple(source if source.listed else replace(source, listed=now) for source in sources)


def _demand_same(store: Store, source: StoreSource, mark: Mark) -> None:
    where = f"the table ends at the record at offset {mark.offset} (epoch {mark.epoch}) of {source.broker}"
    start, end = store.commitlog.start_offset, store.commitlog.end_offset
    if start is None or end is None or end < mark.end:
        reached = "is empty" if end is None else f"ends at offset {end}"
        raise _cut(source, f"{where}, but the commit log {reached}")
    epoch = _epoch_of(store, mark.offset)
    if epoch != mark.epoch:
        raise _cut(source, f"{where}, but now this offset has the epoch {epoch}")
    if start > mark.offset:
        return  # the broker deleted the record: nothing is left to compare
    if _record_digest(store, mark.offset, mark.size) != mark.digest:
        raise _cut(source, f"{where}, but now other bytes are there")


def _cut(source: StoreSource, reason: str) -> StoreError:
    return StoreError(
        f"{reason}: the log was cut or replaced, so nothing of it was appended; export it to a new table",
        path=source.path,
    )


def _epoch_of(store: Store, offset: int) -> int:
    """The epoch that an offset belongs to; 0 without an epoch file, or before its first epoch."""
    begun = (entry.epoch for entry in read_epochs(store) if entry.start_offset <= offset)
    return max(begun, default=NO_EPOCH)


def _record_digest(store: Store, offset: int, size: int) -> int:
    return _digest(_bytes_at(store, offset, size))


def _bytes_at(store: Store, offset: int, size: int) -> bytes:
    file = next(iter(files_at(store.commitlog.files, offset)), None)
    base = file.start_offset or 0 if file is not None else 0
    if file is None or offset - base + size > file.size:
        raise StoreError(f"the commit log has no bytes at offset {offset}", path=str(store.root))
    return read_at(file.location, offset - base, size)


def _digest(data: bytes) -> int:
    """As many bits of the SHA-256 as a version in Delta's log has."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8]) >> 1


def marks_to_json(marks: Mapping[str, Mark]) -> str:
    """Marks by broker as JSON."""
    return json.dumps({broker: asdict(mark) for broker, mark in sorted(marks.items())})


def marks_from_json(text: str) -> dict[str, Mark]:
    """The marks in JSON; raises ValueError for anything else."""
    try:
        read = {broker: Mark(**facts) for broker, facts in json.loads(text).items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error
    for mark in read.values():
        values = (mark.epoch, mark.offset, mark.size, mark.digest)
        if not all(type(value) is int for value in values) or mark.offset < 0 or mark.size < 0:
            raise ValueError(f"{mark} is not a mark")
    return read
