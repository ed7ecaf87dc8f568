"""Queries by id: both readings, and ids that are neither or both."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import FormatError, UsageError
from rocketfsck.formats.indexfile import entry_pos
from rocketfsck.formats.record import Host
from rocketfsck.query import Outcome, find_by_id, find_by_key
from rocketfsck.query.answers import STALE
from rocketfsck.query.ids import check_id, offset_id_of
from rocketfsck.query.view import StoreView
from rocketfsck.scan.views.messages import Message
from rocketfsck.store import Store, open_store
from rocketfsck.writer import OutgoingMessage

from tests.conftest import Directory, Document
from tests.unit.query.maker import GEOMETRY, make, message, patch, reopen

UNIQUE = "0A0F00072F1F18B4AAC247B79CA503F4"
V6_HOST = Host(bytes.fromhex("20010db8000000000000000000000001"), 10911)


def keyed(number: int, unique_key: str, **more: Any) -> OutgoingMessage:
    return message(number, properties={"UNIQ_KEY": unique_key, "KEYS": "x"}, **more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make(tmp_path, [*(message(number) for number in range(20)), keyed(20, UNIQUE)])


def id_at(store: Store, key: str) -> str:
    (found,) = find_by_key(store, "Order", key).found
    return offset_id_of(found.message, found.offset)


def test_an_offset_id(store: Store) -> None:
    text = id_at(store, "k7")
    for spelled in (text, text.lower()):
        answer = find_by_id(store, spelled)
        (found,) = answer.found
        assert (found.message.keys, found.via) == (["k7", "all"], ("id",))
        assert (answer.outcome, answer.why) == (Outcome.FOUND, "read as an offset id")
    assert find_by_id(store, text, reading="unique").outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize("via", ["auto", "index", "scan", "both"])
def test_a_unique_id(store: Store, via: str) -> None:
    for spelled in (UNIQUE, UNIQUE.lower()):
        answer = find_by_id(store, spelled, via=via)  # type: ignore[arg-type]
        (found,) = answer.found
        assert found.message.unique_key == UNIQUE
        assert (answer.outcome, answer.why) == (Outcome.FOUND, "read as a unique id")
    assert find_by_id(store, UNIQUE, reading="offset").outcome is Outcome.NOT_FOUND


def test_a_unique_id_that_the_index_has_lost(store: Store) -> None:
    shutil.rmtree(store.indexes[0].path.parent)
    bare = open_store(store.root)
    assert find_by_id(bare, UNIQUE).found
    assert find_by_id(bare, UNIQUE, via="index").outcome is Outcome.NOT_FOUND
    text = id_at(bare, "k7")
    assert find_by_id(bare, text, via="index").found


def test_an_id_of_both_kinds(tmp_path: Path) -> None:
    """A message whose unique id is the offset id of another one."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    text = id_at(make(tmp_path / "first", [message(0)]), "k0")
    store = make(tmp_path / "second", [message(0), keyed(1, text)])
    answer = find_by_id(store, text)
    assert answer.outcome is Outcome.AMBIGUOUS
    assert [found.message.keys for found in answer.found] == [["k0", "all"], ["x"]]
    assert "--as offset or --as unique" in answer.why
    assert len(find_by_id(store, text, reading="offset").found) == 1
    assert [found.message.keys for found in find_by_id(store, text, reading="unique").found] == [["x"]]


