"""The rules CQ: each fires on the damage it is for, at its place, and not without it."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable

import pytest

from rocketfsck.reader.units import Kind, read_blocks
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.queues import unitcompare, unitruns
from rocketfsck.verify.queues.file import check_queues
from rocketfsck.verify.queues.unitruns import RunList, UnitRun, shape_of
from rocketfsck.verify.tasks.task import Context, QueueFacts, QueuesTask

from tests.conftest import Directory
from tests.unit.verify.damage import NOW, Damage

Copy = Callable[[str], Damage]

SEG = "consumequeue/Seg0/0"
PRE_BLANK = (0, (1 << 31) - 1, 0)


@pytest.fixture
def copy(store_copy: Directory) -> Copy:
    return lambda name: Damage(store_copy(name))


def place(finding: Finding) -> tuple[str, int | None, int | None]:
    return finding.where.file, finding.where.start, finding.where.queue_offset


def test_cq001_a_hole_and_the_records_it_hides(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    file = store.files(SEG)[0]
    store.write(file, 20 * 30, bytes(60))
    result = store.check()
    assert result.rules == {"CQ001", "XR001"}
    assert place(result.one("CQ001")) == (file, 600, 30)
    assert result.one("CQ001").found["unit_count"] == 3
    missing = result.one("XR001")
    assert (missing.where.queue_offset, missing.found["last_queue_offset"]) == (30, 32)
    assert missing.found["reason"] == "the place of the unit is empty"


def test_cq001_a_hole_over_two_files(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    first, second = store.files(SEG)[:2]
    store.write(first, 1140, bytes(60))
    store.write(second, 0, bytes(40))
    finding = store.check().one("CQ001")
    assert place(finding) == (first, 1140, 57)
    assert finding.found["unit_count"] == 5


def test_cq002_units_out_of_order(copy: Copy) -> None:
    store = copy("5.1.3-basic")
    file = store.files("consumequeue/BetaBulk0/0")[0]
    units = store.units(file)
    store.unit(file, 4, *units[5])
    store.unit(file, 5, *units[4])
    result = store.check()
    finding = result.one("CQ002")
    assert place(finding) == (file, 100, 5)
    assert finding.where.physical_offset == units[4][0]
    assert finding.found["previous_physical_offset"] == units[5][0]


def test_cq002_between_two_blocks(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_blocks, "__defaults__", (4,))
    store = copy("5.1.3-basic")
    assert store.check().rules == set()
    file = store.files("consumequeue/BetaBulk0/0")[0]
    units = store.units(file)
    store.unit(file, 4, *units[2])
    assert place(store.check().one("CQ002")) == (file, 80, 4)


def test_cq003_pre_blanks_in_the_middle(copy: Copy) -> None:
    store = copy("4.9.8-multiseg")
    file = store.files(SEG)[1]
    store.unit(file, 3, *PRE_BLANK)
    store.unit(file, 4, *PRE_BLANK)
    result = store.check()
    finding = result.one("CQ003")
    assert place(finding) == (file, 60, 63)
    assert finding.found["unit_count"] == 2
    assert result.rules == {"XR001"}
    assert result.one("XR001").found["reason"] == "a pre-blank unit is in its place"


def test_cq003_not_at_the_start(copy: Copy) -> None:
    """A queue whose first units expired as pre-blanks is legal: they are below the log's start."""
    store = copy("4.9.8-expired")
    queue = store.root / "consumequeue/Exp0/0"
    file = store.files("consumequeue/Exp0/0")[0]
    first = int(file.rpartition("/")[2])
    assert first > 0
    assert len(store.files("consumequeue/Exp0/0")) > 1
    for number in range(5):
        store.unit(file, number, *PRE_BLANK)
    result = store.check()
    assert result.rules == set()
    assert queue.is_dir()


