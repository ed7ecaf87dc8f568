"""What is inside bodies: compressed ones decompress, inner batches hold as many items as they say.

    sysFlag 0x1 compressed; 0x700 type: 0 and 3 zlib (RFC 1950), 1 LZ4 frame, 2 zstd frame (reference 2.3)
    inner batch := item*, item := totalSize:i32 ...                                         (reference 2.12)

zlib is always at hand; lz4 and zstandard where they are installed, else it is said that nothing was checked.
Nothing is kept of what comes out.

Times and hosts along a commit log file: what neighbours tell of each other.

    storeTimestamp    rises; a step back is a note
    bornTimestamp     a producer's clock, which may be a little ahead
    storeHost         changes where the master changed, or the store was moved

Times that no clock shows count as none: one damaged record must not date the whole file.
Reference 2.1, 9.2 M11.
"""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats import columns, dtypes, magic, record
from rocketfsck.scan.columns import Fault, Trait
from rocketfsck.scan.log.live import RECENT_COUNT, believable
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.finding import Facts, Where
from rocketfsck.verify.log.regions import LiveRows
from rocketfsck.verify.tasks.task import Collector, add_rows

BORN_TOLERANCE = 600_000
"""Milliseconds that a producer's clock may be ahead."""


@dataclass(slots=True)
class Clocks:
    """Times and hosts along a file: steps back, producers ahead, changes of the storeHost.

    `first`, `last`, `oldest` and `newest` are storeTimestamps (ms) that a clock can show; None without one.
    """

    first: int | None = None
    last: int | None = None
    oldest: int | None = None
    newest: int | None = None
    _before: int | None = None  # the time of the record in front of the next batch
    _tail: list[int] = field(default_factory=list)
    _back: tuple[Where, int, int] | None = None  # first place, largest step, count
    _ahead: tuple[Where, int, int] | None = None
    _host: tuple[int, str] | None = None
    _hosts: tuple[Where, str, str, int] | None = None

    def take(self, rows: LiveRows, reader: FileReader) -> None:
        """Go on by the rows of a batch (at least one)."""
        times = rows["store_timestamp"]
        before = np.empty(len(times), np.int64)
        before[1:] = times[:-1]
        before[0] = times[0] if self._before is None else self._before
        self._back = _worst(self._back, rows, before - times, 0)
        self._ahead = _worst(self._ahead, rows, rows["born_timestamp"] - times, BORN_TOLERANCE)
        self._before = int(times[-1])
        self._take_times(believable(times))
        self._tail = [*self._tail, *times[-RECENT_COUNT:].tolist()][-RECENT_COUNT:]
        self._take_hosts(rows, reader)

    @property
    def recent(self) -> int | None:
        """The median storeTimestamp of the last records; None before any."""
        return sorted(self._tail)[len(self._tail) // 2] if self._tail else None

    def _take_times(self, times: dtypes.Longs) -> None:
        if not len(times):
            return
        self.first = int(times[0]) if self.first is None else self.first
        self.last = int(times[-1])
        low, high = int(times.min()), int(times.max())
        self.oldest = low if self.oldest is None else min(self.oldest, low)
        self.newest = high if self.newest is None else max(self.newest, high)

    def _take_hosts(self, rows: LiveRows, reader: FileReader) -> None:
        host = rows["store_host"]
        changes = np.flatnonzero(host[1:] != host[:-1]) + 1
        if self._host is None:
            self._host = (int(host[0]), host_text(rows, reader, 0))
        elif int(host[0]) != self._host[0]:
            changes = np.concatenate(([0], changes))
        if not len(changes):
            return
        if self._hosts is None:
            row = int(changes[0])
            previous = self._host[1] if row == 0 else host_text(rows, reader, row - 1)
            self._hosts = (rows.place(row), previous, host_text(rows, reader, row), 0)
        where, previous, now, count = self._hosts
        self._hosts = (where, previous, now, count + len(changes))
        self._host = (int(host[-1]), host_text(rows, reader, len(host) - 1))

    def finish(self, collector: Collector) -> None:
        """Add what was found: one finding a rule."""
        if self._back is not None:
            where, step, count = self._back
            collector.find(
                RuleName.STORE_TIMESTAMP_BACK, where, {"largest_step_ms": step, "step_count": count}
            )
        if self._ahead is not None:
            where, step, count = self._ahead
            collector.find(RuleName.BORN_AFTER_STORE, where, {"ahead_ms": step, "record_count": count})
        if self._hosts is not None:
            where, previous, now, count = self._hosts
            found: Facts = {"previous_host": previous, "host": now, "change_count": count}
            collector.find(RuleName.STORE_HOST_CHANGE, where, found)


def _worst(
    known: tuple[Where, int, int] | None, rows: LiveRows, amounts: dtypes.Longs, limit: int
) -> tuple[Where, int, int] | None:
    found = np.flatnonzero(amounts > limit)
    if not len(found):
        return known
    largest = int(amounts[found].max())
    if known is None:
        return rows.place(int(found[0])), largest, len(found)
    return known[0], max(known[1], largest), known[2] + len(found)


def host_text(rows: LiveRows, reader: FileReader, row: int) -> str:
    """The storeHost of a record as `address:port`."""
    sys_flag = int(rows["sys_flag"][row])
    start = int(rows["pos"][row]) + columns.store_host_place(sys_flag)
    size = magic.IPV6_HOST_SIZE if sys_flag & magic.STORE_HOST_V6 else magic.IPV4_HOST_SIZE
    return record.decode_host(reader.read(start, size)).text


CHUNK_SIZE = 1 << 18
MAX_BODY_SIZE = 64 << 20
MAX_ITEM_COUNT = 1 << 15
MAX_OUTPUT_SIZE = 256 << 20
ZSTD_PIECE_SIZE = 512  # a 4-byte block can stand for 128 KiB, and this decoder has no limit of its own
TOO_MUCH = f"the body expands to more than {MAX_OUTPUT_SIZE >> 20} MiB"
CODECS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}

