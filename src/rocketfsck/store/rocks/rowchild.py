"""Runs on its own: makes a database with rocksdict from what comes on standard input.

    python -P rowchild.py DIRECTORY FAMILY...    a directory that does not exist; the first family: default
    input := (family(u8) prefixSize(u32) tailSize(u32) valueSize(u32) count(u32) prefix (tail value)*)* END

Little-endian; a row's key is prefix and tail. `family` is the number of a FAMILY from 0 on, END for the end.
Says "ok" at the end, or what RocksDB says. Nothing of rocketfsck is imported. What the brokers' RocksDB (8.4)
must know of the tables is set: format version, checksums, no compression; all else is read from the files.
"""

from __future__ import annotations

import resource
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

END = 255
HEAD = struct.Struct("<BIIII")
OK = b"ok"
FORMAT_VERSION = 5
BATCH_ROWS = 4096
MEMORY_LIMIT = 4 << 30
NOT_OF_BROKERS = ("rocksdict-config.json", "LOG")
"""What rocksdict and RocksDB leave next to the database, and brokers elsewhere or not at all."""


def main(directory: str, names: Sequence[str], source: BinaryIO) -> None:
    """Write the rows; the database is whole and closed when this returns."""
    import rocksdict

    def options() -> rocksdict.Options:
        tables = rocksdict.BlockBasedOptions()
        tables.set_format_version(FORMAT_VERSION)
        tables.set_checksum_type(rocksdict.ChecksumType.crc32c())
        made = rocksdict.Options(raw_mode=True)
        made.set_block_based_table_factory(tables)
        made.set_compression_type(rocksdict.DBCompressionType.none())
        return made

    first = options()
    first.create_if_missing(True)
    first.create_missing_column_families(True)
    first.set_atomic_flush(True)
    others = {name: options() for name in names[1:]}
    database = rocksdict.Rdict(directory, options=first, column_families=others)
    families = [database.get_column_family(name) for name in names]
    handles = [database.get_column_family_handle(name) for name in names]
    unlogged = rocksdict.WriteOptions()
    unlogged.disable_wal = True
    batch, batched = rocksdict.WriteBatch(raw_mode=True), 0
    while (head := HEAD.unpack(_exactly(source, HEAD.size)))[0] != END:
        family, prefix_size, tail_size, value_size, count = head
        prefix = _exactly(source, prefix_size)
        rows = _exactly(source, count * (tail_size + value_size))
        for number in range(count):
            pos = number * (tail_size + value_size)
            middle = pos + tail_size
            batch.put(prefix + rows[pos:middle], rows[middle : middle + value_size], handles[family])
        batched += count
        if batched >= BATCH_ROWS:
            database.write(batch, unlogged)
            batch, batched = rocksdict.WriteBatch(raw_mode=True), 0
    database.write(batch, unlogged)
    for family in families:
        family.flush()
        family.close()
    database.close()
    for name in NOT_OF_BROKERS:
        Path(directory, name).unlink(missing_ok=True)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError("the rows ended in the middle of a row")
    return data


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        main(sys.argv[1], sys.argv[2:], sys.stdin.buffer)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception; the parent says what was wrong
        sys.stdout.write(str(error) or type(error).__name__)
    else:
        sys.stdout.buffer.write(OK)
