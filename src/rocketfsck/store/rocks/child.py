"""Runs on its own: reads families of a database with rocksdict and writes their rows to standard output.

    python -P child.py DIRECTORY (strict | tolerant | estimate | mark) POS TEXTS FAMILY...

    output := (type(u8) count(u32) keySize(u64) valueSize(u64) payload)*        little-endian
    type FAMILY: payload is keySize bytes of name; ROWS: `count` u32 lengths of keys, as many of values, then
    keys and values; ERROR: keySize bytes of text; END: no payload

RocksDB is C++ that hostile bytes can keep busy forever, or worse: this process limits its memory, and whoever
starts it waits no longer than is due. Nothing of rocketfsck is imported. `strict`: a WAL that ends in the
midst of a record is an error; `tolerant`: what is behind such a place is left out, as a broker does.
`estimate`: no rows; valueSize of a FAMILY is about how many it has. `mark`: of each family only the row MARK.
TEXTS: only rows whose key has one of these texts (hexadecimal, with commas) at POS; "" for all rows.
No FAMILY: all of them.

Python handles PART_ROWS rows at a time, few enough for the processor's cache, and no row by itself.
"""

from __future__ import annotations

import gc
import resource
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

FAMILY, ROWS, ERROR, END = 1, 2, 3, 4
HEAD = struct.Struct("<BIQQ")
MARK = b"lastOffsetPy"
"""The key of a row that brokers put into families of messages: how far they are."""
PART_ROWS = 256
BATCH_BYTES = 1 << 19
OPEN_FILES = 200
MEMORY_LIMIT = 4 << 30
"""Address space of this process in bytes."""

_Part = tuple[bytes, bytes, bytes, bytes]
"""Some rows: the lengths of keys and of values, the keys and the values."""


def main(
    directory: str, mode: str, wanted: Sequence[str], out: BinaryIO, pos: int = 0, texts: Sequence[bytes] = ()
) -> None:
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
                    _write(list(_parts([(MARK, value)])), out)
            elif not wanted or name in wanted:
                if texts:
                    _rows_with(family, pos, sorted(texts), out)
                else:
                    _rows(family, b"", None, out)
    except BaseException as error:  # noqa: BLE001 - Rust's panics are no Exception; the parent says what was wrong
        text = str(error).encode("utf-8", "replace")
        out.write(HEAD.pack(ERROR, 0, len(text), 0) + text)
    else:
        out.write(HEAD.pack(END, 0, 0, 0))
    out.flush()


def _rows_with(family: Any, pos: int, texts: Sequence[bytes], out: BinaryIO) -> None:
    """The rows whose key has one of the texts at `pos`: for each of the heads that keys have before it, those
    are a range."""
    heads = family.iter()
    low: bytes | None = b""
    while low is not None:
        heads.seek(low)
        if not heads.valid():
            heads.status()
            return
        head = heads.key()[:pos]
        if len(head) < pos:
            low = head + b"\0"
            continue
        for text in texts:
            _rows(family, head + text, _after(head + text), out)
        low = _after(head)


def _after(prefix: bytes) -> bytes | None:
    """The first key after all that begin with these bytes; None where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _rows(family: Any, low: bytes, high: bytes | None, out: BinaryIO) -> None:
    """The rows from the key `low` on, those from `high` on left out. Raises what RocksDB says where it cannot
    go on."""
    import rocksdict

    options = rocksdict.ReadOptions()
    if high is not None:
        options.set_iterate_upper_bound(high)
    items = family.items(from_key=low, read_opt=options)
    parts: list[_Part] = []
    size, last = 0, None
    while rows := list(islice(items, PART_ROWS)):
        last = rows[-1][0]
        for part in _parts(rows):
            parts.append(part)
            size += sum(map(len, part))
            if size >= BATCH_BYTES:
                _write(parts, out)
                parts, size = [], 0
    if parts:
        _write(parts, out)
    end = family.iter(options)  # items end after the last row as they do before one that is damaged
    end.seek(low if last is None else last)
    if last is not None:
        end.next()
    if end.valid():
        raise OSError("RocksDB gave fewer rows than it has")
    end.status()


def _parts(rows: Sequence[tuple[bytes, bytes]]) -> Iterator[_Part]:
    """Some rows as one part; each as one where they are long."""
    columns = tuple(zip(*rows, strict=True))
    texts = [b"".join(column) for column in columns]
    if len(rows) > 1 and sum(map(len, texts)) >= BATCH_BYTES:
        for row in rows:
            yield from _parts([row])
        return
    lengths = [array("I", map(len, column)) for column in columns]
    if sys.byteorder == "big":
        for numbers in lengths:
            numbers.byteswap()
    yield lengths[0].tobytes(), lengths[1].tobytes(), texts[0], texts[1]


def _write(parts: Sequence[_Part], out: BinaryIO) -> None:
    """Write some parts as one batch."""
    texts = [b"".join(column) for column in zip(*parts, strict=True)]
    out.write(HEAD.pack(ROWS, len(texts[0]) // 4, len(texts[2]), len(texts[3])))
    out.writelines(texts)


if __name__ == "__main__":
    gc.disable()  # nothing here is a circle, and looking for one takes a fourth of the time
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(
        sys.argv[1],
        sys.argv[2],
        sys.argv[5:],
        sys.stdout.buffer,
        int(sys.argv[3]),
        [bytes.fromhex(text) for text in sys.argv[4].split(",") if text],
    )
