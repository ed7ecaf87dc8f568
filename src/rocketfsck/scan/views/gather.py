"""Byte ranges of a buffer put side by side, hashed and looked through, and properties taken apart.

Both are done in two ways, since each is many times slower in the other's form: here with Python's own slices
and dictionaries, in `scan.compiled.gather` byte by byte. `formats.properties` says what both must give.
Reference 2.5.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np

from rocketfsck.formats.dtypes import Bytes, Flags, Longs, Words
from rocketfsck.scan.columns import PropertyPairs
from rocketfsck.scan.options import PropertyParser


class Splitter(Protocol):
    """What `split_pairs` and the compiled function of the same name are."""

    def __call__(self, data: Bytes, offsets: Words, parser: PropertyParser) -> PropertyPairs: ...


def gather(buffer: Bytes, starts: Longs, sizes: Longs, *, compiled: bool) -> tuple[Words, Bytes]:
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


def offsets_of(buffer: Bytes, starts: Longs, sizes: Longs) -> Words:
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


def split_pairs(data: Bytes, offsets: Words, parser: PropertyParser) -> PropertyPairs:
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


def hash_texts(data: bytes, starts: Longs, *, compiled: bool) -> Longs:
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


def beyond_ascii(data: Bytes, starts: Longs, sizes: Longs, *, compiled: bool) -> Flags:
    """Whether each range `data[start:start + size]` has a byte from 0x80 on.

    Raises ValueError for a range that is not of the data.
    """
    if compiled:
        from rocketfsck.scan.compiled import gather as compiled_gather

        return compiled_gather.beyond_ascii(data, starts, sizes)
    offsets_of(data, starts, sizes)
    before = np.zeros(len(data) + 1, np.int32)
    np.cumsum(data >= 0x80, out=before[1:])
    found: Flags = before[starts + sizes] != before[starts]
    return found
