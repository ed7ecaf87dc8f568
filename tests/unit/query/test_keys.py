"""Queries by key: the index, the log, what the index hides, and links that cannot be trusted."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.formats.indexfile import encode_header, entry_pos, slot_of, slot_pos
from rocketfsck.formats.javatext import index_hash
from rocketfsck.query import Answer, Outcome, find_by_key, keys
from rocketfsck.query.keys import Via
from rocketfsck.query.view import LogView, StoreView
from rocketfsck.reader.index import IndexReader
from rocketfsck.scan.options import Stop
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.writer import Expiry, Kind, Restart

from tests.conftest import STORE_NAMES, Directory, Document
from tests.unit.query.maker import GEOMETRY, NOW, make, message, patch, reopen

SLOTS = GEOMETRY.slot_count


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(tmp_path, [message(number) for number in range(60)])


def numbers(answer: Answer) -> list[int]:
    return [int(found.message.unique_key[1:]) for found in answer.found if found.message.unique_key]


def reasons(answer: Answer) -> list[str]:
    assert answer.trace is not None
    return [step.why for step in answer.trace.scan_steps]


@pytest.mark.parametrize("via", ["auto", "index", "scan", "both"])
def test_every_way_finds_every_message(store: Store, via: Via) -> None:
    assert len(store.indexes) > 2
    for number in (0, 13, 59):
        assert numbers(find_by_key(store, "Order", f"k{number}", via=via)) == [number]
    answer = find_by_key(store, "Order", "all", via=via)
    assert numbers(answer) == list(range(60))
    assert answer.outcome is Outcome.FOUND
    assert not answer.hidden
    assert all(found.live is not False for found in answer.found)


@pytest.mark.parametrize("name", [name for name in STORE_NAMES if "lagkill" not in name])
def test_every_key_of_broker_written_stores(store_dir: Directory, manifest: Document, name: str) -> None:
    """Some keys of what the broker's own walk over the log had, most through the index."""
    truth: dict[tuple[str, str], list[int]] = {}
    for row in manifest(name)["phases"][-1]["live"]["walk"]:
        words = dict.fromkeys([row["u"] or "", *(row["k"] or "").split(" ")])
        if row["f"] & 12 != 12:
            for word in words:
                truth.setdefault((row["t"], word), []).append(row["o"])
    wanted = [(topic, word) for topic, word in truth if word][::23]
    with StoreView(open_store(store_dir(name))) as view:
        for number, (topic, word) in enumerate(wanted):
            via: Via = "auto" if number else "both"
            answer = find_by_key(view.store, topic, word, via=via, view=view)
            assert [found.offset for found in answer.found] == truth[topic, word]


def test_unique_keys_are_not_words(store: Store) -> None:
    assert numbers(find_by_key(store, "Order", "U0007")) == [7]
    assert numbers(find_by_key(store, "Order", "U0007", unique=True)) == [7]
    assert find_by_key(store, "Order", "k7", unique=True).outcome is Outcome.NOT_FOUND


def test_window_and_count(store: Store) -> None:
    begin, end = NOW + 10_000, NOW + 20_000
    for via in ("index", "scan"):
        inside = find_by_key(
            store,
            "Order",
            "all",
            via=via,
            begin_timestamp=begin,
            end_timestamp=end,
        )
        assert numbers(inside) == list(range(10, 20))
    newest = find_by_key(store, "Order", "all", begin_timestamp=begin, end_timestamp=end, max_count=3)
    assert numbers(newest) == [17, 18, 19]
    nothing = find_by_key(store, "Order", "all", begin_timestamp=0, end_timestamp=10)
    assert nothing.outcome is Outcome.NOT_FOUND
    assert nothing.why == "no message of topic Order has the key all in this time"


def test_bodies_are_left_out_on_demand(store: Store) -> None:
    for via in ("index", "scan"):
        bare = find_by_key(store, "Order", "all", via=via, max_body_size=0)
        assert {found.message.body for found in bare.found} == {None}
        whole = find_by_key(store, "Order", "k3", via=via)
        assert [found.message.body for found in whole.found] == [b"body 3"]


