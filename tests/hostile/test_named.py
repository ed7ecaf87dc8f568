"""Hostile contents by name: each is a store that has hung, crashed or fooled some program."""

from __future__ import annotations

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rocketfsck.formats.magic import MAGIC_BLANK, MAGIC_V1
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store

from tests.conftest import Directory

SLOT_COUNT, ENTRY_COUNT = 37, 150  # of 4.4.0-basic
HEADER_SIZE, ENTRY_SIZE = 40, 20
ENTRIES_POS = HEADER_SIZE + 4 * SLOT_COUNT


def check(store: Path) -> Report:
    return check_store(open_store(store), CheckOptions(now_timestamp=1_800_000_000_000))


def rules(report: Report) -> set[str]:
    return set(report.counts)


def record(
    pos: int, topic: bytes = b"T", *, body: bytes = b"x", queue_offset: int = 0, size: int | None = None
) -> bytes:
    """A V1 record with IPv4 hosts at physical offset `pos`."""
    total = 91 + len(body) + len(topic) if size is None else size
    host = bytes((10, 0, 0, 1)) + struct.pack(">i", 10911)
    return (
        struct.pack(
            ">iiiiiqqiq", total, MAGIC_V1, zlib.crc32(body) & 0x7FFFFFFF, 0, 0, queue_offset, pos, 0, 10**12
        )
        + host
        + struct.pack(">q", 10**12)
        + host
        + struct.pack(">iqi", 0, 0, len(body))
        + body
        + struct.pack(">b", len(topic))
        + topic
        + struct.pack(">h", 0)
    )


def one_file_store(folder: Path, data: bytes, size: int = 65536) -> Path:
    store = folder / "made"
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / offset_to_filename(0)).write_bytes(data.ljust(size, b"\0"))
    return store


def chain(data: bytes | bytearray) -> tuple[int, list[int]]:
    """The first slot of an index file with at least three entries, newest entry first."""
    for slot in range(SLOT_COUNT):
        entries = [struct.unpack_from(">i", data, HEADER_SIZE + 4 * slot)[0]]
        while entries[-1] > 0:
            entries.append(struct.unpack_from(">i", data, ENTRIES_POS + ENTRY_SIZE * entries[-1] + 16)[0])
        if len(entries) > 3:
            return slot, entries[:-1]
    raise AssertionError("no chain of three entries")


def set_link(data: bytearray, entry: int, value: int) -> None:
    struct.pack_into(">i", data, ENTRIES_POS + ENTRY_SIZE * entry + 16, value)


@pytest.fixture
def index(store_copy: Directory) -> Path:
    return sorted((store_copy("4.4.0-basic") / "index").iterdir())[0]


@pytest.mark.parametrize(
    ("name", "links", "rule"),
    [
        ("cycle of two", lambda chain: {chain[1]: chain[0]}, "IX008"),
        ("cycle of the whole chain", lambda chain: {chain[-1]: chain[0]}, "IX008"),
        ("self-loop", lambda chain: {chain[1]: chain[1]}, "IX007"),
        ("link past the end", lambda chain: {chain[1]: ENTRY_COUNT}, "IX010"),
        ("link of 2 GiB", lambda chain: {chain[0]: 0x7FFFFFFF}, "IX010"),
        ("negative link", lambda chain: {chain[0]: -2}, "IX010"),
    ],
)
def test_hash_chains(index: Path, name: str, links: object, rule: str) -> None:
    data = bytearray(index.read_bytes())
    _slot, entries = chain(data)
    for entry, value in links(entries).items():  # type: ignore[operator]
        set_link(data, entry, value)
    index.write_bytes(data)
    report = check(index.parent.parent)
    found = [finding for finding in report.findings if finding.rule == rule]
    assert found, (name, rules(report))
    assert found[0].where.file == f"index/{index.name}"


def test_every_slot_points_to_the_same_entry(index: Path) -> None:
    data = bytearray(index.read_bytes())
    data[HEADER_SIZE:ENTRIES_POS] = struct.pack(">i", 5) * SLOT_COUNT
    index.write_bytes(data)
    assert "IX006" in rules(check(index.parent.parent))


@pytest.mark.parametrize("count", [0x7FFFFFFF, -0x80000000, -1, ENTRY_COUNT + 1])
def test_index_count_beyond_the_file(index: Path, count: int) -> None:
    data = bytearray(index.read_bytes())
    struct.pack_into(">i", data, 36, count)
    index.write_bytes(data)
    assert "IX002" in rules(check(index.parent.parent))


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0x7FFFFFF8, -1, -0x80000000, 90, 65536 - 7])
def test_total_size_that_cannot_be(tmp_path: Path, size: int) -> None:
    good = record(0)
    bad = record(len(good), size=size)
    after = record(len(good) + len(bad), queue_offset=2)
    report = check(one_file_store(tmp_path, good + bad + after))
    assert rules(report) & {"CL001", "CL003"}
    regions = report.regions["commitlog/" + offset_to_filename(0)]
    assert sum(region.byte_count for region in regions) == 65536
    assert sum(region.record_count for region in regions if region.kind == "records") == 2


