"""The tiered storage of a broker-written store, sound and with one damage of each kind."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.dtypes import TIERED_COMPACTED_ITEM_DTYPE, TIERED_ITEM_DTYPE
from rocketfsck.formats.tiered import (
    TIERED_CODA,
    TIERED_COMPACTED_ITEM,
    TIERED_COMPACTED_SLOT,
    TIERED_INDEX_HEADER,
    TIERED_INDEX_MAGIC_BEGIN,
    segment_name,
)
from rocketfsck.reader.tiered import METADATA, read_metadata
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.report import NotChecked
from rocketfsck.verify.rules.catalog import find_rule
from rocketfsck.verify.run import check_store
from rocketfsck.verify.tasks.task import Context
from rocketfsck.verify.tiered import check, indexes, queues
from rocketfsck.verify.tiered.check import check_tiered

from tests.conftest import Directory

NAME = "5.5.0-tiered"
BROKER = "tiered/d5771ffb_RealCluster/broker-a/"
FIRST = segment_name(0)
LOG = f"{BROKER}TierOrder/0/COMMIT_LOG/{FIRST}"
UNITS = f"{BROKER}TierOrder/0/CONSUME_QUEUE/{FIRST}"
INDEX = f"{BROKER}rmq_sys_INDEX/0/INDEX/"
LOG_SIZE, UNITS_SIZE, LAST_TIME = 8720, 480, 1795334824615
SLOTS = 101


class Copy:
    """A copy of what a store has of tiered storage and of its own log, for a test to damage."""

    def __init__(self, store: Path, root: Path) -> None:
        self.root = root
        self.broker_conf: Path | None = None
        for name in ("tiered", "commitlog", "consumequeue"):
            shutil.copytree(store / name, root / name)
        (root / "config").mkdir()
        shutil.copy(store / METADATA, root / METADATA)

    def write(self, relative: str, pos: int, data: bytes) -> None:
        with (self.root / relative).open("r+b") as file:
            file.seek(pos)
            file.write(data)

    def read(self, relative: str, pos: int, size: int) -> bytes:
        with (self.root / relative).open("rb") as file:
            file.seek(pos)
            return file.read(size)

    def truncate(self, relative: str, size: int) -> None:
        with (self.root / relative).open("r+b") as file:
            file.truncate(size)

    def unit(self, number: int) -> dict[str, int]:
        return UNIT.parse(self.read(UNITS, number * 20, 20))

    def change_unit(self, number: int, **fields: int) -> None:
        self.write(UNITS, number * 20, UNIT.build({**self.unit(number), **fields}))

    def change_metadata(self, old: str, new: str, after: str = "") -> None:
        """Replace the first `old` behind `after`."""
        text = (self.root / METADATA).read_text()
        start = text.index(after)
        assert old in text[start:]
        (self.root / METADATA).write_text(text[:start] + text[start:].replace(old, new, 1))

    def items(self, level: str = "full") -> list[Finding | NotChecked]:
        store = open_store(self.root, broker_conf=self.broker_conf)
        return check_tiered(Context(store, level, 0)).items  # type: ignore[arg-type]

    def found(self, level: str = "full") -> list[Finding]:
        items = self.items(level)
        assert [item for item in items if isinstance(item, NotChecked)] == []
        return [item for item in items if isinstance(item, Finding)]

    def one(self, level: str = "full") -> Finding:
        (finding,) = self.found(level)
        return finding

    def rules(self, level: str = "full") -> set[str]:
        return {finding.rule for finding in self.found(level)}


@pytest.fixture
def copy(real_dir: Directory, tmp_path: Path) -> Copy:
    return Copy(real_dir(NAME), tmp_path)


def test_a_sound_store_has_no_findings(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    for level in ("quick", "cross", "full"):
        assert copy.found(level) == []
    monkeypatch.setenv("ROCKETFSCK_KERNELS", "compiled")
    monkeypatch.setattr(queues, "BLOCK", 3)
    for size in (7, 1):  # some slots have more than one item
        monkeypatch.setattr(indexes, "BLOCK", size)
        assert copy.found() == []
    checked = check_tiered(Context(open_store(copy.root), "full", 0)).checked
    assert (checked.file_count, checked.record_count, checked.unit_count, checked.entry_count) == (
        25,
        253,
        253,
        376,
    )


def test_a_check_of_the_whole_store(real_dir: Directory) -> None:
    report = check_store(open_store(real_dir(NAME)))
    assert {str(item.severity) for item in map(find_rule, report.counts)} <= {str(Severity.INFO)}
    assert report.not_checked == ()
    assert report.checked["tiered"].record_count == 253


def test_ts001_metadata_that_cannot_be_loaded(copy: Copy) -> None:
    text = (copy.root / METADATA).read_text()
    (copy.root / METADATA).write_text(text[:500])
    finding = copy.one("quick")
    assert (finding.rule, finding.where.file) == ("TS001", METADATA)
    (copy.root / f"{METADATA}.bak").write_text(text)
    assert copy.rules("quick") == {"TS001"}
    assert read_metadata(open_store(copy.root)) is not None
    for name in (METADATA, f"{METADATA}.bak"):
        (copy.root / name).unlink()
    assert copy.rules() == {"TS001"}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ('"path":"broker-a/TierOrder/0"', '"path":"broker-a/TierOrder/1"', {"TS001"}),
        ('"type":0', '"type":1', {"TS001"}),
        ('"size":8720', '"size":-1', {"TS001", "TS003"}),
        ('"size":8720', '"size":"x"', {"TS001"}),
        ('"size":8720', '"size":8000', {"TS005"}),
        ('"size":8720', '"size":9000', {"TS004"}),
    ],
)
def test_rows_of_the_metadata(copy: Copy, old: str, new: str, rules: set[str]) -> None:
    copy.change_metadata(old, new, '"broker-a/TierOrder/0":{')
    assert copy.rules("quick") == rules


def test_ts001_tables_and_topics(copy: Copy) -> None:
    copy.change_metadata('"topicId":5', '"topicId":3')
    assert "of TierBulk" in str(copy.found("quick")[0].found["reason"])
    (copy.root / METADATA).write_text("[]")
    assert copy.rules("quick") == {"TS001"}
    (copy.root / METADATA).write_text('{"commitLogFileSegmentTable":{"a/b/0":3}}')
    assert copy.rules("quick") == {"TS001"}


def test_ts002_a_segment_that_is_not_there(copy: Copy) -> None:
    (copy.root / LOG).unlink()
    finding = copy.one("quick")
    assert (finding.rule, finding.where.file, finding.found["size"]) == ("TS002", LOG, LOG_SIZE)
    shutil.rmtree((copy.root / LOG).parent)
    finding = copy.one("quick")
    assert (finding.rule, finding.where.file) == ("TS002", LOG)
    found = copy.found()
    assert {finding.rule for finding in found} == {"TS002", "TS012", "TS022"}
    (units,) = (finding for finding in found if finding.rule == "TS012")
    assert (units.count, units.where.start, units.where.end) == (24, 0, UNITS_SIZE)


def test_ts003_a_segment_that_the_metadata_does_not_have(copy: Copy) -> None:
    strange = str(Path(LOG).with_name(segment_name(LOG_SIZE)))
    (copy.root / strange).write_bytes(b"")
    assert copy.found("quick") == []  # as a broker makes it just before it enters it in the metadata
    (copy.root / strange).write_bytes(bytes(100))
    finding = copy.one("quick")
    assert (finding.rule, finding.where.file) == ("TS003", strange)


def test_a_name_that_no_segment_has_is_a_stray(copy: Copy) -> None:
    (copy.root / LOG).rename((copy.root / LOG).with_name("0" * 28))
    assert copy.rules("quick") == {"TS002"}
    assert [stray.relative for stray in open_store(copy.root).strays] == [LOG.replace(FIRST, "0" * 28)]


def test_ts004_a_log_that_is_cut(copy: Copy) -> None:
    copy.truncate(LOG, LOG_SIZE - 10)
    finding = copy.one("quick")
    assert (finding.rule, finding.found["size"], finding.expected["size"]) == ("TS004", 8710, LOG_SIZE)
    assert copy.rules() == {"TS004", "TS010", "TS022"}


def test_ts004_units_that_are_cut(copy: Copy) -> None:
    copy.truncate(UNITS, UNITS_SIZE - 40)
    found = copy.found()
    assert [finding.rule for finding in found] == ["TS004", "TS013"]
    assert (found[1].count, found[1].where.queue_offset, found[1].where.file) == (2, 22, LOG)
    copy.truncate(UNITS, UNITS_SIZE - 47)
    assert [finding.rule for finding in copy.found()] == ["TS004", "TS013", "TS012"]


def test_ts006_a_segment_that_does_not_follow(copy: Copy) -> None:
    row = (
        '20:{"path":"broker-a/Warm/0","type":1,"baseOffset":20,"status":0,"size":0,'
        '"beginTimestamp":9223372036854775807,"endTimestamp":9223372036854775807},'
    )
    start = '"consumeQueueFileSegmentTable":{\n\t\t"broker-a/Warm/0":{'
    copy.change_metadata(start, start + row)
    assert copy.found("quick") == []  # nothing was written to it yet
    copy.change_metadata('"size":20,', '"size":19,')
    assert copy.rules("quick") == {"TS005", "TS006"}


@pytest.mark.parametrize("name", ["beginTimestamp", "endTimestamp"])
@pytest.mark.parametrize("table", ["commitLog", "consumeQueue"])
def test_ts007_times_of_the_metadata(copy: Copy, name: str, table: str) -> None:
    text = (copy.root / METADATA).read_text()
    start = text.index('"broker-a/TierOrder/0":{', text.index(f'"{table}FileSegmentTable"'))
    head, rest = text[:start], text[start:]
    assert f'"{name}":1795334824' in rest
    (copy.root / METADATA).write_text(head + rest.replace(f'"{name}":1795334824', f'"{name}":1795334823', 1))
    finding = copy.one()
    assert (finding.rule, finding.found["field"]) == ("TS007", name)
    assert finding.where.file == (LOG if table == "commitLog" else UNITS)
    assert copy.found("quick") == []


@pytest.mark.parametrize(
    ("pos", "data", "rules"),
    [
        (4, b"\x12", {"TS010", "TS012", "TS022"}),  # magic code
        (3, b"\x01", {"TS010", "TS012", "TS014", "TS022"}),  # total size
        (12, b"\0\0\0\x07", {"TS010", "TS012"}),  # queueId
        (20, b"\0\0\0\0\0\0\0\x50", {"TS012", "TS013"}),  # queueOffset
        (28, b"\0\0\0\0\0\0\0\x50", {"TS010"}),  # physicalOffset
        (88, b"?", {"TS011"}),  # body
        (16, b"\0\0\0\x63", {"TS014"}),  # flag
        (56, b"\0\0\1\xa2\2K\0\0", {"TS007"}),  # storeTimestamp
    ],
)
def test_damaged_records(copy: Copy, pos: int, data: bytes, rules: set[str]) -> None:
    assert copy.unit(0)["offset"] == 0
    copy.write(LOG, pos, data)
    found = copy.found()
    assert {finding.rule for finding in found} == rules
    mine = [finding for finding in found if finding.rule != "TS022"]
    assert all(finding.where.file in (LOG, UNITS) for finding in mine)


def test_ts011_is_a_matter_of_bodies(copy: Copy) -> None:
    copy.write(LOG, 88, b"?")
    finding = copy.one()
    assert (finding.where.start, finding.where.queue_offset) == (0, 0)
    assert copy.found("cross") == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"offset": 8720}, "beyond the end"),
        ({"offset": 3}, "no record"),
        ({"offset": 0}, "another message"),
        ({"size": 5}, "size is"),
        ({"tagsCode": 5}, "tagsCode is"),
    ],
)
def test_ts012_units(copy: Copy, fields: Mapping[str, int], reason: str) -> None:
    copy.change_unit(5, **fields)
    found = copy.found()
    assert {finding.rule for finding in found} == {"TS012"}
    assert all((finding.where.file, finding.where.start) == (UNITS, 100) for finding in found)
    assert reason in str(found[-1].found["reason"]) or reason in str(found[0].found["reason"])


def test_neighbours_that_are_wrong_in_the_same_way_are_one_finding(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "BLOCK", 4)
    for number in (2, 3, 4, 6):
        copy.change_unit(number, offset=1 << 40)
    copy.change_unit(5, offset=3)
    found = [
        (finding.where.queue_offset, finding.where.start, finding.where.end, finding.count)
        for finding in copy.found()
        if finding.rule == "TS012"
    ]
    assert found == [(2, 40, 100, 3), (5, 100, 120, 1), (6, 120, 140, 1)]
    (first, *_) = (finding for finding in copy.found() if finding.rule == "TS012")
    assert "; the same is true of 2 more units after it" in str(first.found["reason"])


def test_units_of_zeros_and_holes_of_a_tebibyte(copy: Copy) -> None:
    """Zeros that are stored and those of holes are one finding, however many there are."""
    copy.write(UNITS, UNITS_SIZE, bytes(40))
    copy.truncate(UNITS, 1 << 40)
    found = copy.found()
    assert {finding.rule for finding in found} == {"TS005", "TS012"}
    rest = (1 << 40) // 20 * 20
    places = [
        (finding.where.start, finding.where.end, finding.count)
        for finding in found
        if finding.rule == "TS012"
    ]
    assert places == [(UNITS_SIZE, rest, (rest - UNITS_SIZE) // 20), (rest, 1 << 40, 1)]
    (copy.root / LOG).unlink()
    reasons = [str(finding.found["reason"]) for finding in copy.found() if finding.rule == "TS012"]
    assert [reason.partition(";")[0] for reason in reasons] == [
        "the queue has no log",
        "16 bytes, less than a unit",
    ]


def test_a_segment_of_units_that_reaches_into_the_next(copy: Copy) -> None:
    """The next one has the units from its first on; runs do not go beyond a file."""
    data = (copy.root / UNITS).read_bytes()
    second = str(Path(UNITS).with_name(segment_name(200)))
    (copy.root / second).write_bytes(data[200:])
    copy.truncate(UNITS, 20 << 36)
    assert "TS012" not in copy.rules()
    for number in (9, 10):
        copy.change_unit(number, offset=1 << 40)
    copy.write(second, 0, UNIT.build({**copy.unit(9)}))
    found = [finding.where for finding in copy.found() if finding.rule == "TS012"]
    assert [(where.file, where.start, where.end) for where in found] == [(UNITS, 180, 200), (second, 0, 20)]


def test_units_of_messages_that_expired_are_right(copy: Copy) -> None:
    """The log's first segment is deleted by its own times."""
    second = copy.unit(1)["offset"]
    data = (copy.root / LOG).read_bytes()[second:]
    (copy.root / LOG).unlink()
    later = Path(LOG).with_name(segment_name(second))
    (copy.root / later).write_bytes(data)
    copy.change_metadata("\t0:{", f"\t{second}:{{", '"broker-a/TierOrder/0":{')
    copy.change_metadata('"baseOffset":0', f'"baseOffset":{second}', '"broker-a/TierOrder/0":{')
    copy.change_metadata('"size":8720', f'"size":{8720 - second}')
    copy.change_metadata('"beginTimestamp":1795334824174', f'"beginTimestamp":{_time(data)}')
    assert copy.found() == []


