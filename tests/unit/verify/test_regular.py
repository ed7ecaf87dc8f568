"""What nearly all places have alike is no damage: a newer broker wrote it, and no repair does. ADR 0011."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rocketfsck.cli.show.verdict import headline_of
from rocketfsck.common.rulenames import RuleName
from rocketfsck.formats.dialect import ALL_VERSIONS
from rocketfsck.formats.magic import MAGIC_BLANK
from rocketfsck.formats.record import decode_record
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.state import check_status
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions, Report, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import describe
from rocketfsck.verify.watched import unknown_areas

from tests.conftest import Directory

STORE = "5.3.3-multiseg"
SEGMENT = 131072
UNIT_SIZE, ENTRY_SIZE, HEADER_SIZE, SLOT_COUNT = 20, 20, 40, 200
NEWER_MAGIC = b"\xda\xa3\x20\xa9"
Change = Callable[[Path], None]


def rewrite(paths: Iterator[Path], change: Callable[[bytearray], None]) -> None:
    for path in sorted(paths):
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)


def units(data: bytearray) -> Iterator[tuple[int, int, int, int]]:
    """Position, physical offset, size and tagsCode of each unit."""
    for pos in range(0, len(data) // UNIT_SIZE * UNIT_SIZE, UNIT_SIZE):
        offset, size, tags = struct.unpack_from(">qiq", data, pos)
        if size:
            yield pos, offset, size, tags


def of_units(pos: int, form: str, change: Callable[[int], int]) -> Change:
    """A change of one field of each unit, where it is not 0."""

    def of(data: bytearray) -> None:
        for unit, *_ in units(data):
            (value,) = struct.unpack_from(form, data, unit + pos)
            if value:
                struct.pack_into(form, data, unit + pos, change(value))

    return lambda root: rewrite((root / "consumequeue").glob("*/*/*"), of)


def of_entries(pos: int, form: str, change: Callable[[int], int]) -> Change:
    """A change of one field of each index entry."""

    def of(data: bytearray) -> None:
        first = HEADER_SIZE + 4 * SLOT_COUNT + ENTRY_SIZE
        count = struct.unpack_from(">i", data, 36)[0]
        for entry in range(first, first + (count - 1) * ENTRY_SIZE, ENTRY_SIZE):
            (value,) = struct.unpack_from(form, data, entry + pos)
            struct.pack_into(form, data, entry + pos, change(value))

    return lambda root: rewrite((root / "index").iterdir(), of)


def places(root: Path) -> list[tuple[int, int]]:
    """Physical offset and size of every record with a unit, in the log's order."""
    found = [
        (offset, size)
        for path in (root / "consumequeue").glob("*/*/*")
        for _, offset, size, _ in units(bytearray(path.read_bytes()))
    ]
    return sorted(found)


