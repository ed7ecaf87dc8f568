"""Checks the files of the compacted logs, not their records: names, lengths, leftovers, positions. Ref. 1.9.

log file  <--same name-->  unit file         KV001, KV002
compacting/, replicating/                    KV010
position-checkpoint, else its .bak           KV009
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.common.rulenames import RuleName
from rocketfsck.errors import FormatError, StoreError
from rocketfsck.reader.compaction import CompactedQueue, read_positions
from rocketfsck.store.model import OtherKind, Store, StoreFile
from rocketfsck.verify.finding import Facts, Finding, Where
from rocketfsck.verify.report import NotChecked


def check_positions(store: Store, positions: dict[str, int]) -> Iterator[Finding | NotChecked]:
    """`position-checkpoint`, else its .bak, whose content goes to `positions`."""
    files = {
        file.name: file
        for other in store.others
        if other.kind is OtherKind.COMPACTION_CHECKPOINT
        for file in other.files
    }
    file, backup = files.get("position-checkpoint"), files.get("position-checkpoint.bak")
    for which in (file, backup):
        if which is None:
            continue
        try:
            positions.update(read_positions(which))
        except FormatError as error:
            found: Facts = {"queue": "any queue", "reason": str(error), "offset": "nothing"}
            yield Finding(RuleName.COMPACTION_POSITION, Where(file=which.relative, start=error.offset), found)
        except StoreError as error:
            yield NotChecked(which.relative, str(error), operational=True)
        else:
            return


def check_files(queue: CompactedQueue) -> Iterator[Finding]:
    """A log file without its unit file or the reverse, lengths, and what broken work left behind."""
    for side, one, other in (("unit", queue.log, queue.units), ("log", queue.units, queue.log)):
        names = {file.name for file in other.files}
        for file in one.files:
            if file.name not in names:
                yield Finding(
                    RuleName.COMPACTION_FILE_ALONE, place_of(queue, file), {"missing": f"{side} file"}
                )
            if file.size != one.file_size:
                size: Facts = {"size": file.size}
                yield Finding(
                    RuleName.COMPACTION_FILE_LENGTH, place_of(queue, file), size, {"size": one.file_size}
                )
    for left in queue.leftovers:
        where = Where(file=left.relative, topic=queue.topic, queue_id=queue.queue_id)
        yield Finding(RuleName.COMPACTION_LEFTOVER, where, {"size": left.size})


def place_of(
    queue: CompactedQueue,
    file: StoreFile,
    start: int | None = None,
    end: int | None = None,
    queue_offset: int | None = None,
) -> Where:
    """Where something in a file of a compacted queue is: positions in the file, and the queue offset."""
    return Where(
        file=file.relative,
        start=start,
        end=end,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=queue_offset,
    )