def _time(record: bytes) -> int:
    return int(struct.unpack_from(">q", record, 56)[0])


def test_ts014_the_commit_log_has_another_message(copy: Copy) -> None:
    head = copy.read(LOG, 0, 24)
    log = next((copy.root / "commitlog").iterdir())
    pos = next(
        file_pos
        for file in sorted((copy.root / "commitlog").iterdir())
        if (log := file) and (file_pos := file.read_bytes().find(head)) >= 0
    )
    copy.write(str(log.relative_to(copy.root)), pos + 8, b"\0\0\0\1")
    finding = copy.one("cross")
    assert (finding.rule, finding.found["field"], finding.expected["value"]) == ("TS014", "bodyCRC", 1)
    assert (finding.where.file, finding.where.start, finding.expected["offset"]) == (LOG, 0, pos)


def test_ts015_a_coda(copy: Copy) -> None:
    """Brokers up to 5.2.0 end a full segment with it."""
    coda = {"size": 16, "magicCode": -875286124, "maxStoreTimestamp": LAST_TIME}
    data = (copy.root / LOG).read_bytes()
    (copy.root / LOG).write_bytes(data + TIERED_CODA.build(coda))
    copy.change_metadata('"size":8720', '"size":8736')
    assert copy.found() == []
    (copy.root / LOG).write_bytes(data + TIERED_CODA.build({**coda, "maxStoreTimestamp": 1}))
    finding = copy.one()
    assert (finding.rule, finding.where.start, finding.where.end) == ("TS015", 8720, 8736)
    (copy.root / LOG).write_bytes(data + TIERED_CODA.build({**coda, "size": 20}))
    assert copy.rules() == {"TS010"}