def test_an_id_that_is_both_of_one_message_is_found(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    text = id_at(make(tmp_path / "first", [message(0)]), "k0")
    store = make(tmp_path / "second", [keyed(0, text)])
    answer = find_by_id(store, text)
    assert (answer.outcome, len(answer.found)) == (Outcome.FOUND, 1)


def test_places_without_a_message(store: Store) -> None:
    host = id_at(store, "k0")[:16]
    for offset, words in (
        (1, "no record begins at physical offset 1"),
        (1 << 40, "physical offset 1099511627776 is outside the log"),
    ):
        answer = find_by_id(store, f"{host}{offset:016X}")
        assert answer.outcome is Outcome.NOT_FOUND
        assert "does not lead to a message" in answer.why
        assert answer.trace is not None
        assert words in answer.trace.notes[0]


def test_the_record_of_another_broker(store: Store) -> None:
    text = id_at(store, "k0")
    answer = find_by_id(store, "0A0A0A0A" + text[8:])
    assert answer.outcome is Outcome.NOT_FOUND
    assert answer.leads[0].why == f"the record there has another id: {text}"


def test_an_ipv6_id(tmp_path: Path) -> None:
    store = make(tmp_path, [message(0, store_host=V6_HOST, born_host=V6_HOST)])
    text = id_at(store, "k0")
    assert len(text) == 56
    assert len(find_by_id(store, text).found) == 1


def test_entries_that_lead_nowhere_are_told(store: Store, tmp_path: Path) -> None:
    step = find_by_key(store, "Order", UNIQUE, via="index").trace
    assert step is not None
    (entry,) = [
        (index.file, entry.entry)
        for index in step.index_steps
        for entry in index.entries
        if entry.verdict == "match"
    ]
    pos = entry_pos(entry[1], GEOMETRY.slot_count) + 4
    patch(tmp_path / "store" / entry[0], pos, struct.pack(">q", 1 << 40))
    answer = find_by_id(reopen(tmp_path), UNIQUE)
    assert answer.found[0].via == ("scan",)
    assert answer.leads[0].why == "the entry points outside the log"


@pytest.mark.parametrize("text", ["", "xyz", UNIQUE[:-1], UNIQUE + "0", UNIQUE[:-1] + "G", "é" * 32])
def test_malformed_ids(store: Store, text: str) -> None:
    with pytest.raises(FormatError):
        find_by_id(store, text)
    with pytest.raises(UsageError, match="is not a message id") as caught:
        check_id(text)
    assert caught.value.exit_code == 16


def test_well_formed_ids_pass() -> None:
    check_id(UNIQUE)
    check_id(UNIQUE.lower())


@pytest.mark.parametrize("name", ["4.4.0-basic", "4.9.8-ipv6", "4.9.8-delay", "5.3.3-trans", "HEAD-basic"])
def test_ids_of_broker_written_stores(store_dir: Directory, manifest: Document, name: str) -> None:
    """The ids that the real decoder gave lead back to the records."""
    store = open_store(store_dir(name))
    decoded = manifest(name)["phases"][-1]["live"]["decoded"]
    for row in decoded[::9]:
        if len(row["msgId"]) in (32, 56):
            answer = find_by_id(store, row["msgId"], reading="offset")
            assert [found.offset for found in answer.found] == [row["o"]]


STALE_OFFSET = 77915
"""In 4.9.8-ghosttail, whose log ends at 77760: a whole record that a truncation left behind the end."""


@pytest.mark.parametrize("walk_limit", [0, 1 << 20])
def test_a_stale_record_is_no_message(store_dir: Directory, walk_limit: int) -> None:
    """By either kind of id, and also where the file is too large to be walked for every record."""
    store = open_store(store_dir("4.9.8-ghosttail"))
    with StoreView(store, walk_limit=walk_limit) as view:
        record = view.log.message_at(STALE_OFFSET)
        assert isinstance(record, Message)
        assert record.unique_key is not None
        for text in (offset_id_of(record, STALE_OFFSET), record.unique_key):
            answer = find_by_id(store, text, view=view)
            assert (answer.outcome, answer.found) == (Outcome.NOT_FOUND, ())
            assert answer.why == (
                f"{text} leads to a stale record at physical offset {STALE_OFFSET}, not a message"
            )
            assert [lead.offset for lead in answer.leads if lead.why == STALE] == [STALE_OFFSET]
        live = view.log.message_at(0)
        assert isinstance(live, Message)
        (found,) = find_by_id(store, offset_id_of(live, 0), view=view).found
        assert found.live is True