def test_what_is_not_there(store: Store) -> None:
    answer = find_by_key(store, "Order", "nothing")
    assert (answer.outcome, answer.why) == (
        Outcome.NOT_FOUND,
        "no message of topic Order has the key nothing",
    )
    by_index = find_by_key(store, "Order", "nothing", via="index", unique=True)
    assert by_index.why == (
        "no message of topic Order has the unique key nothing, by the index; --via scan reads the log itself"
    )
    unknown = find_by_key(store, "order", "k1")
    assert unknown.outcome is Outcome.UNKNOWN_TOPIC
    assert unknown.why == "the store has no topic order; similar: Order"
    assert find_by_key(store, "???", "k1").why == "the store has no topic ???"


def test_prepared_messages_are_found_and_rolled_back_ones_are_not(tmp_path: Path) -> None:
    kinds = [Kind.NORMAL, Kind.PREPARED, Kind.COMMIT, Kind.ROLLBACK]
    store = make(tmp_path, [message(number, kind=kind) for number, kind in enumerate(kinds)], version="4.2.0")
    for via in ("index", "scan"):
        assert numbers(find_by_key(store, "Order", "all", via=via)) == [0, 1, 2]


def test_without_an_index_the_log_answers(store: Store, tmp_path: Path) -> None:
    shutil.rmtree(store.indexes[0].path.parent)
    bare = reopen(tmp_path)
    answer = find_by_key(bare, "Order", "k13")
    assert numbers(answer) == [13]
    assert answer.hidden == (answer.found[0].offset,)
    assert reasons(answer) == ["the store has no index"]
    assert find_by_key(bare, "Order", "k13", via="index").outcome is Outcome.NOT_FOUND


def test_lost_index_files_are_made_good_by_scans_of_what_they_covered(store: Store, tmp_path: Path) -> None:
    names = [file.path for file in store.indexes]
    for lost, words in (
        (names[-1], "after index/"),
        (names[1], "between index/"),
        (names[0], "before index"),
    ):
        kept = tmp_path / "kept"
        lost.rename(kept)
        answer = find_by_key(reopen(tmp_path), "Order", "all")
        assert numbers(answer) == list(range(60))
        assert answer.hidden
        assert [reason for reason in reasons(answer) if reason.startswith(words)]
        kept.rename(lost)


def test_a_key_less_log_is_covered(tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"properties": {}}
    messages = [message(number, **quiet) for number in range(10)]
    store = make(tmp_path, [*messages, message(10), *(message(number, **quiet) for number in range(11, 14))])
    answer = find_by_key(store, "Order", "all")
    assert numbers(answer) == [10]
    assert not answer.hidden
    assert [reason.split(" index")[0] for reason in reasons(answer)] == ["before", "after"]


def test_many_records_without_keys_are_scanned(tmp_path: Path) -> None:
    messages = [message(number, properties={}) for number in range(80)]
    store = make(tmp_path, [message(0), *messages[1:], message(80)])
    store.indexes[-1].path.unlink()
    answer = find_by_key(reopen(tmp_path), "Order", "all", via="auto")
    assert numbers(answer) == [0, 80]


def slot_and_entry(store: Store, key: str, file: int = 0) -> tuple[Path, int, int]:
    """An index file, the position of the key's slot in it, and its newest entry."""
    path = store.indexes[file].path
    slot = slot_of(index_hash("Order", key), SLOTS)
    pos = slot_pos(slot)
    data = path.read_bytes()
    return path, pos, struct.unpack_from(">i", data, pos)[0]


def broken(answer: Answer) -> list[str | None]:
    assert answer.trace is not None
    return [step.ended or step.skipped for step in answer.trace.index_steps if step.broken]


