"""The compiled scanner equals the plain one, fault for fault: on broker-written logs, on mutants of them, on
records made to be odd, wherever the bytes given end, and without touching a byte outside them."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rocketfsck.scan.columns import (
    DISPATCH_DTYPES,
    KEY_DTYPES,
    RECORD_DTYPES,
    Fault,
    RecordBatch,
    new_batch,
)
from rocketfsck.scan.compiled import records as kernels
from rocketfsck.scan.options import ScanOptions, Stop
from rocketfsck.scan.plain import records as plain
from rocketfsck.scan.queues import QueueTable

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory

OPTIONS = [
    ScanOptions(property_parser="scan"),
    ScanOptions(property_parser="split"),
    ScanOptions(property_parser="scan", read_bodies=False),
]
NAMES = [
    *(b"TAGS", b"KEYS", b"UNIQ_KEY", b"DELAY", b"INNER_NUM", b"INNER_BASE", b"INNER_MULTI_DISPATCH"),
    *(b"INNER_MULTI_QUEUE_OFFSET", b"__CRC32#", b"WAIT", b"", b"K", b"TAGX", b"UNIQ_KEX", b"DELAZ"),
    *(b"INNER_NUN", b"INNER_MULTI_QUEUE_OFFSEU", b"INNER_MULTI_DISPATCI", b"INNER_BASF", "é".encode()),
]
VALUES = [
    *(b"TagA", b"k1 k2", b"  a  b ", b" ", b"", b"0", b"-1", b"+7", b"12", b"32767", b"32768", b"-32768"),
    *(b"2147483647", b"2147483648", b"-2147483648", b"9223372036854775807", b"9223372036854775808"),
    *(b"-9223372036854775808", b"+", b"-", b"0000000000000000000000005", "１２".encode(), "٣".encode()),
    *("中文 k2".encode(), "😀".encode(), b"\xed\xa0\x80", b"\xed\xa0", b"\xf0\x9f\x98", b"\xc0\x80", b"\xff"),
    *(
        b"\xe0\x80\x80 x",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"a" * 63,
        b"b" * 64,
        b"c" * 65,
        b"d" * 200,
    ),
    *(
        b"d" * 200,
        b"aentnpwi",
        b"8715024470",
        b"87150244701",
        b"x\x01y",
        b"\x01",
        b"\x01\x01",
        b"n\0l",
        "𝟏".encode(),
    ),
]
TOPICS = [
    *(b"TopicTest", b"T", b"", b"SCHEDULE_TOPIC_XXXX", b"SCHEDULE_TOPIC_XXXY", b"a/b", b"\x1b[31m", b"\xff"),
    *("主题".encode(), b"x" * 64, b"y" * 65, b"z" * 127, b"%RETRY%" + b"q" * 40, b"\xed\xa0\x80", b"\x7f"),
]


def scanned(
    scan: object,
    data: NDArray[np.uint8],
    end: int,
    options: ScanOptions,
    *,
    start: int = 0,
    base: int = 0,
    file_size: int | None = None,
    rows: int = 4096,
    keys: int = 65536,
    dispatches: int = 32768,
    max_queues: int = 1 << 20,
    max_name_size: int = 1 << 26,
) -> tuple[list[tuple[int, Stop]], list[RecordBatch], QueueTable]:
    """Everything that one implementation says of a buffer, batch by batch."""
    table = QueueTable(max_queues=max_queues, max_name_size=max_name_size)
    stops, batches = [], []
    while True:
        batch = new_batch(rows, keys, dispatches)
        size = len(data) if file_size is None else file_size
        start, stop = scan(data, start, end, 0, base, size, options, batch, table)  # type: ignore[operator]
        stops.append((start, stop))
        batches.append(batch)
        if stop != Stop.BATCH_FULL or batch.record_count == 0:
            return stops, batches, table


def assert_same(data: NDArray[np.uint8], end: int, options: ScanOptions, **places: int) -> int:
    """Both implementations say the same of `data[start:end]`; gives the number of records."""
    expected, oracle, names = scanned(plain.scan_records, data, end, options, **places)
    found, batches, table = scanned(kernels.scan_records, data, end, options, **places)
    assert found == expected
    assert table.names == names.names
    assert table.turned_away_count == names.turned_away_count
    for ours, theirs in zip(batches, oracle, strict=True):
        for name in (*RECORD_DTYPES, *KEY_DTYPES, *DISPATCH_DTYPES):
            np.testing.assert_array_equal(ours[name], theirs[name], name)
    return sum(batch.record_count for batch in oracle)


def log_files(directory: Path) -> list[tuple[NDArray[np.uint8], int]]:
    found = []
    for path in sorted(directory.glob("commitlog*/*")):
        base = int(path.name) if path.name.isdigit() else 0
        found.append((np.fromfile(path, np.uint8), base))
    return found


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_written_logs(name: str, store_dir: Directory) -> None:
    count = 0
    for data, base in log_files(store_dir(name)):
        for options in OPTIONS:
            count += assert_same(data, len(data), options, base=base)
            count += assert_same(data, len(data), options, base=base, rows=3, keys=5)
    assert count > 0


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_logs(name: str, restart_dir: Directory) -> None:
    for data, base in log_files(restart_dir(name)):
        assert_same(data, len(data), OPTIONS[0], base=base)


@pytest.mark.parametrize("name", ["4.4.0-basic", "4.9.8-ipv6", "5.3.3-propcrc", "5.0.0-innerbatch"])
def test_bytes_that_end_anywhere(name: str, store_dir: Directory) -> None:
    data, base = log_files(store_dir(name))[0]
    whole, _, _ = scanned(plain.scan_records, data, len(data), OPTIONS[0], base=base)
    last = whole[-1][0]
    for end in range(min(last, 700) + 1):
        assert_same(data, end, OPTIONS[0], base=base)
    for end in range(max(last - 40, 0), min(last + 40, len(data)) + 1):
        assert_same(data, end, OPTIONS[0], base=base)
        assert_same(data[:end].copy(), end, OPTIONS[1], base=base)


def mutants(data: NDArray[np.uint8], used: int, seed: int, count: int) -> list[NDArray[np.uint8]]:
    """Copies with bytes flipped, numbers made hostile and pieces moved."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        copy = data.copy()
        for _ in range(rng.choice((1, 1, 2, 5))):
            pos = rng.randrange(max(used - 64, 1))
            kind = rng.randrange(5)
            if kind == 0:
                copy[pos] ^= 1 << rng.randrange(8)
            elif kind == 1:
                copy[pos] = rng.choice((0, 1, 2, 0x20, 0x7F, 0x80, 0xED, 0xFF))
            elif kind == 2:
                value = struct.pack(">i", rng.choice((-1, 0, 91, 92, 1 << 30, -(1 << 31), 2**31 - 1)))
                copy[pos : pos + 4] = np.frombuffer(value, np.uint8)[: len(copy) - pos]
            elif kind == 3:
                other = rng.randrange(max(used - 64, 1))
                copy[pos : pos + 32] = data[other : other + 32][: len(copy) - pos]
            else:
                copy[pos : pos + 16] = rng.choice((0, 1, 2, 255))
        made.append(copy)
    return made


