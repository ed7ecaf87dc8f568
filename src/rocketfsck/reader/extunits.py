"""Units of consume queue extensions, one after another.

    ext file := unit* [ff ff]       unit := size:i16 tagsCode:i64 msgStoreTime:i64 bitMapSize:i16 filterBitMap

Reference 3.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from rocketfsck.formats.consumequeue import EXT_UNIT, EXT_UNIT_MIN_SIZE
from rocketfsck.store.model import ExtQueue
from rocketfsck.store.reading import FileReader

_CHUNK_SIZE = 1 << 16
_HEAD = EXT_UNIT.packer(last="size")


def unit_sizes(data: bytes) -> Iterator[int]:
    """The lengths in bytes of the units from the beginning of `data` on, up to the first that is not one."""
    pos = 0
    while pos + EXT_UNIT_MIN_SIZE <= len(data):
        (size,) = _HEAD.unpack_from(data, pos)
        if size < EXT_UNIT_MIN_SIZE or pos + size > len(data):
            return
        yield size
        pos += size


def count_bit_maps(ext: ExtQueue) -> int:
    """How many units of an extension have a filter bit map. Raises StoreError for a file that fails."""
    count = 0
    for file in ext.files:
        with FileReader(file.path) as reader:
            pos = 0
            while data := reader.read(pos, min(_CHUNK_SIZE, reader.size - pos)):
                sizes = list(unit_sizes(data))
                count += sum(size > EXT_UNIT_MIN_SIZE for size in sizes)
                pos += sum(sizes)
                if not sizes:
                    break
    return count