@pytest.mark.parametrize("shift", [0, 1, 5])
def test_links_that_do_not_fall_end_the_walk(store: Store, tmp_path: Path, shift: int) -> None:
    path, _, newest = slot_and_entry(store, "all")
    patch(path, entry_pos(newest, SLOTS) + 16, struct.pack(">i", newest + shift))
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert numbers(answer) == list(range(60))
    assert broken(answer) == [f"entry {newest} leads to {newest + shift}, which is not an earlier entry"]
    assert "leads to" in reasons(answer)[0]


def test_negative_links_end_the_walk(store: Store, tmp_path: Path) -> None:
    path, _, newest = slot_and_entry(store, "all")
    patch(path, entry_pos(newest, SLOTS) + 16, struct.pack(">i", -3))
    assert broken(find_by_key(reopen(tmp_path), "Order", "all")) == [
        f"entry {newest} leads to -3, which is not an earlier entry"
    ]


@pytest.mark.parametrize("value", [-1, 1000, 1 << 30])
def test_slots_that_point_nowhere(store: Store, tmp_path: Path, value: int) -> None:
    path, pos, _ = slot_and_entry(store, "all")
    patch(path, pos, struct.pack(">i", value))
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert numbers(answer) == list(range(60))
    assert broken(answer) == [f"the slot names entry {value}, but the file has entries 1 to 39"]


def test_a_truncated_index_file(store: Store, tmp_path: Path) -> None:
    path, _, newest = slot_and_entry(store, "all")
    os.truncate(path, entry_pos(newest, SLOTS) + 4)
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert numbers(answer) == list(range(60))
    assert broken(answer) == [f"the file ends before entry {newest}"]
    os.truncate(path, slot_pos(0))
    assert numbers(find_by_key(reopen(tmp_path), "Order", "all")) == list(range(60))


def test_an_index_file_that_is_too_short_or_cannot_be_read(store: Store, tmp_path: Path) -> None:
    path = store.indexes[0].path
    os.truncate(path, 12)
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert numbers(answer) == list(range(60))
    assert broken(answer) == ["the file is too short for a header"]
    known = reopen(tmp_path)
    path.unlink()
    path.mkdir()
    answer = find_by_key(known, "Order", "all")
    assert numbers(answer) == list(range(60))
    assert "is a directory" in str(broken(answer))


def test_a_chain_beyond_the_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "VISIT_LIMIT", 3)
    answer = find_by_key(store, "Order", "all")
    assert numbers(answer) == list(range(60))
    assert broken(answer)[0] == "the limit of 3 entries is reached"


def test_entries_that_lead_nowhere(store: Store, tmp_path: Path) -> None:
    """Outside the log, into a record, to another message: said, and never given as an answer."""
    path, _, newest = slot_and_entry(store, "all")
    pos = entry_pos(newest, SLOTS) + 4
    (offset,) = struct.unpack_from(">q", path.read_bytes(), pos)
    for value, why in (
        (1 << 40, "the entry points outside the log"),
        (offset + 1, "no record begins there"),
        (-5, "the entry points outside the log"),
    ):
        patch(path, pos, struct.pack(">q", value))
        answer = find_by_key(reopen(tmp_path), "Order", "all", via="both")
        assert numbers(answer) == list(range(60))
        assert answer.hidden == (offset,)
        assert [(lead.offset, lead.why) for lead in answer.leads] == [(value, why)]
        assert answer.leads[0].source == f"{path.parent.name}/{path.name} entry {newest}"
        alone = find_by_key(reopen(tmp_path), "Order", "all")
        assert numbers(alone) == list(range(60))
        assert reasons(alone)[0].endswith(why)
    other = store.indexes[0].path
    patch(other, entry_pos(newest, SLOTS), struct.pack(">i", index_hash("Order", "wrong")))
    answer = find_by_key(reopen(tmp_path), "Order", "wrong", via="index")
    assert not answer.found