@pytest.mark.parametrize(
    "name", ["4.4.0-trans", "4.9.8-delay", "5.3.3-propcrc", "5.0.0-innerbatch", "4.9.8-lmq"]
)
def test_mutants_of_broker_written_logs(name: str, store_dir: Directory) -> None:
    data, base = log_files(store_dir(name))[0]
    used = scanned(plain.scan_records, data, len(data), OPTIONS[0], base=base)[0][-1][0]
    data = data[: min(used + 300, len(data), 6000)]
    for number, mutant in enumerate(mutants(data, min(used, len(data)), len(name), 150)):
        assert_same(mutant, len(mutant), OPTIONS[number % 3], base=base)


def odd_record(rng: random.Random, pos: int) -> bytes:
    """A record with a sound frame and as much oddness inside as fits."""
    pieces = []
    for _ in range(rng.choice((0, 1, 2, 4, 9))):
        mark = rng.choice((b"\x01", b"\x01", b"\x01", b"\x01", b"\x01", b"", b"\x01\x01"))
        pieces.append(rng.choice(NAMES) + mark + rng.choice(VALUES) + rng.choice((b"", b"", b"", b"\x01")))
    properties = rng.choice((b"\x02", b"\x02", b"\x02\x02")).join(pieces) + rng.choice((b"", b"\x02"))
    properties = b"\x02" * rng.choice((0, 0, 0, 1)) + properties
    topic, body = rng.choice(TOPICS), rng.randbytes(rng.choice((0, 1, 3, 4, 5, 63, 64, 65, 200, 1500)))
    is_v2 = rng.random() < 0.2
    if is_v2:
        topic *= rng.choice((1, 1, 3))
    sys_flag = rng.choice((0, 0, 0, 0x10, 0x20, 0x30, 0x800, 0x400, 0x100, 0x101, 1, 0x80000000, 8, 12))
    hosts = [rng.randbytes(16 if sys_flag & bit else 4) + rng.randbytes(4) for bit in (0x10, 0x20)]
    hosts = [host[:-4] + b"\0\0" + host[-2:] if rng.random() < 0.8 else host for host in hosts]
    body_crc = zlib.crc32(body) & 0x7FFFFFFF
    if rng.random() < 0.2:
        body_crc = rng.randrange(1 << 32)
    body_size = len(body) if body else rng.choice((0, 0, -5))
    properties_size = len(properties) if properties else rng.choice((0, 0, -1))
    magic = 0xDAA320AB if is_v2 else 0xDAA320A7
    queue = rng.choice((0, 1, 2, -1, 7))
    queue_offset = rng.choice((0, 5, -9, 1 << 40, 7, 12))
    fixed = struct.pack(
        ">IIiiqq",
        magic,
        body_crc,
        queue,
        -3,
        queue_offset,
        pos if rng.random() < 0.8 else rng.randrange(1 << 50),
    )
    fixed += struct.pack(">Iq", sys_flag, -7) + hosts[0] + struct.pack(">q", 99) + hosts[1]
    fixed += struct.pack(">iqi", 2, rng.choice((0, 0, -1)), body_size) + body
    fixed += struct.pack(">h" if is_v2 else ">b", len(topic)) + topic + struct.pack(">h", properties_size)
    record = struct.pack(">I", len(fixed) + 4 + len(properties)) + fixed + properties
    if rng.random() < 0.1:
        crc_at = record.rfind(b"__CRC32#\x01") + 9
        digits = f"{zlib.crc32(record[:-20]) & 0x7FFFFFFF:010d}"[::-1].encode()
        if crc_at > 9 and crc_at + 11 == len(record):
            record = record[:crc_at] + digits + record[-1:]
    return record


