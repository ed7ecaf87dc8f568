"""Columns as Arrow record batches; pyarrow is imported when asked for.

The numbers are copied out of the reused batches, so a record batch is the receiver's own. Of a record there
are the columns of the scan (`columns.RECORD_DTYPES`, some under other names) and those below; units and
entries have the fields of their layouts (reference 3.1, 3.7, 4.1) as `formats.layout` shows them.

Byte ranges of a buffer put side by side, hashed and looked through, and properties taken apart.

Both are done in two ways, since each is many times slower in the other's form: here with Python's own slices
and dictionaries, in `scan.compiled.gather` byte by byte. `formats.properties` says what both must give.
Reference 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rocketfsck.formats import consumequeue, dtypes, indexfile, javatext, magic, record
from rocketfsck.formats.columns import BORN_HOST_AT, SCANNED_NAMES, store_host_place
from rocketfsck.formats.layout import Layout, shown_name, shown_unit_name
from rocketfsck.scan.columns import RECORD_DTYPES, PropertyPairs, RecordBatch
from rocketfsck.scan.options import PropertyParser
from rocketfsck.scan.queues import QueueTable
from rocketfsck.store.model import QueueKind
from rocketfsck.store.reading import FileReader

if TYPE_CHECKING:
    import pyarrow as pa


Splitter = Callable[[dtypes.Bytes, dtypes.Words, PropertyParser], PropertyPairs]
"""What `split_pairs` and the compiled function of the same name are."""


def gather(
    buffer: dtypes.Bytes, starts: dtypes.Longs, sizes: dtypes.Longs, *, compiled: bool
) -> tuple[dtypes.Words, dtypes.Bytes]:
    """The ranges `buffer[start:start + size]` one after the other: offsets, one more than ranges, and bytes.

    Raises ValueError for a range outside of the buffer, or 2 GiB and more in all.
    """
    offsets = offsets_of(buffer, starts, sizes)
    out = np.empty(int(offsets[-1]), np.uint8)
    if compiled:
        from rocketfsck.scan.compiled import gather as compiled_gather

        compiled_gather.put_together(buffer, np.ascontiguousarray(starts, np.int64), offsets, out)
        return offsets, out
    given, taken = buffer.data, out.data  # quicker to index than arrays
    for start, (low, high) in zip(starts.tolist(), pairwise(offsets.tolist()), strict=True):
        taken[low:high] = given[start : start + high - low]
    return offsets, out


def offsets_of(buffer: dtypes.Bytes, starts: dtypes.Longs, sizes: dtypes.Longs) -> dtypes.Words:
    """Where each range begins when they are put side by side; checks them as `gather` says."""
    if len(starts) != len(sizes):
        raise ValueError(f"{len(starts)} starts, {len(sizes)} sizes")
    if len(starts) and (starts.min() < 0 or sizes.min() < 0 or (starts + sizes).max() > len(buffer)):
        raise ValueError(f"ranges outside a buffer of {len(buffer)} bytes")
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        raise ValueError(f"{offsets[-1]:,} bytes are too many for one column")
    return offsets.astype(np.int32)


def split_pairs(data: dtypes.Bytes, offsets: dtypes.Words, parser: PropertyParser) -> PropertyPairs:
    """Take properties apart: those of record r are `data[offsets[r]:offsets[r + 1]]`, valid UTF-8."""
    starts = [0]
    rows: list[tuple[int, int, int, int]] = []
    raw, bounds = data.tobytes(), offsets.tolist()
    for start, end in pairwise(bounds):
        found: dict[bytes, tuple[int, int, int, int]] = {}
        at = start
        for piece in raw[start:end].split(b"\x02"):
            pair = _pair(piece, parser)
            if pair is not None:
                mark, size = pair
                name = piece[:mark]
                name_start = found[name][0] if name in found else at
                found[name] = (name_start, mark, at + mark + 1, size)
            at += len(piece) + 1
        rows += found.values()
        starts.append(len(rows))
    columns = np.array(rows, np.int32).reshape(-1, 4).T
    return PropertyPairs(np.array(starts, np.int32), *(np.ascontiguousarray(column) for column in columns))


def _pair(piece: bytes, parser: PropertyParser) -> tuple[int, int] | None:
    """The sizes of a piece's name and value, None where the parser drops the piece."""
    mark = piece.find(b"\x01")
    if mark < 0:
        return None
    if parser == "scan":
        return (mark, len(piece) - mark - 1) if 0 < mark < len(piece) - 1 else None
    kept = piece.rstrip(b"\x01")
    return (mark, len(kept) - mark - 1) if kept.count(b"\x01") == 1 else None