def of_records(change: Callable[[bytearray], None], part: slice = slice(None)) -> Change:
    """A change of the bytes of records."""

    def of(root: Path) -> None:
        logs = {int(path.name): bytearray(path.read_bytes()) for path in (root / "commitlog").iterdir()}
        for offset, size in places(root)[part]:
            log, pos = logs[offset // SEGMENT * SEGMENT], offset % SEGMENT
            record = log[pos : pos + size]
            change(record)
            log[pos : pos + size] = record
        for start, data in logs.items():
            (root / "commitlog" / f"{start:020}").write_bytes(data)

    return of


def other_crc(record: bytearray) -> None:
    body = decode_record(bytes(record)).body
    struct.pack_into(">i", record, 8, (zlib.crc32(body) ^ 0x5A5A5A5A) & 0x7FFFFFFF)


def newer_magic(record: bytearray) -> None:
    record[4:8] = NEWER_MAGIC


def other_flag(bit: int, record: bytearray) -> None:
    """A bit of sysFlag that nobody knows: behind 20 bytes of totalSize to flag, and two offsets."""
    (flags,) = struct.unpack_from(">i", record, 36)
    struct.pack_into(">i", record, 36, flags | 1 << bit)


def sums_beside(root: Path) -> None:
    for area in ("commitlog", "consumequeue", "index"):
        for path in sorted(root.joinpath(area).rglob("*")):
            if path.is_file():
                path.with_name(f"{path.name}.crc").write_bytes(zlib.crc32(path.read_bytes()).to_bytes(4))


def of_headers(pos: int, form: str, change: Callable[[int], int]) -> Change:
    """A change of one field of the header of each index file."""

    def of(data: bytearray) -> None:
        (value,) = struct.unpack_from(form, data, pos)
        struct.pack_into(form, data, pos, change(value))

    return lambda root: rewrite((root / "index").iterdir(), of)


def entry_zero(root: Path) -> None:
    """Entry 0, which is never used, has something in every file."""

    def of(data: bytearray) -> None:
        first = HEADER_SIZE + 4 * SLOT_COUNT
        data[first : first + ENTRY_SIZE] = b"newer".ljust(ENTRY_SIZE, b"\0")

    rewrite((root / "index").iterdir(), of)


def blank_sizes(root: Path) -> None:
    """The size of a BLANK does not count its own 8 bytes."""
    for path in sorted((root / "commitlog").iterdir())[:-1]:
        data = bytearray(path.read_bytes())
        pos = data.rindex(struct.pack(">i", MAGIC_BLANK)) - 4
        struct.pack_into(">i", data, pos, struct.unpack_from(">i", data, pos)[0] - 8)
        path.write_bytes(data)


def field_of_records(pos: int, form: str, value: int) -> Change:
    """A value in a field of the fixed part of every record."""
    return of_records(lambda record: struct.pack_into(form, record, pos, value))


def in_directories(depth: str, name: str) -> Change:
    """A file of the same name in each directory of the queues."""

    def of(root: Path) -> None:
        for path in sorted((root / "consumequeue").glob(depth)):
            (path / name).write_bytes(b"newer")

    return of


def in_topics(root: Path) -> None:
    for path in sorted((root / "consumequeue").iterdir()):
        (path / "meta").mkdir()
        (path / "meta" / "all").write_bytes(b"newer")


HIDDEN: dict[str, tuple[Change, str, set[str]]] = {
    "tag codes by another function": (
        of_units(12, ">q", lambda tags: tags * 2654435761 & 0x7FFFFFFF),
        RuleName.REGULAR_DEVIATION,
        {"consumequeue"},
    ),
    "sizes with a trailer": (of_units(8, ">i", lambda size: size + 8), RuleName.REGULAR_DEVIATION, set()),
    "keys by another function": (
        of_entries(0, ">i", lambda value: (value + 7 * SLOT_COUNT) & 0x7FFFFFFF),
        RuleName.REGULAR_DEVIATION,
        {"index"},
    ),
    "times in another unit": (
        of_entries(12, ">i", lambda value: value * 10 + 7),
        RuleName.REGULAR_DEVIATION,
        {"index"},
    ),
    "bodies with another CRC": (of_records(other_crc), RuleName.REGULAR_DEVIATION, {"commitlog"}),
    **{
        f"bit {bit} of every sysFlag": (
            of_records(partial(other_flag, bit)),
            RuleName.REGULAR_DEVIATION,
            {"commitlog"},
        )
        for bit in (11, 15, 20, 30)
    },
    "ports beyond 65535": (field_of_records(52, ">i", 70_000), RuleName.REGULAR_DEVIATION, {"commitlog"}),
    "deliveries in another unit": (
        field_of_records(72, ">i", -1),
        RuleName.REGULAR_DEVIATION,
        {"commitlog"},
    ),
    "offsets of all records in preparedTransactionOffset": (
        field_of_records(76, ">q", 77),
        RuleName.REGULAR_DEVIATION,
        {"commitlog"},
    ),
    "no bornTimestamp": (field_of_records(40, ">q", 0), RuleName.REGULAR_DEVIATION, {"commitlog"}),
    "slots counted otherwise": (
        of_headers(32, ">i", lambda value: value * 3 + 1),
        RuleName.REGULAR_DEVIATION,
        {"index"},
    ),
    "begin times in another unit": (
        of_headers(0, ">q", lambda value: value * 1000),
        RuleName.REGULAR_DEVIATION,
        {"index"},
    ),
    "entry 0 in use": (entry_zero, RuleName.REGULAR_DEVIATION, {"index"}),
    "BLANK counted otherwise": (blank_sizes, RuleName.REGULAR_DEVIATION, {"commitlog"}),
    "a magic code from some time on": (
        of_records(newer_magic, slice(700, None)),
        RuleName.RECORD_MAGIC_UNKNOWN,
        {"commitlog", "consumequeue", "index", "checkpoint"},
    ),
    "a magic code of every second record": (
        of_records(newer_magic, slice(0, None, 2)),
        RuleName.RECORD_MAGIC_UNKNOWN,
        {"commitlog", "consumequeue", "index", "checkpoint"},
    ),
    "a header in each queue": (in_directories("*/*", "header"), RuleName.FILES_ALIKE, {"consumequeue"}),
    "a directory in each topic": (in_topics, RuleName.FILES_ALIKE, {"consumequeue"}),
    "sums beside all files": (
        sums_beside,
        RuleName.FILES_ALIKE,
        {"commitlog", "consumequeue", "index"},
    ),
}


def checked(root: Path) -> Report:
    return check_store(open_store(root), CheckOptions(level="full", jobs=1))


def bad(report: Report) -> set[str]:
    return {
        rule for rule, count in report.counts.items() if count and report.severity_of(rule) > Severity.INFO
    }


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_regular_is_no_damage(store_copy: Directory, name: str) -> None:
    change, rule, areas = HIDDEN[name]
    root = store_copy(STORE)
    sound = checked(root)
    change(root)
    report = checked(root)
    assert bad(report) == bad(sound)
    assert report.counts.get(rule, 0) >= 1
    said = [finding for finding in report.findings if finding.rule == rule]
    assert all(str(ALL_VERSIONS[-1]) in describe(finding) for finding in said)
    assert areas <= unknown_areas(report.findings).keys()
    assert make_plan(open_store(root), report).actions == ()


@pytest.mark.parametrize("name", HIDDEN)
def test_no_repair_writes_there_without_its_name(store_copy: Directory, name: str) -> None:
    """Other damage in the same areas is left, too: what would be written is by what is not known."""
    change, _, areas = HIDDEN[name]
    root = store_copy(STORE)
    change(root)
    for area in sorted(areas & {"consumequeue", "index"}):
        path = max(path for path in (root / area).rglob("0*" if area == "consumequeue" else "2*"))
        if path.is_file() and path.suffix != ".crc":
            path.write_bytes(bytes(path.stat().st_size))
    report = checked(root)
    changed = {action.target.partition("/")[0] for action in make_plan(open_store(root), report).actions}
    assert not changed & areas


def test_a_newer_magic_forbids_a_start_of_known_brokers(store_copy: Directory) -> None:
    root = store_copy(STORE)
    HIDDEN["a magic code from some time on"][0](root)
    store, report = open_store(root), checked(root)
    verdict = judge_store(store, report)
    assert (verdict.state, verdict.may_start, verdict.newer_record_count) == ("harmful", False, 700)
    assert verdict.damaged_byte_count == 0
    assert "700 records of a newer one" in headline_of(verdict)
    assert check_status(report, verdict.state)
    assert report.account is not None
    assert (report.account.count("served"), report.account.lost_count) == (700, 0)
    assert not report.account.is_complete


DAMAGED: dict[str, tuple[Change, str]] = {
    "some tag codes": (
        lambda root: rewrite(iter([root / "consumequeue/Seg0/0" / f"{0:020}"]), _spoil_tags),
        RuleName.UNIT_TAGS_CODE,
    ),
    "tag codes of the last queue": (
        lambda root: rewrite((root / "consumequeue/Seg2/1").iterdir(), _spoil_tags),
        RuleName.UNIT_TAGS_CODE,
    ),
    "a few magic codes": (of_records(newer_magic, slice(100, 105)), RuleName.LOG_BOUNDARY_LOST),
    "magic codes of different kinds": (
        of_records(lambda record: record.__setitem__(slice(4, 8), record[12:16]), slice(100, 140)),
        RuleName.LOG_BOUNDARY_LOST,
    ),
    "some bodies": (of_records(other_crc, slice(0, 900)), RuleName.RECORD_BODY_CRC),
    "copies beside all files": (
        lambda root: [
            path.with_name(f"{path.name}.bak").write_bytes(path.read_bytes())
            for path in sorted((root / "commitlog").iterdir())
        ].clear(),
        RuleName.FOREIGN_FILE,
    ),
    "sums beside some files": (
        lambda root: [
            path.with_name(f"{path.name}.crc").write_bytes(b"1234")
            for path in sorted((root / "commitlog").iterdir())[:3]
        ].clear(),
        RuleName.FOREIGN_FILE,
    ),
}


def _spoil_tags(data: bytearray) -> None:
    for pos, _, _, tags in list(units(data)):
        struct.pack_into(">q", data, pos + 12, tags ^ 0x55)


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_stays_damage(store_copy: Directory, name: str) -> None:
    change, rule = DAMAGED[name]
    root = store_copy(STORE)
    change(root)
    report = checked(root)
    assert report.counts.get(rule, 0) >= 1 and rule in bad(report)
    assert not {RuleName.REGULAR_DEVIATION, RuleName.RECORD_MAGIC_UNKNOWN} & report.counts.keys()
    assert RuleName.FILES_ALIKE not in report.counts


def test_a_check_that_stops_early_judges_nothing(store_copy: Directory) -> None:
    root = store_copy(STORE)
    HIDDEN["tag codes by another function"][0](root)
    report = check_store(open_store(root), CheckOptions(level="full", jobs=1, stop_after=3))
    assert RuleName.REGULAR_DEVIATION not in report.counts
    assert report.coverage.stopped_after == 3