Decoder = Callable[[Iterator[bytes]], str | None]


class BodyCheck:
    """Decompresses what is compressed, and counts what could not be."""

    __slots__ = ("_collector", "_reader", "_skipped")

    def __init__(self, reader: FileReader, collector: Collector) -> None:
        self._reader = reader
        self._collector = collector
        self._skipped: dict[str, tuple[Where, int, str]] = {}

    def take(self, rows: LiveRows) -> None:
        """Check the bodies of a batch whose CRC is sound."""
        sound = (rows["faults"] & int(Fault.BODY_CRC)) == 0
        packed = ((rows["sys_flag"] & magic.COMPRESSED) != 0) & (rows["body_size"] > 0) & sound
        for row in np.flatnonzero(packed).tolist():
            self._body(rows, row)
        batches = ((rows["traits"] & int(Trait.INNER_BATCH)) != 0) & sound & ~packed
        batches &= (rows["faults"] & int(Fault.INNER_BATCH)) == 0
        wrong = [row for row in np.flatnonzero(batches).tolist() if not self._counts(rows, row)]
        found = {"reason": "the body does not hold INNER_NUM items"}
        rule, chosen = RuleName.RECORD_INNER_BATCH, np.array(wrong, np.int64)
        add_rows(self._collector, rule, rows.relative, chosen, rows.place, found, {})

    def finish(self) -> None:
        """Say which codecs were missing."""
        for codec, (where, count, reason) in sorted(self._skipped.items()):
            found: Facts = {"codec": codec, "reason": reason, "record_count": count}
            self._collector.find(RuleName.RECORD_BODY_NOT_DECOMPRESSED, where, found, count=count)

    def _body(self, rows: LiveRows, row: int) -> None:
        kind = (int(rows["sys_flag"][row]) & magic.COMPRESSION_TYPE_MASK) >> magic.COMPRESSION_TYPE_SHIFT
        codec = CODECS.get(kind)
        if codec is None:
            return  # CL007 says so
        decoder = _decoder(codec)
        size = int(rows["body_size"][row])
        if decoder is None or size > MAX_BODY_SIZE:
            reason = f"the module for {codec} is not installed" if decoder is None else "the body is too long"
            where, count, _ = self._skipped.get(codec, (rows.place(row), 0, reason))
            self._skipped[codec] = (where, count + 1, reason)
            return
        fault = decoder(self._chunks(int(rows["body_pos"][row]), size))
        if fault is not None:
            self._collector.find(
                RuleName.RECORD_COMPRESSED_BODY, rows.place(row), {"codec": codec, "reason": fault}
            )

    def _chunks(self, pos: int, size: int) -> Iterator[bytes]:
        for start in range(pos, pos + size, CHUNK_SIZE):
            yield self._reader.read(start, min(CHUNK_SIZE, pos + size - start))

    def _counts(self, rows: LiveRows, row: int) -> bool:
        """Whether an inner batch's items fill its body and are INNER_NUM."""
        size, number = max(int(rows["body_size"][row]), 0), int(rows["batch_size"][row])
        if size > MAX_BODY_SIZE or not 0 < number <= MAX_ITEM_COUNT:
            return number > 0
        body = self._reader.read(int(rows["body_pos"][row]), size)
        pos = count = 0
        while pos + 4 <= size and count <= number:
            item = int.from_bytes(body[pos : pos + 4], "big", signed=True)
            if item < 4:
                return False
            pos += item
            count += 1
        return pos == size and count == number


def _zlib(chunks: Iterator[bytes]) -> str | None:
    stream = zlib.decompressobj()
    out = 0
    try:
        for chunk in chunks:
            data = chunk
            while data and not stream.eof:
                out += len(stream.decompress(data, CHUNK_SIZE))
                data = stream.unconsumed_tail
                if out > MAX_OUTPUT_SIZE:
                    return TOO_MUCH
    except zlib.error as error:
        return str(error)
    return None if stream.eof else "the stream has no end"


def _lz4(chunks: Iterator[bytes]) -> str | None:
    from lz4.frame import LZ4FrameDecompressor

    stream = LZ4FrameDecompressor()
    out = 0
    try:
        for chunk in chunks:
            data = chunk
            while not stream.eof and (data or not stream.needs_input):
                out += len(stream.decompress(data, CHUNK_SIZE))
                data = b""
                if out > MAX_OUTPUT_SIZE:
                    return TOO_MUCH
    except (RuntimeError, ValueError, EOFError) as error:
        return str(error)
    return None if stream.eof else "the frame has no end"


def _zstd(chunks: Iterator[bytes]) -> str | None:
    from zstandard import ZstdDecompressor, ZstdError

    stream = ZstdDecompressor(max_window_size=1 << 27).decompressobj()
    out = 0
    try:
        for chunk in chunks:
            for start in range(0, len(chunk), ZSTD_PIECE_SIZE):
                if stream.eof:
                    break
                out += len(stream.decompress(chunk[start : start + ZSTD_PIECE_SIZE]))
                if out > MAX_OUTPUT_SIZE:
                    return TOO_MUCH
    except ZstdError as error:
        return str(error)
    return None if stream.eof else "the frame has no end"


def _decoder(codec: str) -> Decoder | None:
    if codec == "zlib":
        return _zlib
    name, decoder = {"lz4": ("lz4", _lz4), "zstd": ("zstandard", _zstd)}[codec]
    return decoder if importlib.util.find_spec(name) is not None else None
