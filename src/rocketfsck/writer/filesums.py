"""Sums over the files of a store: CRC-32 (as zlib's) and, where asked for, SHA-256.

Most of a store's bytes can be holes: 420 MB of an index file, 6 MB of every consume queue. A run of zeros is
taken into a CRC by a multiplication in GF(2)[x] modulo the polynomial, without reading it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocketfsck.common.documents import LEFT_OUT
from rocketfsck.progress import moved_to, part, phase
from rocketfsck.store.reading import FileReader

try:
    from isal.isal_zlib import crc32 as crc32  # zlib's numbers, quicker
except ImportError:
    from zlib import crc32 as crc32

_CHUNK_SIZE = 4 << 20

_POLYNOMIAL = 0xEDB88320
_ZEROS = bytes(1 << 16)


@dataclass(frozen=True, slots=True)
class FileSum:
    """One file below a root: its size in bytes, CRC-32 of all of it, SHA-256 in hex (None: not asked for)."""

    path: str
    size: int
    crc32: int
    sha256: str | None = field(default=None, metadata=LEFT_OUT)


def _times(left: int, right: int) -> int:
    """The product of two polynomials, bit-reflected (bit 31 is x**0), modulo the CRC's."""
    product = 0
    for bit in range(31, -1, -1):
        if left >> bit & 1:
            product ^= right
        right = right >> 1 ^ (_POLYNOMIAL if right & 1 else 0)
    return product


def _zero_powers() -> list[int]:
    """x**(8 * 2**k): what 2**k zero bytes multiply a CRC register by."""
    powers = [1 << 31 - 8]
    while len(powers) < 63:
        powers.append(_times(powers[-1], powers[-1]))
    return powers


_POWERS = _zero_powers()


def crc32_of_zeros(crc: int, count: int) -> int:
    """The CRC-32 of something with `crc` and `count` zero bytes after it."""
    register = crc ^ 0xFFFFFFFF
    bit = 0
    while count >> bit:
        if count >> bit & 1:
            register = _times(register, _POWERS[bit])
        bit += 1
    return register ^ 0xFFFFFFFF


def sum_files(
    root: Path, files: list[tuple[str, int]], known: Mapping[str, int], *, with_sha256: bool
) -> list[FileSum]:
    """The sums of these files (paths below `root`, sizes in bytes). StoreError if one cannot be read.

    Those whose CRC is `known` are read for a SHA-256 only.
    """
    buffer = memoryview(bytearray(_CHUNK_SIZE))
    sums = []
    with phase("summing up the files", sum(size for _, size in files)):
        for path, size in files:
            with part(size):
                if path in known and not with_sha256:
                    sums.append(FileSum(path, size, known[path]))
                else:
                    sums.append(_sum_file(root, path, buffer, with_sha256=with_sha256))
    return sums


def _sum_file(root: Path, path: str, buffer: memoryview, *, with_sha256: bool) -> FileSum:
    digest = hashlib.sha256() if with_sha256 else None
    value = done = 0
    with FileReader(root / path) as reader:
        for start, end in [*reader.data_extents(), (reader.size, reader.size)]:
            value = crc32_of_zeros(value, start - done)
            if digest is not None:
                _add_zeros(digest, start - done)
            for pos in range(start, end, _CHUNK_SIZE):
                chunk = buffer[: min(_CHUNK_SIZE, end - pos)]
                reader.read_into(chunk, pos)
                moved_to(pos)
                value = crc32(chunk, value)
                if digest is not None:
                    digest.update(chunk)
            done = end
        return FileSum(path, reader.size, value, None if digest is None else digest.hexdigest())


def _add_zeros(digest: hashlib._Hash, count: int) -> None:
    for pos in range(0, count, len(_ZEROS)):
        digest.update(_ZEROS[: count - pos])
