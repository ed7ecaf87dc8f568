"""The compacted logs of a broker-written store, sound and with one damage of each kind."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.errors import FormatError
from rocketfsck.formats.consumequeue import BATCH_UNIT, BATCH_UNIT_SIZE
from rocketfsck.reader import compaction as reading
from rocketfsck.reader.compaction import compacted_queues, decode_positions
from rocketfsck.repair.apply.applying import apply_plan
from rocketfsck.repair.plan.planning import make_plan
from rocketfsck.repair.verdict import judge_store
from rocketfsck.store import open_store
from rocketfsck.verify import CheckOptions
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.report import NotChecked, Report
from rocketfsck.verify.run import check_store
from rocketfsck.verify.store import compaction as checks
from rocketfsck.verify.store.compaction import check_compaction
from rocketfsck.verify.tasks.task import Context, Known

from tests.conftest import Directory

NAME = "5.5.0-compaction"
LOG = "compaction/compactionLog/KeptCompact/0/"
UNITS = "compaction/compactionCq/KeptCompact/0/"
FIRST, SECOND = "0" * 20, f"{55200:020d}"
RECORDS, UNITS_USED = 25, 25
NOW = 1_800_000_000_000
POSITIONS = "compaction/position-checkpoint"


class Copy:
    """A copy of the store's compacted logs that a test damages."""

    def __init__(self, store: Path, root: Path) -> None:
        self.root = root
        shutil.copytree(store / "compaction", root / "compaction")
        (root / "checkpoint").write_bytes(bytes(4096))

    def write(self, relative: str, pos: int, data: bytes) -> None:
        with (self.root / relative).open("r+b") as file:
            file.seek(pos)
            file.write(data)

    def read(self, relative: str, pos: int, size: int) -> bytes:
        with (self.root / relative).open("rb") as file:
            file.seek(pos)
            return file.read(size)

    def unit(self, relative: str, number: int) -> dict[str, int]:
        return BATCH_UNIT.parse(self.read(relative, number * BATCH_UNIT_SIZE, BATCH_UNIT_SIZE))

    def change_unit(self, relative: str, number: int, **fields: int) -> None:
        data = BATCH_UNIT.build({**self.unit(relative, number), **fields})
        self.write(relative, number * BATCH_UNIT_SIZE, data)

    def items(self, level: str = "full") -> list[Finding | NotChecked]:
        return list(check_compaction(Context(open_store(self.root), level, 0), Known()))  # type: ignore[arg-type]

    def found(self, level: str = "full") -> list[Finding]:
        items = self.items(level)
        assert all(isinstance(item, Finding) for item in items)
        return [item for item in items if isinstance(item, Finding)]

    def one(self, level: str = "full") -> Finding:
        (finding,) = self.found(level)
        return finding


@pytest.fixture
def copy(real_dir: Directory, tmp_path: Path) -> Copy:
    return Copy(real_dir(NAME), tmp_path)