def test_units_may_point_to_a_coda(copy: Copy) -> None:
    """So do those of brokers up to 5.2.0, for the first record of a segment."""
    size = copy.unit(23)["offset"]
    data = (copy.root / LOG).read_bytes()
    last = bytearray(data[size:])
    struct.pack_into(">q", last, 28, size + 16)
    coda = TIERED_CODA.build(
        {"size": 16, "magicCode": -875286124, "maxStoreTimestamp": _time(data[copy.unit(22)["offset"] :])}
    )
    (copy.root / LOG).write_bytes(data[:size] + coda)
    following = Path(LOG).with_name(segment_name(size + 16))
    (copy.root / following).write_bytes(last)
    row = (
        f'{size + 16}:{{"path":"broker-a/TierOrder/0","type":0,"baseOffset":{size + 16},"status":0,'
        f'"size":{len(last)},"beginTimestamp":{LAST_TIME},"endTimestamp":{LAST_TIME}}},'
    )
    copy.change_metadata('"broker-a/TierOrder/0":{', '"broker-a/TierOrder/0":{' + row)
    copy.change_metadata('"size":8720', f'"size":{size + 16}')
    copy.change_metadata(f'"endTimestamp":{LAST_TIME},\n', '"endTimestamp":1,\n', f'"size":{size + 16}')
    assert copy.rules() == {"TS007"}