def splitter(compiled: bool) -> Splitter:
    """`split_pairs`, compiled or plain."""
    if not compiled:
        return split_pairs
    from rocketfsck.scan.compiled import gather as compiled_gather

    return compiled_gather.split_pairs


def hash_texts(data: bytes, starts: dtypes.Longs, *, compiled: bool) -> dtypes.Longs:
    """A hash of 64 bits of each text `data[starts[i]:starts[i + 1]]`, by a secret of this process.

    Both forms have hashes of their own: what is compared is hashed in one. Raises ValueError for bounds that
    are not of the data.
    """
    if compiled:
        from rocketfsck.scan.compiled import gather as compiled_gather

        return compiled_gather.hash_texts(np.frombuffer(data, np.uint8), starts)
    bounds = starts.tolist()
    texts = map(data.__getitem__, map(slice, bounds, bounds[1:]))
    return np.fromiter(map(hash, texts), np.int64, max(len(bounds) - 1, 0))


def beyond_ascii(
    data: dtypes.Bytes, starts: dtypes.Longs, sizes: dtypes.Longs, *, compiled: bool
) -> dtypes.Flags:
    """Whether each range `data[start:start + size]` has a byte from 0x80 on.

    Raises ValueError for a range that is not of the data.
    """
    if compiled:
        from rocketfsck.scan.compiled import gather as compiled_gather

        return compiled_gather.beyond_ascii(data, starts, sizes)
    offsets_of(data, starts, sizes)
    before = np.zeros(len(data) + 1, np.int32)
    np.cumsum(data >= 0x80, out=before[1:])
    found: dtypes.Flags = before[starts + sizes] != before[starts]
    return found


@dataclass(frozen=True, slots=True)
class LogBatch:
    """A batch, what its numbers refer to, and the file that it was read from (for hosts of IPv6)."""

    batch: RecordBatch
    table: QueueTable
    base_offset: int
    relative: str
    reader: FileReader

    def file(self) -> pa.Array:
        """The file's path in the store."""
        name = self.relative.encode("utf-8", "replace").decode()
        return _dictionary(np.zeros(self.batch.record_count, np.int32), [name])

    def offset(self) -> pa.Array:
        """Where the record is in the commit log (not what its field says)."""
        return _array(self.batch["pos"] + np.int64(self.base_offset))

    def topic(self) -> pa.Array:
        """The topic as Java decodes it; null where the QueueTable was full."""
        rows, place = np.unique(self.batch["queue_index"], return_inverse=True)
        names = self.table.names
        texts = [javatext.java_decode(names[row][0]) if row >= 0 else None for row in rows.tolist()]
        known = dict.fromkeys(text for text in texts if text is not None)
        number = {text: at for at, text in enumerate(known)}
        codes = np.array([-1 if text is None else number[text] for text in texts], np.int32)
        return _dictionary(codes[place.reshape(-1)], list(number))

    def run(self) -> pa.Array:
        """The number of the unbroken run of records in the file."""
        return _array(np.full(self.batch.record_count, self.batch.run, np.int32))

    def key_hashes(self) -> pa.Array:
        """The keyHashes of the record's index entries, in their order."""
        import pyarrow as pa

        starts = np.append(self.batch["key_start"], self.batch.key_count).astype(np.int32)
        return pa.ListArray.from_arrays(starts, self.batch["key_hash"].copy())

    def born_address(self) -> pa.Array:
        """bornHost as text."""
        return self._hosts("born_host", magic.BORN_HOST_V6)

    def store_address(self) -> pa.Array:
        """storeHost as text."""
        return self._hosts("store_host", magic.STORE_HOST_V6)

    def _hosts(self, column: str, bit: int) -> pa.Array:
        """Few different ones, so each is made once, from its bytes on disk."""
        batch = self.batch
        is_v6 = (batch["sys_flag"] & bit) != 0
        texts: list[str] = []
        codes = np.zeros(batch.record_count, np.int32)
        for v6 in (False, True):
            rows = np.flatnonzero(is_v6 == v6)
            _, first, inverse = np.unique(batch[column][rows], return_index=True, return_inverse=True)
            codes[rows] = inverse.reshape(-1) + len(texts)
            for row in rows[first].tolist():
                sys_flag = int(batch["sys_flag"][row])
                at = BORN_HOST_AT if column == "born_host" else store_host_place(sys_flag)
                size = magic.IPV6_HOST_SIZE if v6 else magic.IPV4_HOST_SIZE
                data = self.reader.read(int(batch["pos"][row]) + at, size)
                texts.append(record.decode_host(data).text)
        return _dictionary(codes, texts)