def test_another_message_of_the_same_hash(store: Store, tmp_path: Path) -> None:
    path, _, newest = slot_and_entry(store, "all")
    slot = slot_of(index_hash("Order", "all"), SLOTS)
    names = (f"x{number}" for number in range(1000))
    key = next(name for name in names if slot_of(index_hash("Order", name), SLOTS) == slot)
    patch(path, entry_pos(newest, SLOTS), struct.pack(">i", index_hash("Order", key)))
    answer = find_by_key(reopen(tmp_path), "Order", key, via="index")
    assert answer.outcome is Outcome.NOT_FOUND
    assert answer.leads[0].why.startswith("another message, of topic Order with the keys U00")


def test_what_an_offset_has_is_asked_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long chain whose entries all lead to a few places: the answer is the same as without a memory."""
    key_hash = index_hash("Order", "all")
    with IndexReader(store.indexes[0], GEOMETRY) as index:
        for step, item in enumerate(index.chain(key_hash)):
            assert not isinstance(item, str)
            if item.key_hash == key_hash:
                pos = entry_pos(item.number, SLOTS) + 4
                patch(
                    store.indexes[0].path,
                    pos,
                    struct.pack(">q", (7, 1 << 40, item.physical_offset)[step % 3]),
                )
    asked: list[int] = []
    message_at = LogView.message_at

    def counted(view: LogView, offset: int, **more: int) -> Message | Stop | None:
        asked.append(offset)
        return message_at(view, offset, **more)

    monkeypatch.setattr(LogView, "message_at", counted)
    answer = find_by_key(reopen(tmp_path), "Order", "all", via="index")
    assert len(answer.leads) > 4
    assert (asked.count(7), asked.count(1 << 40)) == (1, 1)
    monkeypatch.setattr(keys, "KNOWN_LIMIT", 0)
    assert find_by_key(reopen(tmp_path), "Order", "all", via="index") == answer
    assert asked.count(7) > 2


def test_entries_of_one_record_twice(tmp_path: Path) -> None:
    store = make(
        tmp_path,
        [message(0), message(1), Restart(killed=True, scan_from=0), message(2)],
        version="4.9.8",
    )
    answer = find_by_key(store, "Order", "all")
    assert numbers(answer) == [0, 1, 2]


def test_header_that_ends_before_it_begins(store: Store, tmp_path: Path) -> None:
    path = store.indexes[1].path
    with IndexReader(store.indexes[1], store.geometry) as index:
        header = index.header
    assert index.has_header
    swapped = type(header)(
        header.begin_timestamp,
        header.end_timestamp,
        header.end_physical_offset,
        header.begin_physical_offset,
        header.hash_slot_count,
        header.index_count,
    )
    patch(path, 0, encode_header(swapped))
    answer = find_by_key(reopen(tmp_path), "Order", "k13")
    assert numbers(answer) == [13]
    assert any(reason.endswith("ends before it begins") for reason in reasons(answer))


def test_expired_entries_are_not_found(tmp_path: Path) -> None:
    store = make(tmp_path, [*(message(number) for number in range(80)), Expiry(1)])
    answer = find_by_key(store, "Order", "all")
    assert answer.found[0].offset >= GEOMETRY.commitlog_file_size
    assert {lead.why for lead in answer.leads} <= {"the record has expired"}


def test_a_ghost_tail_is_no_answer(store_dir: Directory) -> None:
    """4.9.8-ghosttail: messages behind the log's end, whose entries the index still has."""
    ghosts = open_store(store_dir("4.9.8-ghosttail"))
    with StoreView(ghosts) as view:
        end = view.log.end_offset
        found = (view.log.message_at(offset) for offset in range(end, end + 2500))
        stale = [item for item in found if isinstance(item, Message)]
        assert stale
        ways: tuple[Via, ...] = ("auto", "index", "both")
        for item in stale:
            for via in ways:
                answer = find_by_key(ghosts, item.topic, item.unique_key or "", view=view, via=via)
                assert item.pos not in [other.message.pos for other in answer.found]