def test_an_index_segment_begins_without_a_byte(copy: Copy) -> None:
    """A broker that stops makes the segment, writes it down, and may end before the upload."""
    last = sorted((copy.root / INDEX).iterdir(), key=lambda path: path.name[8:])[-1]
    copy.truncate(f"{INDEX}{last.name}", 0)
    assert copy.rules("quick") == {"TS004", "TS020"}
    copy.change_metadata('"size":3076', '"size":0', "indexFileSegmentTable")
    assert copy.rules() == set()


@pytest.mark.parametrize(
    ("field", "value"),
    [("magicCode", 7), ("beginTimestamp", 7), ("endTimestamp", 7), ("indexCount", 7), ("slotCount", 7)],
)
def test_ts020_headers(copy: Copy, field: str, value: int) -> None:
    header = TIERED_INDEX_HEADER.parse(copy.read(INDEX + FIRST, 0, 28))
    copy.write(INDEX + FIRST, 0, TIERED_INDEX_HEADER.build({**header, field: value}))
    rules = copy.rules("cross" if field == "slotCount" else "quick")
    assert rules == {"TS020"}
    copy.truncate(INDEX + FIRST, 20)
    assert copy.rules("quick") == {"TS004", "TS020"}


@pytest.mark.parametrize("fields", [{"position": 900}, {"length": 29}, {"length": -28}, {"length": 1 << 30}])
def test_ts021_slots(copy: Copy, fields: Mapping[str, int]) -> None:
    slot = TIERED_COMPACTED_SLOT.parse(copy.read(INDEX + FIRST, 28, 8))
    assert slot == {"position": 836, "length": 28}
    copy.write(INDEX + FIRST, 28, TIERED_COMPACTED_SLOT.build({**slot, **fields}))
    (first,) = [finding for finding in copy.found() if finding.rule == "TS021"]  # those after it are right
    assert (first.where.start, first.where.slot) == (28, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hash": 1}, "belongs to slot"),
        ({"topicId": 99}, "topicId 99"),
        ({"queueId": -1}, "queueId -1"),
        ({"offset": 1}, "where no record begins"),
        ({"offset": 1 << 40}, "beyond the end"),
        ({"offset": -1}, "in front of all offsets"),
        ({"size": 1}, "to a record of another size"),
    ],
)
def test_ts022_items(copy: Copy, fields: Mapping[str, int], reason: str) -> None:
    item = TIERED_COMPACTED_ITEM.parse(copy.read(INDEX + FIRST, 836, 28))
    copy.write(INDEX + FIRST, 836, TIERED_COMPACTED_ITEM.build({**item, **fields}))
    found = [finding for finding in copy.found() if finding.rule == "TS022"]
    assert {(finding.where.file, finding.where.start, finding.where.entry) for finding in found} == {
        (INDEX + FIRST, 836, 0)
    }
    assert any(reason in str(finding.found["reason"]) for finding in found)
    assert copy.rules() == {"TS022", "TS023"}


