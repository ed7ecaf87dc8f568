"""Notes on index files: shared hashes, skewed slots, long chains, names that do not fit what is in them."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rocketfsck.formats.indexfile import (
    IndexHeader,
    encode_header,
    entry_pos,
    index_file_size,
    slot_of,
    slot_pos,
)
from rocketfsck.formats.javatext import index_hash
from rocketfsck.formats.record import Host, encode_record, make_record
from rocketfsck.formats.smallfiles import index_filename
from rocketfsck.store import open_store
from rocketfsck.verify.finding import Finding, Severity
from rocketfsck.verify.index import spread as indexspread
from rocketfsck.verify.index.spread import check_names, check_spread
from rocketfsck.verify.rules.catalog import RULES, describe
from rocketfsck.verify.tasks.task import Context, TaskResult

from tests.conftest import STORE_NAMES, Directory
from tests.unit.verify.damage import Damage
from tests.unit.verify.storemaker import NOW, Maker

NOTES = {"IX025", "IX026", "IX027", "IX028"}
SLOTS, ENTRIES = 2048, 40_000


def scattered(count: int) -> list[int]:
    return [(number * 2_654_435_761) % (1 << 31) for number in range(1, count + 1)]


class Index:
    """A store with one index file that holds these hashes, all of one record with the keys `hot` and `b`."""

    def __init__(self, root: Path, hashes: Sequence[int]) -> None:
        self.maker = Maker(root)
        self.maker.conf.write_text(
            f"mappedFileSizeCommitLog=4096\nmaxHashSlotNum={SLOTS}\nmaxIndexNum={ENTRIES}\n"
        )
        host = Host(b"\x7f\0\0\1", 10911)
        record = make_record(
            topic=b"T", queue_id=0, queue_offset=0, physical_offset=0, born_timestamp=NOW, born_host=host,
            store_timestamp=NOW, store_host=host, body=b"body", properties=b"KEYS\x01hot b\x02UNIQ_KEY\x01u",
        )  # fmt: skip
        self.maker.file("commitlog/00000000000000000000", encode_record(record), 4096)
        data = bytearray(index_file_size(SLOTS, ENTRIES))
        heads: dict[int, int] = {}
        for number, key_hash in enumerate(hashes, 1):
            slot = slot_of(key_hash, SLOTS)
            struct.pack_into(">iqii", data, entry_pos(number, SLOTS), key_hash, 0, 0, heads.get(slot, 0))
            heads[slot] = number
            struct.pack_into(">i", data, slot_pos(slot), number)
        data[:40] = encode_header(IndexHeader(NOW, NOW, 0, 0, len(heads), len(hashes) + 1))
        name = index_filename(datetime.fromtimestamp(NOW / 1000, UTC))
        self.maker.file(f"index/{name}", bytes(data))

    def found(self, *, counted: bool = True) -> dict[str, Finding]:
        """The notes; not `counted`: as if nobody had seen how many slots are used."""
        from rocketfsck.verify.index.file import check_index_file
        from rocketfsck.verify.tasks.task import IndexFileTask

        context = Context(self.maker.open(), "cross", NOW)
        results = [check_index_file(IndexFileTask(context, 0))]
        assert not results[0].findings
        if not counted:
            summary = results[0].summary
            assert summary is not None
            results = [replace(results[0], summary=replace(summary, slot_count=0))]
        items = [*check_spread(context, results), *check_names(context, results)]
        assert len({item.rule for item in items}) == len(items)
        assert all("?" not in describe(item) for item in items)
        return {item.rule: item for item in items}


def test_notes_are_no_more_than_notes() -> None:
    assert {RULES[name].severity for name in NOTES} == {Severity.INFO}


@pytest.mark.parametrize("count", [500, 3000, 30_000])
def test_keys_that_spread_well_give_no_notes(tmp_path: Path, count: int) -> None:
    assert Index(tmp_path, scattered(count)).found() == {}


@pytest.mark.parametrize(("sample", "how"), [(1 << 16, ""), (1 << 12, "about ")])
def test_ix026_few_slots_and_ix027_a_hot_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: int, how: str
) -> None:
    monkeypatch.setattr(indexspread, "SAMPLE_COUNT", sample)
    monkeypatch.setattr(indexspread, "PIECE_COUNT", 256)
    hot = index_hash("T", "hot")
    found = Index(
        tmp_path, [hot if number % 8 else other for number, other in enumerate(scattered(9000))]
    ).found()
    chain = found["IX027"]
    assert (chain.where.slot, chain.where.start) == (hot % SLOTS, slot_pos(hot % SLOTS))
    assert chain.found["key"] == "T#hot"
    assert chain.found["how"] == how
    assert chain.expected["entry_count"] == f"{9000 / SLOTS:.1f}"
    assert int(str(chain.found["hash_entry_count"])) == pytest.approx(7875, rel=0.1)
    assert int(str(chain.found["entry_count"])) == pytest.approx(7876, rel=0.1)
    slots = found["IX026"]
    assert slots.found["how"] == ""  # there are few enough slots to look at all
    used = len(
        {slot_of(value, SLOTS) for number, value in enumerate(scattered(9000)) if number % 8 == 0}
        | {hot % SLOTS}
    )
    assert slots.found["used_count"] == used
    assert slots.expected["used_count"] == pytest.approx(2023, abs=1)


def test_ix026_slots_that_nobody_counted_are_sampled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexspread, "SAMPLE_COUNT", 1024)
    monkeypatch.setattr(indexspread, "PIECE_COUNT", 64)
    few = [value % 100 * 20 for value in scattered(2000)]
    index = Index(tmp_path, few)
    exact = len(set(few))
    counted = index.found()["IX026"].found
    assert (counted["how"], counted["used_count"]) == ("", exact)
    found = index.found(counted=False)["IX026"]
    assert found.found["how"] == "about "
    assert int(str(found.found["used_count"])) == pytest.approx(exact, rel=0.5)
    assert len(scattered(2000)) == found.found["entry_count"]


def test_ix027_without_the_record_the_key_is_not_known(tmp_path: Path) -> None:
    found = Index(tmp_path, [77] * 200 + scattered(100)).found()
    assert found["IX027"].found["key"] == "not known"
    assert "IX025" not in found


def test_ix025_is_exact_on_a_store_with_collisions(store_dir: Directory) -> None:
    result = Damage(Path(store_dir("5.1.3-collisions"))).check()
    finding = result.one("IX025")
    keys = [str(finding.found[name]).split("#", 1) for name in ("key", "other_key")]
    assert keys[0] != keys[1]
    assert {index_hash(*key) for key in keys} == {finding.found["hash"]}
    assert (finding.found["shared_count"], finding.found["looked_count"]) == (4, 4)
    entry = finding.where.entry
    assert entry is not None
    path = Path(store_dir("5.1.3-collisions")) / finding.where.file
    data = path.read_bytes()[finding.where.start : finding.where.end]
    assert int.from_bytes(data[:4], "big") == finding.found["hash"]


@pytest.mark.parametrize("name", STORE_NAMES)
def test_ix025_only_where_keys_collide(store_dir: Directory, name: str) -> None:
    found = Damage(Path(store_dir(name))).check().all_rules & NOTES
    assert ("IX025" in found) == name.endswith("-collisions")
    assert found <= {"IX025", "IX028"}
    # most of these brokers were told that it is another year
    years = {
        (file.created.year, datetime.fromtimestamp(begin / 1000, UTC).year)
        for file in open_store(store_dir(name)).indexes
        if file.created and (begin := int.from_bytes(file.path.read_bytes()[:8], "big"))
    }
    assert ("IX028" in found) == any(made != begun for made, begun in years)


def renamed(store: Path, *times: datetime) -> list[Finding]:
    for path, time in zip(sorted((store / "index").iterdir()), times, strict=False):
        path.rename(path.with_name(index_filename(time)))
    return Damage(store).check().of("IX028")


def shifted(store: Path, hours: float) -> list[datetime]:
    times = [file.created for file in open_store(store).indexes]
    return [
        datetime.fromtimestamp(time.replace(tzinfo=UTC).timestamp() + 3600 * hours, UTC)
        for time in times
        if time
    ]


@pytest.mark.parametrize(
    ("hours", "side"), [(14, None), (-12, None), (16, "later"), (-14, "earlier"), (0, None)]
)
def test_ix028_names_in_any_time_zone(store_copy: Directory, hours: float, side: str | None) -> None:
    store = store_copy("4.9.8-realclock")
    count = len(open_store(store).indexes)
    found = renamed(store, *shifted(store, hours))
    assert [(item.found["side"], item.count) for item in found] == ([(side, count)] if side else [])


def test_ix028_one_name_among_others_and_broken_ones(store_copy: Directory) -> None:
    store = store_copy("4.9.8-realclock")
    *others, last = shifted(store, 0)
    later = last + timedelta(days=3)
    (finding,) = renamed(store, *others, later)
    assert (finding.where.file, finding.count) == (f"index/{index_filename(later)}", 1)
    path = store / finding.where.file
    shutil.move(path, path.with_name("99999999999999999"))  # no time at all: ST033
    assert Damage(store).check().of("IX028") == []


def test_files_that_were_not_checked_or_went_away_are_passed_over(tmp_path: Path) -> None:
    index = Index(tmp_path, [77] * 2000)
    context = Context(index.maker.open(), "cross", NOW)
    nothing: list[TaskResult | None] = [None]
    assert [*check_spread(context, nothing), *check_names(context, nothing)] == []
    from rocketfsck.verify.index.file import check_index_file
    from rocketfsck.verify.tasks.task import IndexFileTask

    results = [check_index_file(IndexFileTask(context, 0))]
    context.store.indexes[0].path.unlink()
    assert list(check_spread(context, results)) == []