def test_a_large_file_is_not_walked_for_one_message(store: Store) -> None:
    """Whether a record in the last file is live is left open there; in files before it its unit tells."""
    with StoreView(store, walk_limit=0) as view:
        answer = find_by_key(store, "Order", "all", view=view)
        assert numbers(answer) == list(range(60))
        last = view.log.files[-1].start_offset or 0
        assert {found.live for found in answer.found if found.offset < last} == {True}
        assert {found.live for found in answer.found if found.offset >= last} == {None}
        assert view.log.end_offset > last
        assert view.liveness(answer.found[-1].offset) is True
        assert view.liveness(1 << 40) is False


def test_a_walk_tells_stale_records_in_a_large_file(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-ghosttail"))
    with StoreView(store) as view:
        end = view.log.end_offset
        stale = next(
            found
            for offset in range(end, end + 2500)
            if isinstance(found := view.log.record_at(offset), Message)
        )
    key = (stale.topic, stale.unique_key or "")
    with StoreView(store, walk_limit=0) as view:
        answer = find_by_key(store, *key, unique=True, view=view)
        assert [found.live for found in answer.found] == [None]
        assert not answer.is_complete
    with StoreView(store, walk_limit=0, walks=True) as view:
        answer = find_by_key(store, *key, unique=True, view=view)
        assert answer.outcome is Outcome.NOT_FOUND
        assert answer.is_complete


def test_a_look_up_reads_little(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    original = FileReader.read_into

    def counted(self: FileReader, view: Any, pos: int = 0) -> None:
        if "/index/" in self.path:
            read.append(len(view))
        original(self, view, pos)

    monkeypatch.setattr(FileReader, "read_into", counted)
    answer = find_by_key(store, "Order", "k13", via="index")
    assert answer.trace is not None
    entries = answer.trace.entry_count
    assert sum(read) == 48 * len(store.indexes) + 20 * entries


def test_damage_behind_the_index_is_scanned_over(tmp_path: Path) -> None:
    """The index covers the first messages; what follows begins with bytes that are no record."""
    store = make(tmp_path, [message(0), *(message(number, "Other") for number in range(1, 6))])
    path = store.indexes[0].path
    with IndexReader(store.indexes[0], store.geometry) as index:
        assert index.has_header
        second = find_by_key(store, "Other", "k1").found[0].offset
    patch(path, 24, struct.pack(">q", 0))
    patch(store.commitlog.files[0].path, second, bytes([7]) * 40)
    answer = find_by_key(reopen(tmp_path), "Other", "k4")
    assert numbers(answer) == [4]
    assert [reason.split("/")[0] for reason in reasons(answer)] == ["after index"]


def test_messages_behind_the_index_are_found_file_by_file(tmp_path: Path) -> None:
    """Over a BLANK into the next file, up to zeros with an unused file behind them."""
    store = make(tmp_path, [message(number) for number in range(50)])
    for file in store.indexes[1:]:
        file.path.unlink()
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert numbers(answer) == list(range(50))
    (tmp_path / "store" / "commitlog" / f"{1 << 20:020}").write_bytes(b"")
    assert numbers(find_by_key(reopen(tmp_path), "Order", "all")) == list(range(50))


def test_the_log_ends_with_its_file(tmp_path: Path) -> None:
    store = make(tmp_path, [message(number) for number in range(29)])
    with StoreView(store) as view:
        end = view.log.end_offset
    os.truncate(store.commitlog.files[-1].path, end - (store.commitlog.files[-1].start_offset or 0))
    assert numbers(find_by_key(reopen(tmp_path), "Order", "all")) == list(range(29))


def test_without_a_log(store: Store, tmp_path: Path) -> None:
    shutil.rmtree(store.root / "commitlog")
    answer = find_by_key(reopen(tmp_path), "Order", "all")
    assert answer.outcome is Outcome.NOT_FOUND
    with StoreView(reopen(tmp_path)) as view:
        assert (view.log.min_offset, view.log.end_offset) == (-1, 0)
        assert view.log.read(0, 4) is None
        assert not view.log.select(0, 4)