def test_ts022_the_key_of_another_message(copy: Copy) -> None:
    item = TIERED_COMPACTED_ITEM.parse(copy.read(INDEX + FIRST, 836, 28))
    copy.write(INDEX + FIRST, 836, TIERED_COMPACTED_ITEM.build({**item, "hash": item["hash"] + SLOTS}))
    assert copy.rules() >= {"TS022", "TS023"}


def test_ts023_an_index_file_that_is_gone(copy: Copy) -> None:
    (copy.root / INDEX / FIRST).unlink()
    assert copy.rules() == {"TS002", "TS023"}


def written_index(copy: Copy, begin: int, room: int = 400) -> Path:
    """The items of the segments as they were before they were compacted, in `tiered_index_file/`."""
    rows = []
    for file in sorted((copy.root / INDEX).iterdir(), key=lambda path: path.name[8:]):
        data = file.read_bytes()
        header = TIERED_INDEX_HEADER.parse(data)
        items = np.frombuffer(data, TIERED_COMPACTED_ITEM_DTYPE, header["indexCount"], 28 + SLOTS * 8)
        shift = header["beginTimestamp"] - begin
        rows += [(*item[:5], (shift + item[5] * 1000) // 1000) for item in items.tolist()]
    slots = [0] * SLOTS
    items = np.zeros(room, TIERED_ITEM_DTYPE)
    for number, row in enumerate(rows, 1):
        slot = row[0] % SLOTS
        items[number] = (*row, slots[slot])
        slots[slot] = number
    head = TIERED_INDEX_HEADER.build(
        {
            "magicCode": TIERED_INDEX_MAGIC_BEGIN,
            "beginTimestamp": begin,
            "endTimestamp": begin,
            "slotCount": sum(map(bool, slots)),
            "indexCount": len(rows),
        }
    )
    path = copy.root / "tiered_index_file" / str(begin)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(head + b"".join(struct.pack(">ii", slot, 0) for slot in slots) + items.tobytes())
    return path


def test_an_index_that_is_still_written(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written_index(copy, 1795334824000)
    sound = path.read_bytes()
    assert copy.found() == []
    shutil.rmtree(copy.root / INDEX)
    text = (copy.root / METADATA).read_text()
    start = text.index('"indexFileSegmentTable"')
    (copy.root / METADATA).write_text(text[:start] + text[start:].replace("indexFileSegmentTable", "gone", 1))
    (unknown,) = [item for item in copy.items() if isinstance(item, NotChecked)]
    assert "number of slots" in unknown.reason
    conf = copy.root.parent / "broker.conf"
    conf.write_text("tieredStoreIndexFileMaxHashSlotNum=101\n")
    copy.broker_conf = conf
    monkeypatch.setattr(indexes, "BLOCK", 7)
    assert copy.found() == []
    relative = str(path.relative_to(copy.root))
    copy.write(relative, 28 + SLOTS * 8 + 32 * 9 + 28, b"\0\0\1\0")  # prevItem of item 9
    (finding,) = copy.found()
    assert (finding.rule, finding.where.entry) == ("TS022", 9)
    path.write_bytes(sound)
    copy.write(relative, 28 + 8 * 5, b"\0\0\0\x01")  # newest item of slot 5
    (finding,) = copy.found()
    assert (finding.rule, finding.where.slot) == ("TS021", 5)
    path.write_bytes(sound)
    copy.write(relative, 4, b"\0\0\0\0\0\0\0\x01")
    assert "TS020" in copy.rules()
    for count in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"):
        path.write_bytes(sound)
        copy.write(relative, 24, count)
        (finding,) = copy.found()
        assert (finding.rule, finding.where.start) == ("TS020", 20)
    copy.truncate(relative, 12)
    assert "TS020" in copy.rules()


def test_segments_of_another_broker_are_not_judged(copy: Copy) -> None:
    cluster = copy.root / "tiered/d5771ffb_RealCluster"
    shutil.copytree(cluster / "broker-a/Warm", cluster / "broker-b/Warm")
    items = copy.items()
    assert {item.what for item in items if isinstance(item, NotChecked)} == {
        "tiered/d5771ffb_RealCluster/broker-b/Warm/0/COMMIT_LOG",
        "tiered/d5771ffb_RealCluster/broker-b/Warm/0/CONSUME_QUEUE",
    }
    assert not [item for item in items if isinstance(item, Finding)]


def test_segments_that_are_elsewhere(copy: Copy, tmp_path: Path) -> None:
    elsewhere = tmp_path.parent / f"{tmp_path.name}-tiered"
    shutil.move(copy.root / "tiered", elsewhere)
    (item,) = copy.items()
    assert isinstance(item, NotChecked)
    assert item.what == METADATA
    conf = copy.root.parent / f"{tmp_path.name}.conf"
    conf.write_text(f"tieredStoreFilePath={elsewhere}\n")
    store = open_store(copy.root, broker_conf=conf)
    found = check_tiered(Context(store, "full", 0))
    assert found.items == []
    assert found.checked.record_count == 253


@pytest.mark.parametrize(("module", "name", "limit"), [(check, "MAX_KEYS", 200), (indexes, "MAX_ITEMS", 200)])
def test_keys_above_the_limit_are_said_not_to_be_checked(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, module: object, name: str, limit: int
) -> None:
    monkeypatch.setattr(module, name, limit)
    monkeypatch.setattr(indexes, name, limit)
    (copy.root / INDEX / segment_name(0)).unlink()
    items = copy.items()
    left_out = [item for item in items if isinstance(item, NotChecked)]
    assert {item.reason for item in left_out} == {
        f"keys are not compared with the index files: more than {limit} in all queues"
    }
    skipped = {item.what.removeprefix(BROKER) for item in left_out}
    compared = {
        f"{finding.where.topic}/{finding.where.queue_id}"
        for finding in items
        if isinstance(finding, Finding) and finding.rule == "TS023"
    }
    assert skipped
    assert compared
    assert not compared & skipped


def test_files_that_go_away_during_the_check(copy: Copy) -> None:
    store = open_store(copy.root)
    (copy.root / LOG).unlink()
    items = check_tiered(Context(store, "full", 0)).items
    left_out = [item for item in items if isinstance(item, NotChecked)]
    assert left_out
    assert {(item.operational, item.what.endswith(LOG)) for item in left_out} == {(True, True)}
    (copy.root / METADATA).unlink()
    (gone,) = check_tiered(Context(store, "full", 0)).items
    assert isinstance(gone, NotChecked)
    assert (gone.operational, gone.what.endswith(METADATA)) == (True, True)