def odd_log(seed: int, count: int) -> NDArray[np.uint8]:
    rng = random.Random(seed)
    data = bytearray()
    while count:
        data += odd_record(rng, len(data))
        count -= 1
    data += rng.choice((b"", bytes(8), b"\0\0\0\x09\xcb\xd4\x31\x94x", b"\0\0\0", b"ab", bytes(40)))
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize("seed", range(40))
def test_odd_records(seed: int) -> None:
    data = odd_log(seed, 60)
    count = 0
    for options in OPTIONS:
        count += assert_same(data, len(data), options)
        assert_same(data, len(data), options, rows=7, keys=30, dispatches=9)
    assert count == 180


def test_odd_records_show_every_fault_and_trait() -> None:
    faults = traits = 0
    for seed in range(40):
        for options in OPTIONS:
            for batch in scanned(kernels.scan_records, odd_log(seed, 60), 0, options)[1]:
                assert batch.record_count == 0  # nothing given, nothing read
            data = odd_log(seed, 60)
            for batch in scanned(kernels.scan_records, data, len(data), options)[1]:
                faults |= int(np.bitwise_or.reduce(batch["faults"]))
                traits |= int(np.bitwise_or.reduce(batch["traits"]))
    assert faults == (1 << 22) - 1
    assert traits == (1 << 9) - 1