def test_cq004_stale_units_behind_the_end(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    units = store.units(file)
    end = next(number for number, unit in enumerate(units) if not unit[1])
    store.unit(file, end + 2, *units[3])
    store.unit(file, end + 3, *units[4])
    result = store.check()
    finding = result.one("CQ004")
    assert place(finding) == (file, 20 * (end + 2), end + 2)
    assert finding.found["unit_count"] == 2
    assert result.rules == {"CQ004", "XR005"}


@pytest.mark.parametrize("distance", [0, 2])
def test_cq004_pre_blanks_behind_the_end(copy: Copy, distance: int) -> None:
    """A broker counts those that directly follow the last unit, and others once it comes to them."""
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    end = next(number for number, unit in enumerate(store.units(file)) if not unit[1]) + distance
    store.unit(file, end, *PRE_BLANK)
    store.unit(file, end + 1, *PRE_BLANK)
    result = store.check()
    finding = result.one("CQ004")
    assert place(finding) == (file, 20 * end, end)
    assert finding.found["unit_count"] == 2
    assert result.rules == {"CQ004"}


def test_cq004_pre_blanks_between_the_end_and_stale_units(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    units = store.units(file)
    end = next(number for number, unit in enumerate(units) if not unit[1])
    store.unit(file, end, *PRE_BLANK)
    store.unit(file, end + 1, *units[3])
    found = [finding for finding in store.check().findings if finding.rule == "CQ004"]
    assert [(place(finding), finding.count) for finding in found] == [
        ((file, 20 * end, end), 1),
        ((file, 20 * end + 20, end + 1), 1),
    ]


def test_cq005_garbage(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    store.unit(file, 7, -5, 100, 0)
    finding = store.check().one("CQ005")
    assert place(finding) == (file, 140, 7)
    assert (finding.where.physical_offset, finding.found["size"]) == (-5, 100)


def test_cq005_at_the_end(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    end = next(number for number, unit in enumerate(store.units(file)) if not unit[1])
    store.unit(file, end, 0, 0, 77)
    assert store.check().rules == {"CQ005"}


def test_cq006_a_cut_unit(copy: Copy) -> None:
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    end = next(number for number, unit in enumerate(store.units(file)) if not unit[1])
    store.truncate(file, 20 * end - 7)
    finding = store.check().one("CQ006")
    assert (finding.where.start, finding.where.end) == (20 * end - 20, 20 * end - 7)
    assert finding.found["byte_count"] == 13


def test_cq007_an_empty_last_file(copy: Copy) -> None:
    store = copy("5.1.3-expired")
    files = store.files("consumequeue/Exp0/0")
    last = files[-1]
    following = f"consumequeue/Exp0/0/{int(last.rpartition('/')[2]) + 500:020d}"
    (store.root / following).write_bytes(bytes(500))
    result = store.check()
    finding = result.one("CQ007")
    assert (finding.where.file, finding.where.start) == (following, 0)
    assert result.rules == {"CQ007"}


def test_cq008_and_cq009_expired_units_are_normal(copy: Copy) -> None:
    store = copy("4.9.8-expired")
    result = store.check()
    assert len(result.of("CQ009")) == 4
    assert result.rules == set()
    for file in store.files("commitlog")[:2]:
        (store.root / file).unlink()
    (store.root / "consumequeue/Old/0").mkdir(parents=True)
    unit = struct.pack(">qiq", 100, 200, 5)
    (store.root / "consumequeue/Old/0/00000000000000000000").write_bytes(unit + bytes(480))
    result = store.check()
    finding = result.one("CQ008")
    assert (finding.where.topic, finding.found["unit_count"]) == ("Old", 1)
    assert result.rules == set()


def test_cq010_nothing_but_pre_blanks(copy: Copy) -> None:
    store = copy("4.9.8-expired")
    (store.root / "consumequeue/Blank/0").mkdir(parents=True)
    unit = struct.pack(">qiq", *PRE_BLANK) * 7
    (store.root / "consumequeue/Blank/0/00000000000000000000").write_bytes(unit + bytes(360))
    result = store.check()
    assert result.one("CQ010").found["unit_count"] == 7
    assert result.rules == set()


def _ext(store: Damage) -> tuple[str, str, list[tuple[int, int, int]]]:
    """A queue's first file, its extension file and its units."""
    ext = store.files("consumequeue_ext")[0]
    topic, queue_id = ext.split("/")[1:3]
    file = store.files(f"consumequeue/{topic}/{queue_id}")[0]
    return file, ext, store.units(file)


def test_cq011_an_address_where_no_unit_starts(copy: Copy) -> None:
    store = copy("4.9.8-cqext")
    assert store.check().rules == set()
    file, _, units = _ext(store)
    offset, size, tags_code = units[6]
    store.unit(file, 6, offset, size, tags_code + 3)
    result = store.check()
    finding = result.one("CQ011")
    assert place(finding) == (file, 120, 6)
    assert finding.found["ext_offset"] == tags_code + 3 + (1 << 63)
    store.unit(file, 6, offset, size, tags_code + (1 << 40))  # behind all files
    assert place(store.check().one("CQ011")) == (file, 120, 6)


def test_cq011_without_any_extension_file(copy: Copy) -> None:
    store = copy("4.9.8-cqext")
    shutil.rmtree(store.root / "consumequeue_ext")
    result = store.check()
    assert "CQ011" in result.rules
    assert sum(f.count for f in result.of("CQ011")) == 400


def test_cq012_and_cq013_what_no_unit_names(copy: Copy) -> None:
    store = copy("4.9.8-cqext")
    file, ext, _ = _ext(store)
    data = store.read(ext)
    end = len(data.rstrip(b"\0"))
    while end % 2:
        end += 1
    # the last unit again, behind itself: named by nothing
    size = struct.unpack_from(">h", data, 0)[0]
    pos = 0
    while struct.unpack_from(">h", data, pos)[0] > 0:
        pos += struct.unpack_from(">h", data, pos)[0]
    store.write(ext, pos, data[:size])
    result = store.check()
    assert (result.one("CQ013").where.file, result.one("CQ013").where.start) == (ext, pos)
    assert result.rules == set()
    store.write(ext, pos + 18, b"\x00\x09")
    finding = store.check().one("CQ012")
    assert (finding.where.file, finding.where.start) == (ext, pos)
    store.write(ext, pos, b"\x00\x05")
    assert store.check().one("CQ012").found["reason"] == "unit size 5"
    store.write(ext, pos, b"\xff\xff")
    assert store.check().rules == set()
    assert file.startswith("consumequeue/")


def test_cq013_units_skipped_by_the_addresses(copy: Copy) -> None:
    store = copy("4.9.8-cqext")
    file, ext, units = _ext(store)
    # one unit with its plain tagsCode instead of an address: its extension unit is named no more
    head = store.read(ext, units[4][2] + (1 << 63), 20)
    store.unit(file, 4, units[4][0], units[4][1], struct.unpack_from(">q", head, 2)[0])
    result = store.check()
    assert result.one("CQ013").found["unit_count"] == 1
    assert result.rules == set()


def test_ext_the_walk_has_a_limit(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unitcompare, "WALK_LIMIT", 0)
    store = copy("4.9.8-cqext")
    assert store.check().rules == set()


BATCH = "batchconsumequeue/IbTopic/0"


def _batch(store: Damage) -> str:
    return store.files("batchconsumequeue")[0]


def test_cq014_bases_that_do_not_follow(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    assert store.check().rules == set()
    file = _batch(store)
    base = struct.unpack_from(">q", store.read(file), 46 * 2 + 28)[0]
    store.write(file, 46 * 2 + 28, struct.pack(">q", base + 1))
    result = store.check()
    finding = result.of("CQ014")[0]
    assert (finding.where.file, finding.where.start) == (file, 92)
    assert finding.found["unit_number"] == 2
    assert (finding.where.queue_offset, finding.expected["queue_offset"]) == (base + 1, base)
    assert result.rules == {"CQ014", "XR014"}


def test_cq015_reserved_fields(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    file = _batch(store)
    store.write(file, 46 * 3 + 38, struct.pack(">ii", 9, 8))
    result = store.check()
    finding = result.one("CQ015")
    assert (finding.found["compacted_offset"], finding.found["reserved"]) == (9, 8)
    assert result.rules == {"CQ015"}


def test_batch_units_that_are_invalid_or_missing(copy: Copy) -> None:
    store = copy("5.0.0-innerbatch")
    file = _batch(store)
    store.write(file, 46 * 2 + 36, b"\x00\x00")  # batchSize 0
    result = store.check()
    assert "CQ005" in result.rules
    store.write(file, 46 * 2, bytes(46))
    result = store.check()
    assert {"CQ001", "XR001"} <= result.rules


@pytest.mark.parametrize("name", ["5.3.3-multiseg", "5.0.0-innerbatch", "4.9.8-expired", "5.1.3-basic"])
def test_quick_finds_the_same_ends(copy: Copy, name: str) -> None:
    store = open_store(copy(name).root)
    facts = {}
    for level in ("quick", "full"):
        task = QueuesTask(Context(store, level, NOW), 0, len(store.queues))
        facts[level] = [
            (f.topic, f.queue_id, f.min_offset, f.max_offset, f.min_live_offset, f.max_physical_end)
            for f in check_queues(task).facts
            if isinstance(f, QueueFacts)
        ]
    assert facts["quick"] == facts["full"]
    assert len(facts["full"]) == len(store.queues)


def test_runs_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch, copy: Copy) -> None:
    monkeypatch.setattr(unitruns, "MAX_RUNS", 3)
    store = copy("5.1.3-collisions")
    file = store.files("consumequeue")[0]
    for number in (4, 8, 12):
        store.unit(file, number, -1, -1, 0)
    result = store.check()
    assert sum(f.count for f in result.of("CQ005")) > 3


def test_shape_of_a_queue() -> None:
    runs = RunList()
    assert shape_of(runs.runs, 5).end == 5
    runs.add(UnitRun(Kind.UNIT, 5, 8, 100, 300, 400))
    runs.add(UnitRun(Kind.UNIT, 8, 9, 400, 400, 500))
    runs.add(UnitRun(Kind.ZERO, 9, 20, 0, 0, 0))
    shape = shape_of(runs.runs, 5)
    assert (shape.start, shape.end, shape.unit_count, shape.last_end, shape.flaws) == (5, 9, 4, 500, ())
