"""Databases are read once in a command that needs them twice, and of few queues no more than these."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.commands.check import CheckCommand, check
from rocketfsck.commands.query import OffsetQuery, query_offset
from rocketfsck.query.content.evaluate import Expression, find_by_expression
from rocketfsck.query.ids import find_by_id
from rocketfsck.query.keys import Via
from rocketfsck.query.life import message_life
from rocketfsck.query.places import find_by_key, find_by_offset, find_by_time
from rocketfsck.query.view import StoreView
from rocketfsck.store import Store, open_store
from rocketfsck.store.rocks import reading, spilling
from rocketfsck.store.rocks.lifting import kept_databases, lifted

from tests.conftest import NIGHTLY, Directory
from tests.databases import bound, copied_store, unit, write_database

WITH_QUEUES = (
    "5.3.3-expired-rocksdb",
    "5.4.0-expired-rocksdb",
    "5.5.0-combine",
    "5.5.0-deleted-rocksdb",
    "5.5.0-lite-rocksdb",
    "5.5.0-rocksdb-all",
    "5.5.0-rocksdb-config-v2",
    "5.5.0-rocksdb-cq",
)
VIA: tuple[Via, ...] = ("auto", "index", "both")


class Reads(list[tuple[str, ...]]):
    """The families that children were asked for, and the keys."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        started = reading._child

        @contextmanager
        def counted(
            directory: Path, mode: Any, families: list[str], patience: float, keys: Sequence[str] = ()
        ) -> Iterator[object]:
            self.append((mode, *families, *keys))
            with started(directory, mode, families, patience, *([keys] if keys else [])) as stream:
                yield stream

        monkeypatch.setattr(reading, "_child", counted)

    @property
    def of_units(self) -> list[tuple[str, ...]]:
        return [read for read in self if read[1:2] == ("default",)]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def copied(real_dir: Directory, tmp_path: Path) -> Path:
    return copied_store(real_dir("5.5.0-rocksdb-cq"), tmp_path / "store")


def answers(store: Store, places: Sequence[tuple[str, int, int, int]], keys: set[str]) -> Iterator[object]:
    """Answers to all that looks at few queues, each with a view of its own."""
    for topic, queue_id, offset, timestamp in places:
        for asked in (offset, offset + 1000):
            for via in VIA:
                yield find_by_offset(store, topic, queue_id, asked, via=via)
        yield find_by_time(store, topic, queue_id, timestamp)
    for topic in {place[0] for place in places}:
        for key in sorted(keys):
            yield find_by_key(store, topic, key)
    for key in sorted(keys):
        yield message_life(store, key)
        if len(key) == 32:
            yield find_by_id(store, key)
    yield find_by_offset(store, "nothing", 0, 0)
    yield list(find_by_expression(store, Expression("queue_offset < 9"), max_count=60))