QUEUES = [
    *(b"%LMQ%a", b"%LMQ%a", b"%LMQ%", b"%LMQ", b"q", b"q/r", b"/", b"", b"", "%LMQ%\u7070".encode(), b"\xff"),
    *(b"%LMQ%\xed\xa0\x80", b"\xf0\x9f", b"%LMQ%" + b"n" * 200, b"\xe4\xb8" + b"m" * 70, b"\xc2"),
]
PLACES = [
    *(b"0", b"7", b"12", b"9223372036854775807", b"9223372036854775808", b"-1", b"+3", b"", b"x", b"1 "),
    *("\uff11\u0663".encode(), b"\xff", b"00000000000000000000000004"),
]


def multi_dispatch_log(seed: int, count: int) -> NDArray[np.uint8]:
    """Records that list further queues, well and badly."""
    rng = random.Random(seed)
    data = bytearray()
    for _ in range(count):
        number = rng.choice((0, 1, 1, 2, 3, 8))
        names = [rng.choice(QUEUES) for _ in range(number)]
        places = [rng.choice(PLACES[:3] if rng.random() < 0.7 else PLACES) for _ in range(number)]
        if rng.random() < 0.15:
            places = places[1:] + [b"5"] * rng.choice((0, 2))
        lists = [b",".join(names) + rng.choice((b"", b"", b",", b",,")), b",".join(places)]
        pieces = [b"INNER_MULTI_DISPATCH\x01" + lists[0], b"INNER_MULTI_QUEUE_OFFSET\x01" + lists[1]]
        pieces.insert(rng.randrange(3), rng.choice((b"KEYS\x01a b", b"TAGS\x01t", b"", b"a\x01b\x01c")))
        properties = b"\x02".join(pieces) + rng.choice((b"", b"\x02"))
        topic = rng.choice(
            (*TOPICS, b"rmq_sys_x", b"rmq_sys_", b"%RETRY%", b"%RETRY", b"SCHEDULE_TOPIC_XXXXY")
        )
        is_v2 = rng.random() < 0.3
        head = struct.pack(">IIiiqqIq", 0xDAA320AB if is_v2 else 0xDAA320A7, 0, 3, 0, 0, len(data), 0, 0)
        record = (
            head + bytes(8 + 8 + 8 + 4 + 8 + 4) + struct.pack(">h" if is_v2 else ">b", len(topic)) + topic
        )
        record += struct.pack(">h", len(properties)) + properties
        data += struct.pack(">I", len(record) + 4) + record
    return np.frombuffer(bytes(data), np.uint8)


@pytest.mark.parametrize("seed", range(30))
def test_multi_dispatch_records(seed: int) -> None:
    data = multi_dispatch_log(seed, 60)
    for options in OPTIONS[:2]:
        assert assert_same(data, len(data), options) == 60
        assert_same(data, len(data), options, rows=11, dispatches=9)
        assert_same(data, len(data), options, max_queues=6)
        assert_same(data, len(data), options, max_name_size=300)
    for number, mutant in enumerate(mutants(data, len(data), seed, 10)):
        assert_same(mutant, len(mutant), OPTIONS[number % 3])


def test_multi_dispatch_records_show_all_that_can_be() -> None:
    found: set[tuple[bytes, int]] = set()
    unusable = 0
    for seed in range(30):
        data = multi_dispatch_log(seed, 60)
        _, batches, table = scanned(plain.scan_records, data, len(data), OPTIONS[0])
        for batch in batches:
            found |= {table.names[row] for row in batch["dispatch_queue"].tolist()}
            unusable += int(((batch["faults"] & int(Fault.MULTI_DISPATCH)) != 0).sum())
    assert {(b"%LMQ%a", 0), (b"%LMQ", 3), (b"q", 3), (b"", 3), ("%LMQ%\ufffd".encode(), 0)} <= found
    assert ("\ufffd".encode(), 3) in found
    assert not any(b"/" in name for name, _ in found)
    assert unusable > 100


