"""Properties that a kind of record must have, and where: of records whose columns do not tell.

    waiting record   in SCHEDULE_TOPIC_XXXX or the half topic; REAL_TOPIC and REAL_QID say where it goes then
    property CRC     the record's last 20 bytes, `__CRC32#` 0x01 digit*10 0x02

Bytes are read again for such records only, in pieces, and compared by NumPy. Reference 2.7, 2.10, 2.11, 9.2
M14, M17.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.arrays import Bytes, Flags, Longs
from rocketfsck.formats.properties import CRC32
from rocketfsck.scan.columns import Trait
from rocketfsck.scan.spans import group_bounds
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.emit import add_rows
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.rows import LogRows
from rocketfsck.verify.tasks.task import Collector

HALF_TOPIC = b"RMQ_SYS_TRANS_HALF_TOPIC"
TARGETS = (b"REAL_TOPIC", b"REAL_QID")
PIECE_SIZE = 1 << 20
CRC_TRAILER_SIZE = 20


_CRC_HEAD = np.frombuffer(CRC32.encode() + b"\x01", np.uint8)


def check_targets(rows: LogRows, reader: FileReader, collector: Collector) -> None:
    """Waiting records that do not say where they go: no broker can deliver them."""
    waiting = np.flatnonzero(_is_waiting(rows))
    if not len(waiting):
        return
    lacking = {name: waiting[~have_property(rows, waiting, name, reader)] for name in TARGETS}
    either = np.unique(np.concatenate(list(lacking.values())))

    def make(row: int) -> tuple[Where, Facts, Facts]:
        names = [name.decode() for name, found in lacking.items() if row in found]
        return rows.place(row), {"missing": " and ".join(names)}, {}

    add_rows(collector, RuleName.RECORD_WITHOUT_TARGET, rows.relative, either, make)


def misplaced_crcs(rows: LogRows, flagged: Flags, reader: FileReader) -> Flags:
    """Which of the flagged rows have their property CRC elsewhere than in their last 20 bytes."""
    misplaced = np.zeros(len(flagged), np.bool_)
    numbers = np.flatnonzero(flagged)
    start = (rows["pos"] + rows["total_size"])[numbers].astype(np.int64) - CRC_TRAILER_SIZE
    for low, high, data in _pieces(reader, start, np.full(len(start), CRC_TRAILER_SIZE, np.int64)):
        places = (start[low:high] - start[low])[:, None] + np.arange(len(_CRC_HEAD))
        misplaced[numbers[low:high]] = (data[places] != _CRC_HEAD).any(axis=1)
    return misplaced


def _is_waiting(rows: LogRows) -> Flags:
    found: Flags = (rows["traits"] & int(Trait.SCHEDULE_TOPIC)) != 0
    maybe = np.flatnonzero((rows["topic_size"] == len(HALF_TOPIC)) & (rows["queue_index"] >= 0))
    if len(maybe):
        queues = rows["queue_index"][maybe]
        is_half = np.zeros(int(queues.max()) + 1, np.bool_)
        for queue in np.flatnonzero(np.bincount(queues)).tolist():
            is_half[queue] = rows.table.names[queue][0] == HALF_TOPIC
        found[maybe] |= is_half[queues]
    return found


def have_property(rows: LogRows, numbers: Longs, name: bytes, reader: FileReader) -> Flags:
    """Which rows have a property of this name that is not empty."""
    start = rows["properties_pos"][numbers].astype(np.int64)
    size = np.maximum(rows["properties_size"][numbers].astype(np.int64), 0)
    have = np.zeros(len(numbers), np.bool_)
    wanted = np.frombuffer(name, np.uint8)
    for low, high, data in _pieces(reader, start, size):
        first = start[low:high] - start[low]
        last = first + size[low:high]
        begin = np.flatnonzero(data == 1) - len(name)
        begin = begin[begin >= 0]
        begin = begin[(data[begin[:, None] + np.arange(len(name))] == wanted).all(axis=1)]
        row = np.searchsorted(first, begin, "right") - 1
        begin, row = begin[row >= 0], row[row >= 0]
        value = begin + len(name) + 1
        inside = value < last[row]
        begin, row, value = begin[inside], row[inside], value[inside]
        sound = ((begin == first[row]) | (data[begin - 1] == 2)) & (data[value] != 2)
        have[low + row[sound]] = True
    return have


def _pieces(reader: FileReader, start: Longs, size: Longs) -> Iterator[tuple[int, int, Bytes]]:
    """The ranges (in order) in groups that are read at once: first, end, and the bytes from the first on."""
    if not len(start):
        return
    for low, high in pairwise(group_bounds((start - start[0]) // PIECE_SIZE).tolist()):
        begin, end = int(start[low]), int((start[low:high] + size[low:high]).max())
        yield low, high, np.frombuffer(reader.read(begin, end - begin), np.uint8)
