"""DLedger's log and index: made from their layouts, since no broker-written store here holds them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rocketfsck.formats.dledger import DLEDGER_BLANK, DLEDGER_ENTRY, DLEDGER_INDEX
from rocketfsck.formats.smallfiles import offset_to_filename
from rocketfsck.reader import units
from rocketfsck.verify.finding import Finding
from rocketfsck.verify.rules.catalog import describe
from rocketfsck.verify.store import dledger as module

from tests.unit.verify.damage import Damage, Result
from tests.unit.verify.storemaker import record_at

DATA_SIZE, INDEX_COUNT = 4096, 16
DATA, INDEX = "dledger-n0/data", "dledger-n0/index"


@dataclass
class DLedger:
    """A store whose log is DLedger's, put as reference 2.14 says: files of 4096 bytes and of 16 units."""

    root: Path
    first: int = 0
    pos: int = 0
    places: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.root / DATA).mkdir(parents=True)
        (self.root / INDEX).mkdir()
        (self.root / "commitlog").mkdir()

    def put(self, count: int, *, term: int = 3, indexed: bool = True) -> None:
        for number in range(self.first + len(self.places), self.first + len(self.places) + count):
            body = record_at(self.pos + 48, 1_700_000_000_000) if number % 5 else b""
            room = DATA_SIZE - self.pos % DATA_SIZE
            if room < 48 + len(body) + 8:
                self.write(DATA, self.pos, DLEDGER_BLANK.build({"magic": -1, "size": room}), DATA_SIZE)
                self.pos += room
                body = record_at(self.pos + 48, 1_700_000_000_000) if number % 5 else b""
            entry = {
                "magic": 1 if body else 2, "size": 48 + len(body), "index": number, "term": term,
                "pos": self.pos, "channel": 0, "chainCrc": 0, "bodyCrc": 0, "bodyLen": len(body),
            }  # fmt: skip
            self.write(DATA, self.pos, DLEDGER_ENTRY.build(entry) + body, DATA_SIZE)
            if indexed:
                unit = {
                    "magic": 1, "pos": self.pos, "size": entry["size"], "index": number, "term": term,
                }  # fmt: skip
                self.write(INDEX, 32 * number, DLEDGER_INDEX.build(unit), 32 * INDEX_COUNT)
            self.places[number] = self.pos
            self.pos += int(entry["size"])

    def write(self, folder: str, pos: int, data: bytes, size: int) -> None:
        path = self.root / folder / offset_to_filename(pos // size * size)
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as stream:
            stream.seek(pos % size)
            stream.write(data)

    def check(self) -> Result:
        return Damage(self.root).check()

    def found(self) -> list[Finding]:
        items = [
            f
            for f in self.check().report.findings
            if f.rule in ("XR032", "XR033", "XR034", "XR038", "XR039", "XR043")
        ]
        assert all("?" not in describe(item) for item in items)
        return items


@pytest.fixture(params=[0, 1], ids=["blocks", "units"])
def store(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DLedger:
    if request.param:
        monkeypatch.setattr(module, "BLOCK_COUNT", 1)
        monkeypatch.setattr(units, "SPAN_SIZE", 64)
    made = DLedger(tmp_path / "store")
    made.put(40)
    made.put(5, term=4)
    return made


def test_a_sound_store_gives_nothing_and_its_records_are_read(store: DLedger) -> None:
    assert len(list((store.root / DATA).iterdir())) > 1
    assert store.found() == []
    report = store.check().report
    assert not {DATA, INDEX} & {item.what for item in report.not_checked}
    assert report.checked["commitlog"].record_count == 36
    kinds = {total.kind for totals in report.regions.values() for total in totals}
    assert kinds == {"records", "blank", "filler", "zero"}


def test_the_log_of_several_nodes_is_not_chosen_from(store: DLedger) -> None:
    other = store.root / "dledger-n1/data"
    other.mkdir(parents=True)
    (other / offset_to_filename(0)).write_bytes(bytes(DATA_SIZE))
    report = store.check().report
    stated = {item.what: item.reason for item in report.not_checked}
    assert "compares entries with their index" in stated[DATA]
    assert report.checked["commitlog"].record_count == 0
    quick = Damage(store.root).check("quick").report
    assert not any("compares entries with their index" in item.reason for item in quick.not_checked)


def test_units_of_expired_entries_are_not_missed(store: DLedger) -> None:
    min((store.root / DATA).iterdir()).unlink()
    assert store.found() == []


@pytest.mark.parametrize(
    ("at", "data", "reason"),
    [
        (16, struct.pack(">q", 8), "the unit names entry 8 at the place of entry 7"),
        (4, struct.pack(">q", 1 << 40), "no data file holds that place"),
        (24, struct.pack(">q", 9), "the entry has term 3, but the unit says 9"),
        (12, struct.pack(">i", 9), "the entry has size"),
    ],
)
def test_xr032_a_unit_that_differs(store: DLedger, at: int, data: bytes, reason: str) -> None:
    store.write(INDEX, 32 * 7 + at, data, 32 * INDEX_COUNT)
    (finding,) = store.found()
    assert finding.rule == "XR032"
    assert finding.where.file == f"{INDEX}/{offset_to_filename(0)}"
    assert (finding.where.start, finding.where.end) == (32 * 7, 32 * 8)
    assert finding.found["index"] == 7
    assert reason in str(finding.found["reason"])
    assert "H4" in {item.fault_class for item in store.check().report.diagnoses}


def test_xr032_a_unit_that_names_another_entry_or_none(store: DLedger) -> None:
    store.write(INDEX, 32 * 20 + 4, struct.pack(">q", store.places[21]), 32 * INDEX_COUNT)
    store.write(INDEX, 32 * 30 + 4, struct.pack(">q", store.places[30] + 4), 32 * INDEX_COUNT)
    one, two = store.found()
    assert "an entry of index 21 starts there" in str(one.found["reason"])
    assert one.where.file == f"{INDEX}/{offset_to_filename(32 * INDEX_COUNT)}"
    assert "no entry starts there" in str(two.found["reason"])


def test_xr032_an_entry_that_is_not_there(store: DLedger) -> None:
    store.write(DATA, store.places[11], b"\x77" * 30, DATA_SIZE)
    (finding,) = store.found()
    assert (finding.rule, finding.found["index"], finding.where.physical_offset) == (
        "XR032",
        11,
        store.places[11],
    )


def test_xr032_entries_that_do_not_join(store: DLedger) -> None:
    """A BLANK that is none: what stands before the next file's first entry is not accounted for."""
    second = DATA_SIZE
    last = max(pos for pos in store.places.values() if pos < second)
    blank = next(pos for pos in range(last + 48, second) if store_bytes(store, pos, 4) == b"\xff" * 4)
    store.write(DATA, blank, b"\x00\x00\x00\x09", DATA_SIZE)
    (finding,) = store.found()
    assert f"the previous entry ends at {blank}" in str(finding.found["reason"])
    assert finding.where.physical_offset == second


def store_bytes(store: DLedger, pos: int, size: int) -> bytes:
    data = (store.root / DATA / offset_to_filename(pos // DATA_SIZE * DATA_SIZE)).read_bytes()
    return data[pos % DATA_SIZE :][:size]


def test_xr033_an_entry_and_a_record_that_stand_elsewhere(store: DLedger) -> None:
    store.write(DATA, store.places[6] + 24, struct.pack(">q", 222296456325), DATA_SIZE)
    store.write(DATA, store.places[8] + 48 + 28, struct.pack(">q", 5), DATA_SIZE)
    one, two = store.found()
    assert (one.rule, one.found["what"], one.found["stated_pos"]) == ("XR033", "entry", 222296456325)
    assert (one.where.start, one.expected["pos"]) == (store.places[6], store.places[6])
    assert (two.rule, two.found["what"], two.found["stated_pos"]) == ("XR033", "record", 5)
    assert two.expected["pos"] == store.places[8] + 48


def test_xr034_entries_behind_the_index(store: DLedger) -> None:
    start = store.pos
    store.put(60, indexed=False)
    (finding,) = store.found()
    assert (finding.rule, finding.found["entry_count"], finding.found["index"]) == ("XR034", 60, 45)
    assert finding.where.physical_offset == start
    assert finding.found["side"] == "after the end"


def test_xr034_entries_before_the_index(store: DLedger) -> None:
    min((store.root / INDEX).iterdir()).unlink()
    (finding,) = store.found()
    assert (finding.found["entry_count"], finding.found["index"]) == (INDEX_COUNT, 0)
    assert finding.found["side"] == "before the start"


def test_xr034_no_index_at_all(store: DLedger) -> None:
    for path in (store.root / INDEX).iterdir():
        path.unlink()
    (finding,) = store.found()
    assert (finding.found["entry_count"], finding.found["index"]) == (45, 0)


def test_no_data_at_all(store: DLedger) -> None:
    for path in (store.root / DATA).iterdir():
        path.unlink()
    found = store.found()
    assert {item.rule for item in found} == {"XR032"}
    assert sum(item.count for item in found) == 45


def test_hostile_bytes_end(store: DLedger) -> None:
    for folder in (DATA, INDEX):
        for path in (store.root / folder).iterdir():
            path.write_bytes((b"\x7f\xff\xff\xff\x80\x00\x00\x01" * 512)[: path.stat().st_size])
    assert {item.rule for item in store.found()} == {"XR032"}


def test_a_file_that_goes_away_is_said(store: DLedger) -> None:
    from rocketfsck.store import open_store
    from rocketfsck.verify.report import NotChecked
    from rocketfsck.verify.tasks.task import Context

    context = Context(open_store(store.root), "cross", 0)
    min((store.root / INDEX).iterdir()).unlink()
    items = list(module.check_dledger(context))
    assert [item.operational for item in items if isinstance(item, NotChecked)] == [True]


def test_xr038_a_term_that_falls(store: DLedger) -> None:
    for number in range(40, 45):
        store.write(DATA, store.places[number] + 16, struct.pack(">q", 2), DATA_SIZE)
        store.write(INDEX, 32 * number + 24, struct.pack(">q", 2), 32 * INDEX_COUNT)
    findings = store.found()
    assert {finding.rule for finding in findings} == {"XR038"}
    assert [finding.found["index"] for finding in findings] == [40, 41, 42, 43, 44]
    assert (findings[0].found["term"], findings[0].found["before"]) == (2, 3)
    assert findings[0].where.physical_offset == store.places[40]


@pytest.mark.parametrize(("at", "name"), [(32, "channel"), (36, "chainCrc"), (40, "bodyCrc")])
def test_xr039_a_field_that_nobody_writes(store: DLedger, at: int, name: str) -> None:
    store.write(DATA, store.places[7] + at, struct.pack(">i", 9), DATA_SIZE)
    (finding,) = store.found()
    assert finding.rule == "XR039"
    assert (finding.found["field"], finding.found["index"], finding.found["value"]) == (name, 7, 9)
    assert finding.where.file == f"{DATA}/{offset_to_filename(0)}"
    assert finding.where.start == store.places[7]


def with_state(store: DLedger) -> None:
    """Both files, as they are beside this log."""
    (store.root / "dledger-n0/checkpoint").write_text("committedIndex=44\nendIndex=44\n")
    (store.root / "dledger-n0/currterm").write_text("voteLeader=n0\ncurrTerm=4\n")


@pytest.mark.parametrize("name", ["checkpoint", "currterm"])
def test_xr043_one_of_the_two_is_gone(store: DLedger, name: str) -> None:
    with_state(store)
    path = store.root / "dledger-n0" / name
    path.unlink()
    (finding,) = store.found()
    assert (finding.rule, finding.where.file) == ("XR043", f"dledger-n0/{name}")
    assert finding.found["reason"] == "is missing"
    path.with_name(f"{name}.bak").write_text("currTerm=4\ncommittedIndex=44\n")
    (finding,) = store.found()
    assert finding.found["reason"] == f"is missing, but {name}.bak exists"


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("checkpoint", "endIndex=45\ncommittedIndex=44\n", "endIndex is 45, but the log ends with entry 44"),
        ("checkpoint", "committedIndex=1e3\n", "a committedIndex that is not a number: '1e3'"),
        ("currterm", "currTerm=3\nvoteLeader=n0\n", "currTerm is 3, but the log has entries of term 4"),
        ("currterm", "#x=1\ncurrTerm=\xe4", "a currTerm that is not a number"),
        ("currterm", "\0\0\0\0", "has no currTerm"),
        ("checkpoint", "", "has no committedIndex"),
        ("checkpoint.bak", "committedIndex=45\n", "committedIndex is 45, but the log ends with entry 44"),
        ("currterm.bak", "currTerm=\\u00zz\n", "cannot be parsed: a malformed"),
    ],
)
def test_xr043_files_that_are_ahead_of_the_log(store: DLedger, name: str, text: str, reason: str) -> None:
    with_state(store)
    (store.root / "dledger-n0" / name).write_bytes(text.encode("latin-1"))
    (finding,) = store.found()
    assert finding.rule == "XR043"
    assert finding.where.file == f"dledger-n0/{name}"
    assert reason in str(finding.found["reason"])


def test_files_that_are_older_than_the_log_are_fine(store: DLedger) -> None:
    node = store.root / "dledger-n0"
    (node / "checkpoint").write_text("committedIndex=30\nendIndex=-1\n")
    (node / "currterm").write_text("voteLeader=\ncurrTerm=4\n")
    (node / "checkpoint.bak").write_text("committedIndex=20")
    (node / "currterm.bak").write_text("currTerm=3")
    assert store.found() == []
    assert not any("dledger" in item.what for item in store.check().report.not_checked)


def test_entries_behind_the_index_count_as_the_log_s_end(store: DLedger) -> None:
    store.put(3, term=5, indexed=False)
    (store.root / "dledger-n0/checkpoint").write_text("committedIndex=47")
    (store.root / "dledger-n0/currterm").write_text("currTerm=5")
    assert {finding.rule for finding in store.found()} == {"XR034"}