@pytest.mark.parametrize("seed", range(20))
def test_mutants_of_odd_records(seed: int) -> None:
    data = odd_log(seed, 12)
    for number, mutant in enumerate(mutants(data, len(data), seed, 25)):
        assert_same(mutant, len(mutant), OPTIONS[number % 3])
        end = number * len(mutant) // 25
        assert_same(mutant, end, OPTIONS[number % 3], file_size=len(mutant))


def test_many_queues_make_the_table_grow() -> None:
    rng = random.Random(5)
    data = bytearray()
    for number in range(3000):
        topic = b"topic-%d" % rng.randrange(900) + b"x" * rng.randrange(60)
        head = struct.pack(">IIiiqqIq", 0xDAA320A7, 0, number % 7, 0, 0, len(data), 0, 0) + bytes(40)
        record = head + struct.pack(">b", len(topic)) + topic + b"\0\0"
        data += struct.pack(">I", len(record) + 4) + record
    assert assert_same(np.frombuffer(bytes(data), np.uint8), len(data), OPTIONS[0]) == 3000


def test_full_table_leaves_the_rest_without_a_row() -> None:
    data = odd_log(1, 60)
    for scan in (plain.scan_records, kernels.scan_records):
        table, batch = QueueTable(max_queues=4, max_name_size=40), new_batch(100, 1000)
        scan(data, 0, len(data), 0, 0, len(data), OPTIONS[0], batch, table)
        assert len(table) <= 4
        assert table.turned_away_count == int((batch["queue_index"] == -1).sum()) > 0


def test_range_outside_the_buffer_is_refused() -> None:
    data = np.zeros(100, np.uint8)
    with pytest.raises(ValueError, match="bytes 0:101 of a buffer of 100"):
        kernels.scan_records(data, 0, 101, 0, 0, 200, OPTIONS[0], new_batch(1, 1), QueueTable())


def guarded(size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Two buffers of `size` bytes, one that ends where a page that nobody may touch begins, one that begins
    behind such a page."""
    page = mmap.PAGESIZE
    inner = -(-size // page) * page
    area = mmap.mmap(-1, inner + 2 * page)
    whole = np.frombuffer(area, np.uint8)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start in (0, page + inner):
        assert protect(whole.ctypes.data + start, page, 0) == 0
    return whole[page + inner - size : page + inner], whole[page : page + size]


def fuzz_guarded(seed: int) -> int:
    """Scans mutants between pages that nobody may touch; a byte too far ends the process."""
    rng = random.Random(seed)
    count = 0
    for number in range(40):
        made = multi_dispatch_log if number % 4 == 3 else odd_log
        data = made(seed * 1000 + number, rng.randrange(1, 5))
        for mutant in mutants(data, len(data), number, 6):
            cut = rng.choice((len(mutant), len(mutant), rng.randrange(len(mutant) + 1)))
            for buffer in guarded(cut):
                buffer[:] = mutant[:cut]
                for options in OPTIONS:
                    assert_same(buffer, cut, options, file_size=len(mutant))
                count += 1
    return count


LESSER = [
    ("", ""),
    pytest.param("generic", "", marks=pytest.mark.nightly),
    pytest.param("x86-64-v2", "+sse4.1,+ssse3,+pclmul", marks=pytest.mark.nightly),
    pytest.param("x86-64-v3", "+sse4.1,+ssse3,+avx,+avx2,+pclmul,+vpclmulqdq", marks=pytest.mark.nightly),
]


def host_features() -> set[str]:
    """What this processor can do, by LLVM's names."""
    from llvmlite import binding

    return {name for name, there in binding.get_host_cpu_features().items() if there}


@pytest.mark.parametrize(("processor", "features"), LESSER)
def test_no_byte_outside_is_touched(processor: str, features: str, tmp_path: Path) -> None:
    """In a process of its own: the failure that is looked for is a SIGSEGV."""
    command = [sys.executable, __file__, "3"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    if processor:
        if not set(features.replace("+", "").split(",")) - {""} <= host_features():
            pytest.skip("this processor has less")
        environment |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features}
        environment["ROCKETFSCK_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) == 40 * 6 * 2


if __name__ == "__main__":
    print(fuzz_guarded(int(sys.argv[1])))