def test_a_sound_store_has_no_findings(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    assert copy.found() == []
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    assert copy.found() == []
    queues = compacted_queues(open_store(copy.root))
    assert [(queue.topic, queue.queue_id, len(queue.log.files)) for queue in queues] == [
        ("KeptCompact", 0, 2),
        ("KeptCompact", 1, 2),
    ]


@pytest.mark.parametrize(("side", "missing"), [(UNITS, "unit file"), (LOG, "log file")])
def test_kv001_a_file_without_the_other(copy: Copy, side: str, missing: str) -> None:
    (copy.root / side / FIRST).unlink()
    finding = copy.one("quick")
    assert (finding.rule, finding.found["missing"]) == ("KV001", missing)
    other = UNITS if side == LOG else LOG
    assert finding.where.file == other + FIRST


def test_kv001_a_queue_without_units(copy: Copy) -> None:
    shutil.rmtree(copy.root / UNITS)
    found = copy.found()
    assert [finding.rule for finding in found] == ["KV001", "KV001"]


def test_kv002_a_short_file(copy: Copy) -> None:
    with (copy.root / LOG / SECOND).open("r+b") as file:
        file.truncate(20_000)
    finding = copy.one("quick")
    assert (finding.rule, finding.found["size"], finding.expected["size"]) == ("KV002", 20_000, 27_600)
    found = {finding.rule for finding in copy.found()}
    assert found == {"KV002"}  # all records are in what is left


def test_kv002_records_that_are_cut_off(copy: Copy) -> None:
    with (copy.root / LOG / SECOND).open("r+b") as file:
        file.truncate(5_000)
    found = copy.found()
    assert {"KV002", "KV003", "KV005"} == {finding.rule for finding in found}


@pytest.mark.parametrize(
    ("pos", "data", "reason"),
    [
        (4, b"\0\0\0\0", "malformed, magic"),
        (12, b"\0\0\0\7", "the record belongs to another queue"),
        (28, b"\0\0\0\0\0\0\0\7", "physicalOffset is not the record's place in the compaction log"),
        (36, b"\x7f\0\0\0", "sysFlag has bits without a meaning"),
        (52, b"\x7f\0\0\0", "a host has an impossible port"),
        (76, b"\xff\0\0\0\0\0\0\0", "a field is negative"),
    ],
)
def test_kv003_a_record_that_is_none(copy: Copy, pos: int, data: bytes, reason: str) -> None:
    start = copy.unit(UNITS + FIRST, 3)["offset"]
    copy.write(LOG + FIRST, start + pos, data)
    found = [finding for finding in copy.found("cross") if finding.rule == "KV003"]
    assert [finding.found["reason"] for finding in found] == [reason]
    assert (found[0].where.file, found[0].where.start) == (LOG + FIRST, start)


def test_kv003_a_blank_of_a_wrong_length(copy: Copy) -> None:
    last = copy.unit(UNITS + FIRST, UNITS_USED - 1)
    end = last["offset"] + last["size"]
    copy.write(LOG + FIRST, end, struct.pack(">ii", 27_600 - end, -875286124))
    assert copy.found() == []
    copy.write(LOG + FIRST, end, struct.pack(">ii", 27_600 - end - 1, -875286124))
    finding = copy.found()[0]
    assert (finding.rule, finding.where.start) == ("KV003", end)


def test_kv004_a_body_that_changed(copy: Copy) -> None:
    start = copy.unit(UNITS + FIRST, 5)["offset"]
    copy.write(LOG + FIRST, start + 88, b"?")
    finding = copy.one()
    assert (finding.rule, finding.where.start) == ("KV004", start)
    assert finding.where.queue_offset == copy.unit(UNITS + FIRST, 5)["msgBaseOffset"]
    assert copy.found("cross") == []


@pytest.mark.parametrize(
    ("field", "by", "reason"),
    [
        ("offset", 1, "no record of the file begins there"),
        ("size", 1, "size is"),
        ("tagsCode", 1, "tagsCode is"),
        ("storeTime", -5, "storeTime is"),
        ("msgBaseOffset", 1, "msgBaseOffset is"),
        ("batchSize", 1, "batchSize is 2, not 1"),
        ("compactedOffset", 1, "compactedOffset is 0, not -1"),
        ("reserved", 1, "reserved is 1, not 0"),
    ],
)
def test_kv005_a_unit_that_differs_from_its_record(copy: Copy, field: str, by: int, reason: str) -> None:
    value = copy.unit(UNITS + FIRST, 1)[field] + by
    copy.change_unit(UNITS + FIRST, 1, **{field: value})
    found = copy.found()
    assert {finding.rule for finding in found} <= {"KV005", "KV006"}
    (finding,) = (finding for finding in found if finding.rule == "KV005")
    assert str(finding.found["reason"]).startswith(reason)
    assert (finding.where.file, finding.where.start) == (UNITS + FIRST, BATCH_UNIT_SIZE)


def test_kv005_units_behind_an_end(copy: Copy) -> None:
    copy.change_unit(UNITS + FIRST, 10, size=0)
    found = copy.found()
    reasons = [str(finding.found["reason"]) for finding in found if finding.rule == "KV005"]
    assert reasons == [
        "the bytes are neither a unit nor the end of the units",
        "the unit comes after the end of the units",
    ]
    (without,) = (finding for finding in found if finding.rule == "KV006")
    assert without.count == RECORDS - 10


def test_kv005_units_and_bytes_behind_a_tebibyte_of_holes(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Holes are not read, and a unit behind them is found."""
    last = copy.read(UNITS + FIRST, (UNITS_USED - 1) * BATCH_UNIT_SIZE, BATCH_UNIT_SIZE)
    number = (1 << 40) // BATCH_UNIT_SIZE - 1
    copy.write(UNITS + FIRST, number * BATCH_UNIT_SIZE, last)
    found = [finding for finding in copy.found() if finding.rule == "KV005"]
    assert [(finding.where.start, finding.count) for finding in found] == [(number * BATCH_UNIT_SIZE, 1)]
    assert found[0].found["reason"] == "the unit comes after the end of the units"
    monkeypatch.setattr(reading, "BLOCK_COUNT", 3)
    assert [finding.where for finding in copy.found() if finding.rule == "KV005"] == [found[0].where]
    monkeypatch.setattr(reading, "MAX_UNIT_FILE_SIZE", 7 * BATCH_UNIT_SIZE)
    file = next(file for file in compacted_queues(open_store(copy.root))[0].units.files if file.name == FIRST)
    units = reading.read_units(file)
    assert (len(units.rows), units.count, units.end) == (7, 7, b"")


def test_kv006_a_record_without_a_unit(copy: Copy) -> None:
    last = copy.unit(UNITS + FIRST, UNITS_USED - 1)
    copy.write(UNITS + FIRST, (UNITS_USED - 1) * BATCH_UNIT_SIZE, bytes(BATCH_UNIT_SIZE))
    finding = copy.one()
    assert (finding.rule, finding.where.start) == ("KV006", last["offset"])
    assert (finding.where.file, finding.where.queue_offset) == (LOG + FIRST, last["msgBaseOffset"])


def test_kv007_queue_offsets_that_fall(copy: Copy) -> None:
    before = copy.unit(UNITS + FIRST, 3)["msgBaseOffset"]
    copy.change_unit(UNITS + FIRST, 4, msgBaseOffset=before)
    found = [finding for finding in copy.found() if finding.rule == "KV007"]
    assert [(finding.where.start, finding.found["previous"]) for finding in found] == [
        (4 * BATCH_UNIT_SIZE, before)
    ]


def test_kv008_a_key_twice_in_what_was_compacted(copy: Copy) -> None:
    """With a position at the end, the messages of the file that was never compacted count as compacted."""
    (copy.root / POSITIONS).write_text('{"queueOffsetMap": {"KeptCompact_0": 209}}')
    found = copy.found()
    assert found
    assert {finding.rule for finding in found} == {"KV008"}
    first = found[0]
    assert first.found["compacted_queue_offset"] == 209
    assert int(str(first.found["queue_offset"])) < int(str(first.found["later_queue_offset"]))


def test_kv008_the_keys_of_too_many_records(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MAX_KEYED", 0)
    (left_out, _) = copy.items()
    assert isinstance(left_out, NotChecked)
    assert "are compared for the first 0 records only" in left_out.reason


@pytest.mark.parametrize(
    ("content", "offset", "reason"),
    [
        ('{"queueOffsetMap": {"KeptCompact_0": 210}}', 210, "the last message of this queue has offset 209"),
        ('{"queueOffsetMap": {"KeptCompact_0": -7}}', -7, "the last message of this queue has offset 209"),
    ],
)
def test_kv009_a_position_behind_the_queue(copy: Copy, content: str, offset: int, reason: str) -> None:
    (copy.root / POSITIONS).write_text(content)
    (finding,) = (finding for finding in copy.found() if finding.rule == "KV009")
    assert (finding.found["offset"], finding.found["reason"]) == (offset, reason)
    assert finding.found["queue"] == "KeptCompact_0"


@pytest.mark.parametrize("content", ["{", "[]", '{"queueOffsetMap": 1}', '{"queueOffsetMap": {"a": "x"}}'])
def test_kv009_a_damaged_file_of_positions(copy: Copy, content: str) -> None:
    (copy.root / POSITIONS).write_text(content)
    finding = copy.one("quick")
    assert (finding.rule, finding.where.file) == ("KV009", POSITIONS)
    (copy.root / f"{POSITIONS}.bak").write_text(content)
    assert [finding.rule for finding in copy.found()] == ["KV009", "KV009"]
    with pytest.raises(FormatError):
        decode_positions(content.encode())


def test_kv009_no_positions_of_a_queue_that_was_compacted(copy: Copy) -> None:
    for name in (POSITIONS, f"{POSITIONS}.bak"):
        (copy.root / name).unlink()
    found = copy.found("cross")
    assert {finding.rule for finding in found} == {"KV009"}
    assert {(finding.where.file, finding.where.queue_id) for finding in found} == {
        (POSITIONS, 0),
        (POSITIONS, 1),
    }
    assert "were compacted" in str(found[0].found["reason"])


def test_kv009_the_backup_has_the_positions(copy: Copy) -> None:
    (copy.root / POSITIONS).unlink()
    assert copy.found() == []


def test_kv010_what_broken_work_left(copy: Copy) -> None:
    for side in (LOG, UNITS):
        (copy.root / side / "compacting").mkdir()
    shutil.copy(copy.root / LOG / FIRST, copy.root / LOG / "compacting" / FIRST)
    finding = copy.one()
    assert (finding.rule, finding.where.file) == ("KV010", f"{LOG}compacting/{FIRST}")


def test_kv011_a_compaction_topic_without_compacted_log(real_dir: Directory, tmp_path: Path) -> None:
    """A 5.5.0 broker answers NO_MATCHED_LOGIC_QUEUE for both queues."""
    root = tmp_path / "store"
    shutil.copytree(real_dir(NAME), root, ignore=shutil.ignore_patterns("timerwheel"))

    def rules_of(**settings: str) -> list[str]:
        report = check_store(open_store(root, settings=settings), CheckOptions(now_timestamp=NOW))
        return [finding.rule for finding in report.findings if finding.rule.startswith("KV")]

    assert rules_of() == []
    shutil.rmtree(root / "compaction")
    assert rules_of() == ["KV011", "KV011"]
    assert rules_of(enableCompaction="false") == []


def test_files_that_cannot_be_read(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocketfsck.errors import StoreError

    def fail(*_: object) -> bytes:
        raise StoreError("cannot be read", path="x")

    monkeypatch.setattr(reading, "read_whole", fail)
    monkeypatch.setattr("rocketfsck.reader.compaction.read_units", fail)
    items = copy.items()
    assert [getattr(item, "operational", None) for item in items] == [True] * 4


def test_any_byte_of_records_and_units_is_found(copy: Copy) -> None:
    """A flip in each field that means something: the bytes that a client or host chose freely are not."""
    cases: tuple[tuple[str, int], ...] = tuple(
        (UNITS + SECOND, 7 * BATCH_UNIT_SIZE + pos) for pos in range(BATCH_UNIT_SIZE)
    )
    start = copy.unit(UNITS + SECOND, 7)["offset"] - 55200
    cases += tuple((LOG + SECOND, start + pos) for pos in (0, 3, 4, 8, 12, 20, 28, 36, 56, 84, 88))
    flip: Callable[[bytes], bytes] = lambda data: bytes([data[0] ^ 0x40])  # noqa: E731
    missed = []
    for relative, pos in cases:
        was = copy.read(relative, pos, 1)
        copy.write(relative, pos, flip(was))
        if not copy.found():
            missed.append((relative, pos))
        copy.write(relative, pos, was)
    assert missed == []
    assert json.loads((copy.root / POSITIONS).read_text())["queueOffsetMap"]


@pytest.mark.parametrize(
    ("copied", "size", "state"), [(LOG, None, "refused"), (UNITS, None, "refused"), (LOG, 100, "harmful")]
)
def test_a_file_that_was_to_be_deleted(
    real_copy: Directory, copied: str, size: int | None, state: str
) -> None:
    """A broker that compacts renames old files and deletes them later: its next start refuses their names.

    A repair moves such a file aside; one of another length hides its queue.
    """
    root = real_copy(NAME)
    left = root / f"{copied}{FIRST}.delete"
    left.write_bytes((root / copied / FIRST).read_bytes()[:size])
    store = open_store(root)
    report = check_store(store)
    assert worst(report) == {"ST003"}
    assert judge_store(store, report).state == state
    conf = root.parent / "broker.conf"
    conf.write_text("enableCompaction=false\n")
    assert worst(check_store(open_store(root, broker_conf=conf))) == set()
    assert apply_plan(make_plan(store, report), keep=False).published
    assert not left.exists()
    store = open_store(root)
    assert judge_store(store, check_store(store)).state == "healthy"


def worst(report: Report) -> set[str]:
    return {rule for rule, count in report.counts.items() if count and report.severity_of(rule) > 0}
