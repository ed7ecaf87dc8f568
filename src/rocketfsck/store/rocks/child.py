"""Runs on its own: reads families of a database with rocksdict and writes their rows to standard output.

    python -P child.py DIRECTORY (strict | tolerant | estimate | mark) FAMILY...

    output := (type(u8) count(u32) keySize(u64) valueSize(u64) payload)*        little-endian
    type FAMILY: payload is keySize bytes of name; ROWS: `count` u32 lengths of keys, as many of values, then
    keys and values; ERROR: keySize bytes of text; END: no payload

RocksDB is C++ that hostile bytes can keep busy forever, or worse: this process limits its memory, and whoever
starts it waits no longer than is due. Nothing of rocketfsck is imported. `strict`: a WAL that ends in the
midst of a record is an error; `tolerant`: what is behind such a place is left out, as a broker does.
`estimate`: no rows; valueSize of a FAMILY is about how many it has. `mark`: of each family only the row MARK.
No FAMILY: all of them.
"""

from __future__ import annotations

import resource
import struct
import sys
from array import array
from typing import BinaryIO

FAMILY, ROWS, ERROR, END = 1, 2, 3, 4
HEAD = struct.Struct("<BIQQ")
MARK = b"lastOffsetPy"
"""The key of a row that brokers put into families of messages: how far they are."""
BATCH_ROWS = 8192
BATCH_BYTES = 1 << 20
OPEN_FILES = 200
MEMORY_LIMIT = 4 << 30
"""Address space of this process in bytes."""


def main(directory: str, mode: str, wanted: list[str], out: BinaryIO) -> None:
    """Write what was asked for; an error of RocksDB is the last thing written."""
    import rocksdict

    def options() -> rocksdict.Options:
        made = rocksdict.Options(raw_mode=True)
        made.set_max_open_files(OPEN_FILES)
        made.create_if_missing(False)
        if mode == "strict":
            made.set_wal_recovery_mode(rocksdict.DBRecoveryMode.absolute_consistency())
        else:
            made.set_wal_recovery_mode(rocksdict.DBRecoveryMode.point_in_time())
        return made

    try:
        families = rocksdict.Rdict.list_cf(directory, options())
        database = rocksdict.Rdict(
            directory,
            options=options(),
            column_families={name: options() for name in families},
            access_type=rocksdict.AccessType.read_only(),
        )
        for name in families:
            text = name.encode("utf-8", "surrogateescape")
            family = database.get_column_family(name)
            if mode == "estimate":
                number = family.property_int_value("rocksdb.estimate-num-keys") or 0
                out.write(HEAD.pack(FAMILY, 0, len(text), number) + text)
                continue
            out.write(HEAD.pack(FAMILY, 0, len(text), 0) + text)
            if mode == "mark":
                value = family.get(MARK)
                if value is not None:
                    _write([MARK], [value], out)
            elif not wanted or name in wanted:
                _rows(family, out)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception; the parent says what was wrong
        text = str(error).encode("utf-8", "replace")
        out.write(HEAD.pack(ERROR, 0, len(text), 0) + text)
    else:
        out.write(HEAD.pack(END, 0, 0, 0))
    out.flush()


def _rows(family: object, out: BinaryIO) -> None:
    rows = family.iter()  # type: ignore[attr-defined]
    rows.seek_to_first()
    valid, next_key, next_value, step = rows.valid, rows.key, rows.value, rows.next
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    while valid():
        key, value = next_key(), next_value()
        keys.append(key)
        values.append(value)
        size += len(key) + len(value)
        step()
        if len(keys) >= BATCH_ROWS or size >= BATCH_BYTES:
            _write(keys, values, out)
            keys, values, size = [], [], 0
    if keys:
        _write(keys, values, out)
    rows.status()


def _write(keys: list[bytes], values: list[bytes], out: BinaryIO) -> None:
    all_keys, all_values = b"".join(keys), b"".join(values)
    out.write(HEAD.pack(ROWS, len(keys), len(all_keys), len(all_values)))
    for texts in (keys, values):
        sizes = array("I", map(len, texts))
        if sys.byteorder == "big":
            sizes.byteswap()
        out.write(sizes.tobytes())
    out.write(all_keys)
    out.write(all_values)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(sys.argv[1], sys.argv[2], sys.argv[3:], sys.stdout.buffer)