@pytest.mark.parametrize("field_pos", [84, 88 + 1, 88 + 1 + 1 + 1])
def test_negative_and_huge_inner_sizes(tmp_path: Path, field_pos: int) -> None:
    for value in (b"\xff", b"\x80", b"\x7f"):
        data = bytearray(record(0))
        data[field_pos : field_pos + 1] = value
        whole = bytes(data) + record(len(data), queue_offset=1)
        folder = tmp_path / value.hex()
        report = check(one_file_store(folder, whole))
        regions = report.regions["commitlog/" + offset_to_filename(0)]
        assert sum(region.byte_count for region in regions) == 65536
        assert report.exit_code == 4


@pytest.mark.parametrize(
    "topic",
    [
        b"../../../etc/cron.d/x",
        b"/absolute",
        b"a/b",
        b"\x1b[2J\x1b[31mboo",
        b"%n%n%n%s",
        b"\xff\xfe",
        b"a\nb",
        b"..",
    ],
)
def test_topics_that_are_paths_or_terminal_codes(tmp_path: Path, topic: bytes) -> None:
    store = one_file_store(tmp_path, record(0, topic))
    before = sorted(tmp_path.rglob("*"))
    result = subprocess.run(
        [sys.executable, "-m", "rocketfsck", "check", str(store)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 4, result.stderr
    dumped = subprocess.run(
        [sys.executable, "-m", "rocketfsck", "dump", "--hex", str(store)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert dumped.returncode == 0, dumped.stderr
    for output in (result.stdout, result.stderr, dumped.stdout, dumped.stderr):
        assert not set(output) & (set(range(0x20)) - {0x0A}) and b"\x7f" not in output
        output.decode("utf-8")
    assert sorted(tmp_path.rglob("*")) == before


def test_record_inside_the_body_of_another_is_no_record(tmp_path: Path) -> None:
    inner = record(88)  # claims the very place where it stands
    report = check(one_file_store(tmp_path, record(0, body=inner)))
    regions = report.regions["commitlog/" + offset_to_filename(0)]
    assert [region.record_count for region in regions if region.kind == "records"] == [1]


def test_a_file_of_magics_ends_in_time(tmp_path: Path) -> None:
    data = struct.pack(">ii", 0, MAGIC_V1) * (1 << 17)
    report = check(one_file_store(tmp_path, data, len(data)))
    assert report.exit_code == 4


def test_blanks_all_over(tmp_path: Path) -> None:
    data = struct.pack(">ii", 8, MAGIC_BLANK) * 8192
    report = check(one_file_store(tmp_path, data))
    assert sum(region.byte_count for region in report.regions["commitlog/" + offset_to_filename(0)]) == 65536


def test_more_topics_than_any_broker_has(tmp_path: Path) -> None:
    data = b""
    while len(data) < 1 << 20:
        data += record(len(data), b"t%d" % len(data))
    report = check(one_file_store(tmp_path, data, 2 << 20))
    assert report.counts["XR002"] > 1000
    assert len(report.findings) < 1000


def test_memory_stays_bounded_on_a_sparse_store_of_64_gib(tmp_path: Path) -> None:
    """64 segments of 1 GiB with records at their starts, the default index file, all holes else."""
    store = tmp_path / "sparse"
    (store / "commitlog").mkdir(parents=True)
    size = 1 << 30
    for number in range(64):
        base = number * size
        first = record(base, queue_offset=number)
        with (store / "commitlog" / offset_to_filename(base)).open("wb") as file:
            file.write(first)
            if number < 63:
                file.write(struct.pack(">ii", size - len(first), MAGIC_BLANK))
            file.truncate(size)
    (store / "index").mkdir()
    with (store / "index" / "20231114221320000").open("wb") as file:
        file.truncate(420_000_040)
    # in a small process of its own: Linux counts for a child what its parent had in memory when it forked
    measure = (
        "import resource, subprocess, sys; ended = subprocess.run(sys.argv[1:], check=False);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr);"
        "sys.exit(ended.returncode)"
    )
    command = [sys.executable, "-m", "rocketfsck", "check", "--level", "full", "--format", "json", str(store)]
    result = subprocess.run(
        [sys.executable, "-c", measure, *command], capture_output=True, check=False, timeout=500
    )
    assert result.returncode == 4, result.stderr  # the queues are missing
    assert int(result.stderr.split()[-1]) < 512 << 10
    assert b'"record_count": 64' in result.stdout or b'"record_count":64' in result.stdout
