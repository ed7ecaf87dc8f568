"""The files that the benchmarks read: commit log files and an index file, made from seeds.

The uniform ones hold records of one layout (kind to branch predictors), the irregular one bodies of 32 to
4096 bytes, log-uniform, properties in any order and number, 0 to 4 keys, some of them not ASCII, some
property strings without their last separator. Written by NumPy and struct alone: nothing that is measured
helps to make what it is measured on. Grammar: reference 2.1, 2.5, 4.1, 4.4.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEED = 20240229
MAGIC_V1 = 0xDAA320A7
MAGIC_BLANK = 0xCBD43194
BEGIN_TIMESTAMP = 1_700_000_000_000
SLOT_COUNT = 5_000_000
ENTRY_COUNT = 20_000_000
KEYS_A_RECORD = 3
INDEXED_RECORD_SIZE = 322
INDEX_NAME = "20231114221320000"
HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@dataclass(frozen=True, slots=True)
class LogFile:
    """A commit log file of a benchmark: `size` bytes, starting at physical offset 0."""

    name: str
    path: Path
    size: int
    record_count: int


def uniform_log(folder: Path, body_size: int, size: int) -> LogFile:
    """A file of records with bodies of `body_size` random bytes, three keys each; made if it is not there."""
    record_size = 91 + body_size + 9 + len(_properties())
    count = (size - 8) // record_size
    path = folder / f"log-{body_size}-{size}"
    if not path.exists():
        with _made(path).open("wb") as file:
            for first in range(0, count, 1 << 16):
                number = min(1 << 16, count - first)
                file.write(_uniform_records(first, number, body_size, record_size).tobytes())
            _close_log(file, size, count * record_size)
        _made(path).rename(path)
    return LogFile(f"{body_size} B bodies", path, size, count)


def _properties() -> bytes:
    words = b"KEYS\x01k-000000000000 o-000000000000\x02"
    return words + b"UNIQ_KEY\x01" + b"0" * 32 + b"\x02TAGS\x01TagA\x02WAIT\x01true\x02"


def _uniform_records(first: int, count: int, body_size: int, record_size: int) -> NDArray[np.uint8]:
    random = np.random.default_rng(SEED + first + body_size)
    numbers = np.arange(first, first + count)
    host = bytes((10, 1, 2, 3)) + struct.pack(">i", 54321)
    head = struct.pack(">IIiiiqqiq", record_size, MAGIC_V1, 0, 0, 0, 0, 0, 0, BEGIN_TIMESTAMP) + host
    head += struct.pack(">q", BEGIN_TIMESTAMP) + host + struct.pack(">iqi", 0, 0, body_size)
    properties = _properties()
    tail = b"\x09TopicTest" + struct.pack(">h", len(properties)) + properties
    rows = np.empty((count, record_size), np.uint8)
    rows[:, :88] = np.frombuffer(head, np.uint8)
    rows[:, 88 : 88 + body_size] = random.integers(0, 256, (count, body_size), np.uint8)
    rows[:, 88 + body_size :] = np.frombuffer(tail, np.uint8)
    _put(rows, 12, numbers & 7, ">i4")
    _put(rows, 20, numbers >> 3, ">i8")
    _put(rows, 28, numbers * record_size, ">i8")
    _put(rows, 40, BEGIN_TIMESTAMP + numbers // 5, ">i8")
    _put(rows, 56, BEGIN_TIMESTAMP + numbers // 5 + 1, ">i8")
    bodies = [row[88 : 88 + body_size].tobytes() for row in rows]
    _put(rows, 8, np.array([zlib.crc32(body) & 0x7FFFFFFF for body in bodies]), ">i4")
    at = 88 + body_size + 10 + 2 + 5
    for place, digits in ((at, 14), (at + 15, 14)):
        texts = np.char.zfill(numbers.astype(f"S{digits - 2}"), digits - 2)
        rows[:, place + 2 : place + digits] = texts.view(np.uint8).reshape(count, digits - 2)
    unique = at + 30 + 9
    rows[:, unique : unique + 32] = HEX[random.integers(0, 16, (count, 32))]
    return rows


def _put(rows: NDArray[np.uint8], place: int, values: NDArray[np.int64], kind: str) -> None:
    column = values.astype(kind).reshape(-1, 1).view(np.uint8)
    rows[:, place : place + column.shape[1]] = column


def irregular_log(folder: Path, size: int) -> LogFile:
    """A file of records that differ in everything that may differ; made if it is not there."""
    path = folder / f"log-mixed-{size}"
    count_path = folder / f"log-mixed-{size}.count"
    if not path.exists():
        random = np.random.default_rng(SEED)
        pos = count = 0
        with _made(path).open("wb") as file:
            while True:
                record = _irregular_record(random, count, pos)
                if pos + len(record) + 8 > size:
                    break
                file.write(record)
                pos += len(record)
                count += 1
            _close_log(file, size, pos)
        count_path.write_text(f"{count}\n", "ascii")
        _made(path).rename(path)
    return LogFile("irregular mix", path, size, int(count_path.read_text("ascii")))


def _irregular_record(random: np.random.Generator, number: int, pos: int) -> bytes:
    draw = random.random(6)
    body = random.bytes(int(32 * 128 ** draw[0]))
    topic = b"Topic-%d" % int(draw[1] * 40)
    pieces = [b"UNIQ_KEY\x01" + random.bytes(16).hex().upper().encode()]
    key_count = int(draw[2] * 5)
    if key_count:
        odd = "订单-".encode() if random.random() < 0.02 else b"order-"
        keys = [odd + b"%d" % int(random.integers(1 << 40)) for _ in range(key_count)]
        pieces.append(b"KEYS\x01" + b" ".join(keys))
    for name, chance in ((b"TAGS\x01Tag%d", 0.8), (b"WAIT\x01true", 0.9), (b"CLUSTER\x01Default%d", 0.5)):
        if random.random() < chance:
            pieces.append(name % int(random.integers(9)) if b"%d" in name else name)
    pieces += [
        b"attribute%d\x01" % index + random.bytes(int(random.integers(4, 24))).hex().encode()
        for index in range(int(draw[3] * 4))
    ]
    order = random.permutation(len(pieces))
    properties = b"\x02".join(pieces[index] for index in order) + (b"\x02" if draw[4] < 0.7 else b"")
    total_size = 91 + len(body) + len(topic) + len(properties)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    born = BEGIN_TIMESTAMP + number
    host = bytes((10, 1, 2, int(draw[5] * 200))) + struct.pack(">i", 30000 + number % 30000)
    fixed = struct.pack(">IIiiiqqiq", total_size, MAGIC_V1, crc, number % 16, 0, number, pos, 0, born)
    fixed += host + struct.pack(">q", born + 2) + host + struct.pack(">iqi", 0, 0, len(body))
    return fixed + body + bytes([len(topic)]) + topic + struct.pack(">h", len(properties)) + properties


def _close_log(file: Any, size: int, pos: int) -> None:
    file.write(struct.pack(">II", size - pos, MAGIC_BLANK))
    file.write(bytes(size - pos - 8))


@dataclass(frozen=True, slots=True)
class IndexStore:
    """A store of one full index file, and the keys of the log that it was made of, in order of their putting.

    The commit log is a hole: only where it starts and ends counts.
    """

    root: Path
    path: Path
    size: int
    entry_count: int
    key_hash: NDArray[np.int32]
    phy_offset: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]


def full_index(folder: Path, slot_count: int = SLOT_COUNT, entry_count: int = ENTRY_COUNT) -> IndexStore:
    """A store with an index file of `entry_count - 1` entries of random hashes; made if it is not there."""
    used = entry_count - 1
    random = np.random.default_rng(SEED)
    key_hash = random.integers(0, 1 << 31, used, np.int64).astype(np.int32)
    phy_offset = np.arange(used, dtype=np.int64) // KEYS_A_RECORD * INDEXED_RECORD_SIZE
    store_timestamp = BEGIN_TIMESTAMP + np.arange(used, dtype=np.int64) // (10 * KEYS_A_RECORD)
    root = folder / f"index-store-{slot_count}-{entry_count}"
    path = root / "index" / INDEX_NAME
    if not path.exists():
        slot = key_hash % slot_count
        order = np.argsort(slot, kind="stable")
        sorted_slot = slot[order]
        previous = np.zeros(used, np.int32)
        same = sorted_slot[1:] == sorted_slot[:-1]
        previous[order[1:][same]] = order[:-1][same] + 1
        heads = np.zeros(slot_count, ">i4")
        last = np.append(~same, True)
        heads[sorted_slot[last]] = order[last] + 1
        kinds = {"hash": ">i4", "offset": ">i8", "diff": ">i4", "previous": ">i4"}
        entries = np.zeros(entry_count, np.dtype(list(kinds.items())))
        entries["hash"][1:] = key_hash
        entries["offset"][1:] = phy_offset
        entries["diff"][1:] = (store_timestamp - BEGIN_TIMESTAMP) // 1000
        entries["previous"][1:] = previous
        begin, end = int(store_timestamp[0]), int(store_timestamp[-1])
        header = struct.pack(
            ">qqqqii", begin, end, 0, int(phy_offset[-1]), int((heads != 0).sum()), entry_count
        )
        with _made(path).open("wb") as file:
            file.write(header)
            heads.tofile(file)
            entries.tofile(file)
        (root / "commitlog").mkdir(exist_ok=True)
        with (root / "commitlog" / "0".zfill(20)).open("wb") as file:
            file.truncate(int(phy_offset[-1]) + INDEXED_RECORD_SIZE)
        conf = f"maxHashSlotNum={slot_count}\nmaxIndexNum={entry_count}\n"
        (root / "broker.conf").write_text(conf, "ascii")
        _made(path).rename(path)
    size = path.stat().st_size
    return IndexStore(root, path, size, used, key_hash, phy_offset, store_timestamp)


def _made(path: Path) -> Path:
    """Where a file is written before it gets its name, so that half a file is never taken for a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(path.name + ".part")