FILE_COLUMNS: dict[str, Callable[[LogBatch], pa.Array]] = {
    "file": LogBatch.file,
    "offset": LogBatch.offset,
    "topic": LogBatch.topic,
}
"""Columns that a record has besides those of the scan, always given."""

FURTHER_COLUMNS: dict[str, Callable[[LogBatch], pa.Array]] = {
    "run": LogBatch.run,
    "key_hashes": LogBatch.key_hashes,
    "born_address": LogBatch.born_address,
    "store_address": LogBatch.store_address,
}
"""Columns that are given when they are asked for by name."""

_SHOWN_NAMES = {name: shown for shown, name in SCANNED_NAMES.items()}
SCAN_COLUMNS = tuple(_SHOWN_NAMES.get(name, name) for name in RECORD_DTYPES)
"""The columns of the scan, under the names that are shown."""

ALL_COLUMNS = (*FILE_COLUMNS, *SCAN_COLUMNS, *FURTHER_COLUMNS)
_MADE = FILE_COLUMNS | FURTHER_COLUMNS


def scanned_name(column: str) -> str:
    """The scan's name of a column that is shown under this one."""
    return SCANNED_NAMES.get(column, column)


def records_to_arrow(rows: LogBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Columns (of `ALL_COLUMNS`) of a batch's records as an Arrow record batch of its own memory.

    Raises StoreError when the file cannot be read (for hosts).
    """
    import pyarrow as pa

    def made(name: str) -> pa.Array:
        return _MADE[name](rows) if name in _MADE else _array(rows.batch[scanned_name(name)].copy())

    return pa.record_batch(list(map(made, columns)), names=list(columns))


def units_to_arrow(
    index: int, units: NDArray[Any], kinds: NDArray[np.int8], kind_names: Sequence[str], kind: QueueKind
) -> pa.RecordBatch:
    """A block of units, the first with number `index` in its queue, and what each one is.

    `kinds` are places in `kind_names`.
    """
    numbers = np.arange(index, index + len(units), dtype=np.int64)
    head = {"index": _array(numbers), "kind": _dictionary(kinds.astype(np.int32), list(kind_names))}
    layout = consumequeue.UNIT if kind == "file" else consumequeue.BATCH_UNIT
    return _of_layout(head, layout, units, shown_unit_name)


def entries_to_arrow(first: int, entries: NDArray[Any]) -> pa.RecordBatch:
    """A block of index entries, the first with number `first`."""
    numbers = np.arange(first, first + len(entries), dtype=np.int32)
    return _of_layout({"entry": _array(numbers)}, indexfile.ENTRY, entries)


def _of_layout(
    head: dict[str, pa.Array], layout: Layout, rows: NDArray[Any], shown: Callable[[str], str] = shown_name
) -> pa.RecordBatch:
    """`head` and the fields of a layout, native and under the names that are shown."""
    import pyarrow as pa

    arrays = head | {shown(name): _array(_native(rows[name])) for name in layout.dtype().names or ()}
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def _native(column: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(column.astype(column.dtype.newbyteorder("=")))


def _array(values: NDArray[Any]) -> pa.Array:
    import pyarrow as pa

    return pa.array(values)


def _dictionary(codes: NDArray[np.int32], values: list[str]) -> pa.Array:
    """Texts by their number; -1 is null."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(values, pa.string()))