@pytest.mark.parametrize("name", WITH_QUEUES)
def test_answers_are_those_of_all_queues(name: str, any_dir: Directory, reads: Reads) -> None:
    store = open_store(any_dir(name))
    found = [item.message for item in find_by_expression(store, Expression("queue_offset >= 0"))]
    chosen = found[:: max(len(found) // (12 if NIGHTLY else 2), 1)]
    keys = {message.unique_key or "none" for message in chosen}
    for message in chosen:
        places = [(message.topic, message.queue_id, message.queue_offset, message.store_timestamp)]
        with lifted(store) as whole, lifted(store, late=True) as late:
            del reads[:]
            assert list(answers(late.store, places, keys)) == list(answers(whole.store, places, keys))
            in_files = any(queue.files for queue in late.store.queues)
            assert reads.of_units or in_files or not late.store.queues


def test_one_queue_is_read_for_one_message(copied: Path, reads: Reads) -> None:
    with lifted(open_store(copied)) as lifting:
        queue = max(lifting.store.queues, key=lambda queue: sum(file.size for file in queue.files))
    del reads[:]
    query_offset(OffsetQuery(path=copied, topic=queue.topic, queue_id=queue.queue_id, queue_offset=0))
    prefix = unit(queue.topic, queue.queue_id, 0, 0)[0][:-8].hex()
    assert reads.of_units == [("tolerant", "default", "0", prefix)]


def test_many_queues_are_read_at_once(copied: Path, reads: Reads) -> None:
    with lifted(open_store(copied)) as whole, lifted(open_store(copied), late=True) as late:
        assert not any(queue.files for queue in late.store.queues)
        assert late.store.lifted.fetch is not None
        del reads[:]
        for queue, wanted in zip(late.store.queues, whole.store.queues, strict=True):
            fetched = late.store.lifted.fetch(queue)
            assert fetched is not None
            assert [file.path.read_bytes() for file in fetched.files] == [
                file.path.read_bytes() for file in wanted.files
            ]
            assert late.store.lifted.fetch(queue) == fetched
            assert [file.start_offset for file in fetched.files] == [
                file.start_offset for file in wanted.files
            ]
    assert len(reads.of_units) == spilling.LATE_LIMIT + 1
    assert reads.of_units[-1] == ("tolerant", "default", "0", "")


def test_a_queue_whose_rows_are_damaged_is_none(copied: Path) -> None:
    """The other queues of the database answer all the same."""
    units = dict(unit(topic, 0, place, 100 * place) for topic in ("A", "Z") for place in range(500))
    bounds = dict(bound(topic, 0, "max", 499, 49900) for topic in ("A", "Z"))
    write_database(copied / "consumequeue", {"default": units, "offset": bounds})
    path = max((copied / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) * 6 // 10] ^= 1
    path.write_bytes(data)
    with lifted(open_store(copied)) as whole:
        assert list(whole.failed) == ["consumequeue"]
    with lifted(open_store(copied), late=True) as late, StoreView(late.store) as view:
        found = view.queue("A", 0)
        assert found is not None
        assert found.used_end_index == 500
        assert not view.is_unread("A", 0)
        assert not late.store.lifted.failed
        assert view.queue("Z", 0) is None
        assert view.queue("Z", 0) is None
        assert view.is_unread("Z", 0)
        assert list(late.store.lifted.failed) == ["consumequeue"]


def test_no_room_for_a_queue(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> int:
        raise OSError(28, "No space left on device")

    with lifted(open_store(copied), late=True) as late, StoreView(late.store) as view:
        monkeypatch.setattr("os.pwrite", full)
        assert [view.queue(queue.topic, queue.queue_id) for queue in late.store.queues].count(None) == 19
        assert "No space left" in str(late.store.lifted.failed["consumequeue"])


def _scratch(path: Path) -> list[Path]:
    return sorted(path.glob("rocketfsck-*"))


def test_a_check_and_its_verdict_read_a_database_once(
    copied: Path, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    answer = check(CheckCommand((copied,)))
    assert answer.predictions
    assert [read for read in reads.of_units if read[0] == "tolerant"] == [("tolerant", "default", "0", "")]
    assert not _scratch(scratch)


def test_the_same_databases_are_read_once(
    copied: Path, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))

    def read(store: Store) -> int:
        before = len(reads)
        with lifted(store) as lifting:
            assert not lifting.failed
            assert len(lifting.store.queues) == 19
            assert all(file.path.is_file() for queue in lifting.store.queues for file in queue.files)
        return len(reads) - before

    with kept_databases():
        first = read(open_store(copied))
        assert first > 0
        assert read(open_store(copied)) == 0
        with lifted(open_store(copied)):
            assert read(open_store(copied)) == first, "in use, so that it cannot be handed out"
            assert len(_scratch(scratch)) == 1
        other = copied_store(copied, tmp_path / "other")
        assert read(open_store(other)) == first
        assert len(_scratch(scratch)) == 1, "of one store at a time"
        table = next((other / "consumequeue").glob("*.sst"))
        os.utime(table, ns=(1, 1))
        assert read(open_store(other)) == first, "the database is another one now"
    assert not _scratch(scratch)
    for _ in range(2):
        assert read(open_store(copied)) == first, "nothing is kept outside of the block"


def test_what_cannot_be_read_is_not_kept(copied: Path, reads: Reads) -> None:
    (copied / "consumequeue" / "000010.sst").unlink()
    with kept_databases():
        for _ in range(2):
            before = len(reads)
            with lifted(open_store(copied)) as lifting:
                assert list(lifting.failed) == ["consumequeue"]
            assert len(reads) > before


def test_a_block_that_raises_keeps_nothing(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with pytest.raises(ZeroDivisionError), kept_databases(), lifted(open_store(copied)):
        raise ZeroDivisionError
    assert not _scratch(scratch)
