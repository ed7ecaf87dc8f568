"""The rules IX: each fires on the damage it is for, at its slot or entry, and not without it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from rocketfsck.store import open_store
from rocketfsck.verify.index import chains
from rocketfsck.verify.index import file as indexfile
from rocketfsck.verify.tasks.task import Context, IndexFileTask

from tests.conftest import Directory
from tests.unit.verify.damage import Damage

Copy = Callable[[str], Damage]


@pytest.fixture
def copy(store_copy: Directory) -> Copy:
    return lambda name: Damage(store_copy(name))


class Index:
    """One index file of a store, entry by entry."""

    def __init__(self, store: Damage, number: int, slot_count: int) -> None:
        self.store = store
        self.file = store.files("index")[number]
        self.slot_count = slot_count

    def pos(self, entry: int) -> int:
        return 40 + 4 * self.slot_count + 20 * entry

    def entry(self, entry: int) -> tuple[int, int, int, int]:
        """keyHash, phyOffset, timeDiff, prevIndex."""
        found: tuple[int, int, int, int] = struct.unpack(
            ">iqii", self.store.read(self.file, self.pos(entry), 20)
        )
        return found

    def put(self, entry: int, **values: int) -> None:
        names = ("key_hash", "offset", "time_diff", "previous")
        fields = dict(zip(names, self.entry(entry), strict=True)) | values
        self.store.write(self.file, self.pos(entry), struct.pack(">iqii", *fields.values()))

    def slot(self, slot: int) -> int:
        value: int = struct.unpack(">i", self.store.read(self.file, 40 + 4 * slot, 4))[0]
        return value

    def put_slot(self, slot: int, value: int) -> None:
        self.store.write(self.file, 40 + 4 * slot, struct.pack(">i", value))

    def header(self, pos: int, kind: str, value: int) -> None:
        self.store.write(self.file, pos, struct.pack(">" + kind, value))

    @property
    def count(self) -> int:
        value: int = struct.unpack(">i", self.store.read(self.file, 36, 4))[0]
        return value

    def chain(self, slot: int) -> list[int]:
        """The entries of a slot, newest first."""
        found: list[int] = []
        entry = self.slot(slot)
        while entry and entry not in found:
            found.append(entry)
            entry = self.entry(entry)[3]
        return found

    def long_chain(self, least: int = 3) -> tuple[int, list[int]]:
        """A slot with at least so many entries, and they."""
        slot = next(slot for slot in range(self.slot_count) if len(self.chain(slot)) >= least)
        return slot, self.chain(slot)


@pytest.fixture
def index(copy: Copy) -> Index:
    """The second index file of a store with six."""
    return Index(copy("5.3.3-multiseg"), 1, 200)


def test_ix001_a_cut_file(index: Index) -> None:
    index.store.truncate(index.file, index.pos(400) + 7)
    result = index.store.check()
    finding = result.one("IX001")
    assert finding.where.file == index.file
    assert (finding.found["first_lost_entry"], finding.found["last_lost_entry"]) == (400, 599)
    assert result.rules <= {"IX001", "XR020", "XR021"}
    assert index.store.check("quick").rules == {"IX001"}


def test_ix001_a_file_that_is_cut_within_its_slots(index: Index) -> None:
    index.store.truncate(index.file, 100)
    result = index.store.check()
    assert result.one("IX001").found["first_lost_entry"] == 1
    index.store.truncate(index.file, 10)
    assert index.store.check().one("IX001").found["size"] == 10


def test_more_slots_than_any_file_has_room_for(index: Index) -> None:
    """A setting says so: the check keeps a table of the slots that are there."""
    result = index.store.check(settings={"maxHashSlotNum": str((1 << 31) - 1)})
    assert result.of("IX001")


def test_ix001_a_longer_file(index: Index) -> None:
    index.store.truncate(index.file, 12840 + 100)
    result = index.store.check()
    assert result.rules == {"IX001"}
    assert result.one("IX001").found["reason"] == "no used entry is cut off"


@pytest.mark.parametrize("count", [-4, 601, 1 << 30])
def test_ix002_a_count_outside_the_file(index: Index, count: int) -> None:
    index.header(36, "i", count)
    result = index.store.check()
    finding = result.one("IX002")
    assert (finding.where.start, finding.where.end) == (36, 40)
    assert finding.found["index_count"] == count
    assert finding.expected["index_count"] == 600
    assert result.rules <= {"IX002", "IX017", "XR020", "XR021"}


def test_ix002_a_count_of_zero_and_entries(index: Index) -> None:
    index.header(36, "i", 0)
    result = index.store.check()
    assert result.one("IX002").found["reason"] == "the file has 599 entries"


def test_ix002_a_count_ahead_of_the_entries(copy: Copy) -> None:
    index = Index(copy("5.3.3-multiseg"), 5, 200)
    count = index.count
    index.header(36, "i", count + 5)
    finding = index.store.check().one("IX002")
    assert finding.expected["index_count"] == count


def test_ix003_slot_counts_of_all_dialects(copy: Copy) -> None:
    """In the oldest file: the broker may have been upgraded after it."""
    index = Index(copy("5.3.3-multiseg"), 0, 200)
    used = sum(1 for slot in range(200) if index.slot(slot))
    for value in (used, used + 7, 599):  # slots, both in turn, entries: all legal
        index.header(32, "i", value)
        assert index.store.check().rules == set()
    for value in (used - 1, 600, -1):
        index.header(32, "i", value)
        result = index.store.check()
        assert result.rules == {"IX003"}
        assert result.one("IX003").found["slot_count"] == used


@pytest.mark.parametrize(
    ("pos", "name"),
    [(0, "beginTimestamp"), (8, "endTimestamp"), (16, "beginPhyOffset"), (24, "endPhyOffset")],
)
def test_ix004_header_fields(index: Index, pos: int, name: str) -> None:
    before = struct.unpack(">q", index.store.read(index.file, pos, 8))[0]
    index.header(pos, "q", before + 3000)
    result = index.store.check()
    finding = result.one("IX004")
    assert finding.found["field"] == name
    assert (finding.found["value"], finding.expected["value"]) == (before + 3000, before)
    assert (finding.where.start, finding.where.end) == (pos, pos + 8)
    assert result.rules <= {"IX004", "XR026"}


@pytest.mark.parametrize("value", [-7, 600, 1 << 30])
def test_ix005_a_slot_outside_the_entries(index: Index, value: int) -> None:
    slot, _ = index.long_chain()
    index.put_slot(slot, value)
    result = index.store.check()
    finding = result.one("IX005")
    assert (finding.where.slot, finding.found["value"]) == (slot, value)
    assert (finding.where.start, finding.where.end) == (40 + 4 * slot, 44 + 4 * slot)
    assert result.rules == {"IX005", "IX013"}


def test_ix006_slots_with_wrong_heads(index: Index) -> None:
    slot, chain = index.long_chain()
    other = next(s for s in range(200) if s != slot and index.slot(s))
    for value, reason in (
        (0, "empty"),
        (chain[1], "skips its newer entries"),
        (index.slot(other), f"slot {other}"),
    ):
        index.put_slot(slot, value)
        result = index.store.check()
        finding = result.one("IX006")
        assert (finding.where.slot, finding.expected["value"]) == (slot, chain[0])
        assert reason in str(finding.found["reason"])
        assert "IX013" in result.rules
    orphans = result.one("IX013")
    assert (orphans.where.slot, orphans.found["entry_count"]) == (slot, len(chain))


def test_ix007_a_self_loop(index: Index) -> None:
    slot, chain = index.long_chain()
    index.put(chain[1], previous=chain[1])
    result = index.store.check()
    finding = result.one("IX007")
    assert (finding.where.entry, finding.where.slot) == (chain[1], slot)
    assert finding.where.start == index.pos(chain[1])
    assert finding.expected["value"] == chain[2]
    assert result.rules == {"IX007", "IX013"}
    assert result.one("IX013").found["entry_count"] == len(chain) - 2


def test_ix008_a_circle(index: Index) -> None:
    slot, chain = index.long_chain(4)
    index.put(chain[3], previous=chain[1])
    result = index.store.check()
    circle = result.one("IX008")
    assert (circle.where.slot, circle.where.entry) == (slot, chain[3])
    assert (circle.found["value"], circle.found["entry_count"]) == (chain[1], 3)
    assert (result.one("IX009").where.entry, result.one("IX009").found["value"]) == (chain[3], chain[1])


def test_ix009_a_link_to_a_later_entry_of_another_slot(index: Index) -> None:
    _, chain = index.long_chain()
    later = next(
        e for e in range(chain[-1] + 1, 599) if index.entry(e)[0] % 200 != index.entry(chain[-1])[0] % 200
    )
    index.put(chain[-1], previous=later)
    assert index.store.check().rules == {"IX009"}


@pytest.mark.parametrize("value", [-1, 600, 1 << 30])
def test_ix010_a_link_out_of_range(index: Index, value: int) -> None:
    _, chain = index.long_chain()
    index.put(chain[0], previous=value)
    result = index.store.check()
    finding = result.one("IX010")
    assert (finding.where.entry, finding.found["value"]) == (chain[0], value)
    assert result.rules == {"IX010", "IX013"}


def test_ix011_a_link_into_another_slots_chain(index: Index) -> None:
    slot, chain = index.long_chain()
    other = next(e for e in range(chain[0] - 1, 0, -1) if index.entry(e)[0] % 200 != slot)
    index.put(chain[0], previous=other)
    result = index.store.check()
    finding = result.one("IX011")
    assert (finding.where.entry, finding.where.slot) == (chain[0], slot)
    assert (finding.found["value"], finding.found["other_slot"]) == (other, index.entry(other)[0] % 200)


@pytest.mark.parametrize("skipped", [1, None])
def test_ix012_and_ix013_a_link_that_skips(index: Index, skipped: int | None) -> None:
    slot, chain = index.long_chain(4)
    index.put(chain[0], previous=chain[2] if skipped else 0)
    result = index.store.check()
    assert result.rules == {"IX012", "IX013"}
    assert result.one("IX012").expected["value"] == chain[1]
    orphans = result.one("IX013")
    lost = chain[1:2] if skipped else chain[1:]
    assert orphans.found["entry_count"] == len(lost) == orphans.count
    assert (orphans.where.slot, orphans.where.entry) == (slot, min(lost))


def test_ix014_a_negative_hash(index: Index) -> None:
    index.put(200, key_hash=-1000)
    result = index.store.check()
    finding = result.one("IX014")
    assert (finding.where.entry, finding.found["value"]) == (200, -1000)
    assert "XR024" in result.rules


def test_ix015_a_negative_time(index: Index) -> None:
    index.put(200, time_diff=-1)
    result = index.store.check()
    assert result.one("IX015").where.entry == 200
    assert result.rules == {"IX015", "XR026"}


def test_ix016_entries_out_of_order(index: Index) -> None:
    offset = index.entry(300)[1]
    index.put(300, offset=offset + 20_000)
    result = index.store.check()
    finding = result.one("IX016")
    assert finding.where.entry == 301
    assert finding.found["previous_physical_offset"] == offset + 20_000
    assert result.rules <= {"IX016", "XR021", "XR020", "XR023", "XR024"}


def test_ix017_entries_behind_the_count(index: Index) -> None:
    index.header(36, "i", 590)
    result = index.store.check()
    finding = result.one("IX017")
    assert (finding.where.entry, finding.found["entry_count"]) == (590, 10)
    assert {"IX017", "IX004"} <= result.rules
    assert "IX005" not in result.rules


def test_ix018_entry_zero(index: Index) -> None:
    index.put(0, time_diff=3)
    result = index.store.check()
    assert result.rules == {"IX018"}
    assert result.one("IX018").where.entry == 0


def test_ix019_and_ix020_empty_files(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    path = store.root / "index/20261120220600000"
    path.write_bytes(bytes(12840))
    result = store.check()
    assert result.one("IX019").where.file == "index/20261120220600000"
    assert result.rules == set()
    (store.root / "index/20261120220700000").write_bytes(bytes(12840))
    result = store.check("quick")
    assert result.rules == {"IX020"}
    assert result.one("IX020").found["file_count"] == 2


def test_ix021_and_ix022_files_out_of_order(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    assert not {"IX021", "IX022"} & store.check().all_rules
    files = store.files("index")
    (store.root / files[5]).rename(store.root / "index/20261120220517000")
    result = store.check()
    assert result.one("IX021").where.file == "index/20261120220517000"
    assert result.rules == {"IX022"}
    assert result.one("IX022").where.file == files[1]


def test_ix023_the_first_time_of_a_continuation(index: Index) -> None:
    """Where a record in between is not indexed the file in front may have been another one."""
    index.put(1, time_diff=index.entry(1)[2] + 77, key_hash=index.entry(1)[0], offset=index.entry(1)[1] + 1)
    result = index.store.check()
    assert result.one("IX023").where.entry == 1
    assert "IX031" not in result.rules


def test_ix031_the_first_time_of_a_continuation(index: Index) -> None:
    before = index.entry(1)[2]
    for value in (before + 77, before + 1):
        index.put(1, time_diff=value)
        result = index.store.check()
        finding = result.one("IX031")
        assert (finding.where.entry, finding.found["value"], finding.expected["value"]) == (1, value, before)
        assert result.rules == {"IX031"}
        assert "IX023" not in result.all_rules


def test_ix031_the_first_time_of_the_first_file(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    index = Index(store, 0, 200)
    index.put(1, time_diff=1)
    result = store.check()
    assert result.rules == {"IX031"}
    assert result.one("IX031").where.file == index.file
    index.put(1, time_diff=0)
    assert store.check().rules == set()


def test_ix031_is_not_said_where_records_are_gone(copy: Copy) -> None:
    """The first file of an index may go on from one that was deleted together with its records."""
    store = copy("5.1.3-expired")
    first = Index(store, 0, 200)
    assert "IX031" not in store.check().all_rules
    first.put(1, time_diff=first.entry(1)[2] + 5)
    assert "IX031" not in store.check().all_rules


def slots_used(index: Index) -> int:
    return sum(1 for slot in range(index.slot_count) if index.slot(slot))


def test_ix029_a_count_of_both_in_the_oldest_file(copy: Copy) -> None:
    store = copy("5.3.3-multiseg")
    index = Index(store, 0, 200)
    index.header(32, "i", slots_used(index) + 1)
    result = store.check()
    assert result.one("IX029").where.file == index.file
    assert result.rules == set()


@pytest.mark.parametrize("surplus", [1, 7, 0])
def test_ix030_a_later_file_counts_otherwise(index: Index, surplus: int) -> None:
    value = slots_used(index) + surplus if surplus else 599  # 599: as brokers up to 4.7.0 count
    index.header(32, "i", value)
    result = index.store.check()
    assert result.rules == {"IX030"}
    finding = result.one("IX030")
    assert (finding.where.file, finding.found["hash_slot_count"]) == (index.file, value)
    assert finding.found["slot_count"] == slots_used(index)
    assert "IX029" not in result.all_rules


def test_ix030_is_not_said_of_an_upgrade(copy: Copy) -> None:
    """Two files that count entries, one of both, then files that count slots."""
    store = copy("5.3.3-multiseg")
    files = [Index(store, number, 200) for number in range(3)]
    for index, value in zip(files, (599, 599, 300), strict=True):
        index.header(32, "i", value)
    result = store.check()
    assert result.one("IX029").where.file == files[2].file
    assert result.rules == set()
    files[1].header(32, "i", 301)  # a second one of both
    assert store.check().one("IX030").where.file == files[2].file


def test_ix024_a_limit_to_the_walk(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    _, chain = index.long_chain(4)
    index.put(chain[3], previous=chain[1])
    monkeypatch.setattr(chains, "WALK_LIMIT", 2)
    result = index.store.check()
    assert result.one("IX024").found["slot_count"] == 1
    assert "IX008" not in result.rules


def test_many_wrong_links_are_counted(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketfsck.verify.index.file.MISMATCH_LIMIT", 5)
    for entry in range(100, 120):
        index.put(entry, previous=entry)
    for slot in range(20):
        index.put_slot(slot, 0)
    result = index.store.check()
    assert len(result.of("IX007")) == 5
    assert result.of("IX024")


def test_a_cut_index_does_not_hide_its_slots(copy: Copy) -> None:
    """Slots that point behind the cut are lost with it and not reported one by one."""
    index = Index(copy("4.9.8-killed"), 0, 64)
    index.store.truncate(index.file, 2000)
    result = index.store.check()
    assert {"IX001", "XR020", "XR021"} == {rule for rule in result.rules if rule[:2] in ("IX", "XR")}


@pytest.mark.parametrize("field", ["key_hash", "offset", "time_diff", "previous", "slot", "nothing"])
def test_a_compiled_walk_says_the_same(copy: Copy, monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    """Wherever in the file the damage is."""
    store = copy("5.3.3-multiseg")
    index = Index(store, 1, 200)
    monkeypatch.setattr(indexfile, "BLOCK_COUNT", 16)
    stated = 0
    for entry in (1, index.count // 2, index.count // 2 + 1, index.count - 1):
        before = index.entry(entry)
        slot = entry % 200
        head = index.slot(slot)
        for value in (-1, 0, 1, 77, (1 << 31) - 1):
            if field == "slot":
                index.put_slot(slot, value)
            elif field != "nothing":
                index.put(entry, **{field: value})
            found = []
            for kernels in ("plain", "compiled"):
                monkeypatch.setenv("ROCKETFSCK_KERNELS", kernels)
                context = Context(open_store(store.root), "cross", 1_700_000_000_000)
                found.append(indexfile.check_index_file(IndexFileTask(context, 1)))
            assert found[0] == found[1]
            stated += len(found[0].findings)
            index.put(entry, key_hash=before[0], offset=before[1], time_diff=before[2], previous=before[3])
            index.put_slot(slot, head)
    assert (stated > 0) == (field != "nothing")
