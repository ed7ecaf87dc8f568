"""Damage as rows, left out or as an error; and never told twice or lost between two parts of a file."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import iter_messages
from rocketfsck.errors import StoreError, may_pass
from rocketfsck.pipeline.sources import find_sources, open_source
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import plan_parts
from rocketfsck.store import open_store

from tests.conftest import Directory
from tests.unit.pipeline.viewing import damage, hide, messages, read, rows_of
from tests.unit.scan.logmaker import STORE_TIMESTAMP, blank, closed, log, record

SIZE = 1 << 16
SPLITS = (4096, 5000, 20_000)

Log = Callable[[], bytes]


def _records(count: int, size: int = 500, **changes: Any) -> bytes:
    return log(*(bytes([65 + number % 26]) * size for number in range(count)), base=0, **changes)


def _overwritten(data: bytes, pos: int, with_what: bytes) -> bytes:
    return data[:pos] + with_what + data[pos + len(with_what) :]


ONE = len(_records(1))


def _holed() -> bytes:
    return _overwritten(closed(_records(80), SIZE), 10_000, bytes(9000))


def _garbage() -> bytes:
    return _overwritten(closed(_records(80), SIZE), 20 * ONE, bytes(range(1, 255)) * 30)


def _wrong_magic() -> bytes:
    data = closed(_records(80), SIZE)
    pos = len(_records(20))
    return _overwritten(data, pos + 4, b"\x12\x34\x56\x78")


def _wrong_lengths() -> bytes:
    """A record whose topic is longer than it is: framed by its totalSize."""
    data = closed(_records(80), SIZE)
    return _overwritten(data, 30 * ONE + 88 + 500, b"\xff")


def _torn() -> bytes:
    data = _records(40)
    return (data[:-300]).ljust(SIZE, b"\0")


def _hidden() -> bytes:
    """A record whose body is a record that knows its own place, and lies across several splits."""
    head = _records(5)
    inside = head + b"x" * 88
    body = b"".join(record(len(inside) + 200 * number) for number in range(150))
    return closed(head + record(len(head), body=body, queue_offset=5), SIZE)


def _hidden_behind_damage() -> bytes:
    data = _hidden()
    return _overwritten(data, len(_records(5)), b"\xff\xff")


def _stale() -> bytes:
    """A shorter, newer life of the log over an older one."""
    old = closed(_records(80, store_timestamp=STORE_TIMESTAMP - 10_000_000), SIZE)
    new = _records(33, size=333)
    return new + b"\x99" * 50 + old[len(new) + 50 :]


def _short_blank() -> bytes:
    data = _records(50)
    return (data + blank(99)).ljust(SIZE, b"\x07")


def _wrong_crcs() -> bytes:
    data = _records(80)
    for number in (3, 17, 18, 70):
        data = _overwritten(data, number * ONE + 100, b"!")
    return closed(data, SIZE)


def _nothing() -> bytes:
    return bytes(SIZE)


def _noise() -> bytes:
    return bytes(7 * number % 251 for number in range(SIZE))


LOGS: tuple[Log, ...] = (
    _holed,
    _garbage,
    _wrong_magic,
    _wrong_lengths,
    _torn,
    _hidden,
    _hidden_behind_damage,
    _stale,
    _short_blank,
    _wrong_crcs,
    _nothing,
    _noise,
)
SOUND = frozenset({_hidden, _stale, _nothing})


def _store(root: Path, data: bytes) -> Path:
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(data)
    return root


@pytest.mark.parametrize("make", LOGS)
def test_parts_are_the_file_whatever_is_in_it(make: Log, tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", make())
    for live_only in (True, False):
        whole = read("messages", root, fixed=True, live_only=live_only)
        for split in SPLITS:
            assert read("messages", root, fixed=True, live_only=live_only, split_size=split) == whole
        expected = [message.pos for message in iter_messages(open_store(root), live_only=live_only)]
        assert [row["pos"] for row in messages(whole)] == expected
    live = read("messages", root, fixed=True)
    assert [row for row in whole if row["live"]] == live
    assert [row["pos"] for row in whole] == sorted(row["pos"] for row in whole)


@pytest.mark.parametrize("make", LOGS)
def test_modes(make: Log, tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", make())
    rows = read("messages", root, fixed=True)
    bad = [row for row in rows if row["_corrupt_record"] is not None]
    assert (not bad) == (make in SOUND)
    kept = [
        {name: value for name, value in row.items() if name != "_corrupt_record"}
        for row in rows
        if row["_corrupt_record"] is None
    ]
    assert read("messages", root, fixed=True, mode="DROPMALFORMED") == kept
    if bad:
        place = re.escape(f"{root}/commitlog/{0:020} at byte {bad[0]['pos']}: ")
        with pytest.raises(StoreError, match=place):
            read("messages", root, fixed=True, mode="FAILFAST")
    else:
        assert read("messages", root, fixed=True, mode="FAILFAST") == kept


def _stated(root: Path) -> list[dict[str, Any]]:
    return [json.loads(row["_corrupt_record"]) for row in damage(read("messages", root))]


def test_what_is_said_of_damage(tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", _garbage())
    (row,) = damage(read("messages", root))
    said = json.loads(row["_corrupt_record"])
    assert said == {
        "kind": "damaged",
        "reason": said["reason"],
        "file": f"commitlog/{0:020}",
        "start": 20 * ONE,
        "end": -(-(20 * ONE + 254 * 30) // ONE) * ONE,
        "offset": 20 * ONE,
    }
    assert {name: value for name, value in row.items() if value is not None} == {
        "broker": "broker",
        "file": said["file"],
        "offset": said["offset"],
        "pos": said["start"],
        "size": said["end"] - said["start"],
        "live": True,
        "_corrupt_record": row["_corrupt_record"],
    }


def test_zeros_between_records_are_damage_those_at_the_end_are_not(tmp_path: Path) -> None:
    kinds = {said["kind"] for said in _stated(_store(tmp_path / "holed", _holed()))}
    assert kinds >= {"zero"} or kinds == {"damaged"}
    assert _stated(_store(tmp_path / "empty", _nothing())) == []
    cut = _records(20)
    hole = cut.ljust(20_000, b"\0") + record(20_000, queue_offset=20)
    (said,) = _stated(_store(tmp_path / "hole", hole.ljust(SIZE, b"\0")))
    assert (said["kind"], said["start"], said["end"]) == ("zero", len(cut), 20_000)


def test_a_message_with_a_wrong_crc_has_its_fields(tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", _wrong_crcs())
    rows = read("messages", root)
    bad = [row for row in rows if not row["body_crc_ok"]]
    assert [row["queue_offset"] for row in bad] == [3, 17, 18, 70]
    for row in bad:
        said = json.loads(row["_corrupt_record"])
        assert (said["kind"], said["reason"]) == ("record", "body-crc")
        assert (said["start"], said["end"]) == (row["pos"], row["pos"] + row["size"])
        assert b"!" in row["body"]
        assert row["faults"] == ["body-crc"]
    assert len(read("messages", root, mode="DROPMALFORMED", columns=("offset",), level="cross")) == 80


def test_conditions_on_messages_leave_damage_out_as_sql_would(tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", _garbage())
    assert damage(read("messages", root))
    assert not damage(read("messages", root, topic="TopicTest"))
    start = damage(read("messages", root))[0]["offset"]
    assert damage(read("messages", root, begin_offset=start, end_offset=start + 1))
    assert not read("messages", root, begin_offset=start + 1, end_offset=start + 2)
    with pytest.raises(StoreError, match="damaged bytes up to"):
        read("messages", root, mode="FAILFAST", topic="TopicTest")


MODES: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "DROPMALFORMED"},
    {"mode": "FAILFAST"},
    {"topic": "Seg0"},
    {"columns": ("offset",)},
)


def _gone(root: Path, name: str, **wanted: Any) -> list[dict[str, Any]]:
    """The rows of a plan one of whose files was deleted before they were read."""
    asked = WantedRows(damage_rows=True, **wanted)
    parts = plan_parts("messages", find_sources([root]), asked)
    kept = (root / name).read_bytes()
    (root / name).unlink()
    try:
        return [row for part in parts for row in rows_of(part, asked)]
    finally:
        (root / name).write_bytes(kept)


@pytest.mark.parametrize("wanted", MODES, ids=str)
def test_a_file_that_vanished_is_an_error_in_every_mode(
    store_copy: Directory, wanted: dict[str, Any]
) -> None:
    root = store_copy("4.9.8-multiseg")
    name = "commitlog/00000000000000131072"
    with pytest.raises(StoreError, match=f"{root}/{name}: cannot be opened: No such file"):
        _gone(root, name, **wanted)


@pytest.mark.parametrize("split_size", [0, 50_000])
def test_a_file_that_vanished_is_rows_where_that_was_asked_for(
    store_copy: Directory, split_size: int
) -> None:
    """A row for each part that was not read: the rows tell of all bytes; also beside messages of a topic."""
    root = store_copy("4.9.8-multiseg")
    name = "commitlog/00000000000000131072"
    whole = read("messages", root)
    rows = _gone(root, name, on_unreadable="row", split_size=split_size)
    lost = damage(rows)
    assert {json.loads(row["_corrupt_record"])["kind"] for row in lost} == {"unreadable"}
    assert all("No such file" in row["_corrupt_record"] for row in lost)
    assert [(row["file"], row["pos"], row["size"]) for row in lost] == (
        [(name, 0, 50_000), (name, 50_000, 50_000), (name, 100_000, 31_072)]
        if split_size
        else [(name, 0, 131_072)]
    )
    assert [row["offset"] for row in lost] == [131_072 + row["pos"] for row in lost]
    assert messages(rows) == [row for row in whole if row["file"] != name]
    assert damage(_gone(root, name, on_unreadable="row", split_size=split_size, topic="Seg0")) == lost


@pytest.fixture
def failing_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Bytes of files that the disk does not give, from a position on."""
    real = os.preadv

    def fail(start: int) -> None:
        def preadv(descriptor: int, buffers: list[Any], pos: int) -> int:
            room = sum(memoryview(buffer).nbytes for buffer in buffers)
            if pos + room <= start:
                return real(descriptor, buffers, pos)
            if pos < start:
                return real(descriptor, [memoryview(buffers[0]).cast("B")[: start - pos]], pos)
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "preadv", preadv)

    return fail


@pytest.mark.parametrize("wanted", MODES, ids=str)
def test_a_disk_that_fails_is_an_error_that_may_pass(
    tmp_path: Path, wanted: dict[str, Any], failing_at: Callable[[int], None]
) -> None:
    root = _store(tmp_path / "broker", closed(_records(80), SIZE))
    parts = plan_parts("messages", find_sources([root]), WantedRows(**wanted))
    failing_at(10_000)
    with pytest.raises(StoreError) as caught:
        [row for part in parts for row in rows_of(part, WantedRows(**wanted))]
    assert str(caught.value) == f"{root}/commitlog/{0:020} at byte 10000: cannot be read: Input/output error"
    assert may_pass(caught.value)


def test_a_disk_that_fails_is_a_row_behind_what_was_read(
    tmp_path: Path, failing_at: Callable[[int], None]
) -> None:
    """Messages and the row for the rest are the whole file, in parts of any size."""
    root = _store(tmp_path / "broker", closed(_records(80), SIZE))
    whole = read("messages", root)
    plans = [
        (wanted, plan_parts("messages", find_sources([root]), wanted))
        for wanted in (
            WantedRows(on_unreadable="row", damage_rows=True),
            WantedRows(on_unreadable="row", damage_rows=True, split_size=4096),
        )
    ]
    failing_at(10_000)
    for wanted, parts in plans:
        rows = [row for part in parts for row in rows_of(part, wanted)]
        lost, kept = damage(rows), messages(rows)
        assert all("at byte 10000: cannot be read" in row["_corrupt_record"] for row in lost)
        assert kept == whole[: len(kept)]
        covered = [(row["pos"], row["pos"] + row["size"]) for row in lost]
        for row in whole[len(kept) :]:
            assert any(low <= row["pos"] < high for low, high in covered)


@pytest.mark.parametrize("view", ["consumequeue", "index", "regions", "files", "findings"])
def test_vanished_files_of_other_views(view: str, store_copy: Directory) -> None:
    root = store_copy("5.3.3-trans")
    sources = find_sources([root])
    parts = plan_parts(view, sources)
    for file in [path for path in root.rglob("*") if path.is_file()]:
        file.unlink()
    if view in ("files", "findings"):
        for directory in sorted(root.rglob("*"), reverse=True):
            directory.rmdir()
        root.rmdir()
        open_source.cache_clear()  # as in another process
    for wanted in (WantedRows(), WantedRows(mode="DROPMALFORMED"), WantedRows(mode="FAILFAST")):
        with pytest.raises(StoreError, match=re.escape(str(root))):
            [row for part in parts for row in rows_of(part, wanted)]
    rows = [row for part in parts for row in rows_of(part, WantedRows(on_unreadable="row"))]
    assert rows
    assert {json.loads(row["_corrupt_record"])["kind"] for row in rows} == {"unreadable"}


HIDDEN = (
    ("messages", "commitlog/00000000000000131072"),
    ("messages", "commitlog"),
    ("regions", "commitlog/00000000000000131072"),
    ("consumequeue", "consumequeue/Seg0/0/00000000000000000000"),
    ("consumequeue", "consumequeue/Seg0"),
    ("index", "index"),
)


@pytest.mark.parametrize(("view", "name"), HIDDEN)
@pytest.mark.parametrize("is_link", [True, False])
def test_what_cannot_be_listed_hides_files(
    view: str, name: str, is_link: bool, store_copy: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that leads nowhere, and a name that the system does not let us look at, are no fewer rows."""
    root = store_copy("4.9.8-multiseg")
    whole = read(view, root)
    hide(root / name, monkeypatch, is_link=is_link)
    with pytest.raises(StoreError, match=re.escape(f"{root}/{name}: cannot be read: ")):
        read(view, root)
    rows = read(view, root, on_unreadable="row")
    (lost,) = [row for row in rows if row["_corrupt_record"] is not None]
    assert json.loads(lost["_corrupt_record"])["kind"] == "unreadable"
    assert lost["file"] == name
    assert [row for row in rows if row != lost] == [row for row in whole if not row["file"].startswith(name)]
    other = "messages" if view in ("consumequeue", "index") else "index"
    assert read(other, root)


def test_a_listing_with_a_hole_fails_other_views_too(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = store_copy("5.3.3-trans")
    name = "index"
    hide(root / name, monkeypatch, is_link=False)
    for view in ("files", "findings"):
        with pytest.raises(StoreError, match="Stale file handle"):
            read(view, root)
        stated = [row for row in read(view, root, on_unreadable="row") if row["_corrupt_record"]]
        assert [row["file"] for row in stated] == [name]
        assert "Stale file handle" in stated[0]["_corrupt_record"]


def test_the_column_of_damage_can_have_another_name(tmp_path: Path) -> None:
    root = _store(tmp_path / "broker", _garbage())
    rows = read("messages", root, corrupt_column="bad")
    assert any(row["bad"] for row in rows)
    assert "_corrupt_record" not in rows[0]
    assert len(read("messages", root, columns=("offset",))) == len(rows)


@pytest.mark.parametrize("make", LOGS)
def test_messages_and_damage_are_two_views_of_the_same_walk(make: Log, tmp_path: Path) -> None:
    """`messages` has no row that is none; `damage` has all other rows, and one for each wrong CRC."""
    root = _store(tmp_path / "broker", make())
    together = read("messages", root, fixed=True)
    alone = read("messages", root, fixed=True, damage_rows=False)
    assert alone == messages(together)
    rows = read("damage", root, fixed=True)
    bad = [row for row in together if row["_corrupt_record"] is not None]
    assert sorted((row["pos"], row["size"], row["topic"], row["queue_offset"]) for row in rows) == [
        (row["pos"], row["size"], row["topic"], row["queue_offset"]) for row in bad
    ]
    stated = {row["pos"]: json.loads(row["_corrupt_record"]) for row in bad}
    for row in rows:
        assert (row["kind"], row["reason"]) == (stated[row["pos"]]["kind"], stated[row["pos"]]["reason"])
        assert (row["offset"], row["file"]) == (row["pos"], f"commitlog/{0:020}")
    for split in SPLITS:
        split_rows = read("damage", root, fixed=True, split_size=split)
        assert sorted(map(repr, split_rows)) == sorted(map(repr, rows))
    framed = read("damage", root, fixed=True, level="cross")
    assert framed == [row for row in rows if row["kind"] != "record"]
    if rows:
        with pytest.raises(StoreError, match="broker/commitlog/"):
            read("damage", root, fixed=True, mode="FAILFAST")


@pytest.mark.parametrize("is_missing", [True, False])
def test_what_may_be_ignored_is_left_out_and_told_by_the_view_of_damage(
    store_copy: Directory, monkeypatch: pytest.MonkeyPatch, is_missing: bool
) -> None:
    """As with Spark's own sources, each option is for one kind of trouble."""
    root = store_copy("4.9.8-multiseg")
    whole = read("messages", root)
    name = f"{root}/commitlog/00000000000000131072"
    fitting = {"ignore_missing_files" if is_missing else "ignore_corrupt_files": True}
    other = {"ignore_corrupt_files" if is_missing else "ignore_missing_files": True}

    def rows(view: str, **wanted: bool) -> list[dict[str, Any]]:
        asked = WantedRows(**wanted)  # type: ignore[arg-type]
        return [row for part in plans[view] for row in rows_of(part, asked)]

    plans = {view: plan_parts(view, find_sources([root])) for view in ("messages", "regions", "damage")}
    if is_missing:
        Path(name).unlink()
    else:
        real = os.open

        def failing(path: Any, *rest: Any, **more: Any) -> int:
            if os.fspath(path) == name:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(path, *rest, **more)

        monkeypatch.setattr(os, "open", failing)
    for view in plans:
        for wanted in ({}, other):
            with pytest.raises(StoreError, match=name):
                rows(view, **wanted)
    assert rows("messages", **fitting) == [row for row in whole if row["file"] not in name]
    assert not any(row["file"] in name for row in rows("regions", **fitting))
    (lost,) = rows("damage", **fitting)
    assert (lost["kind"], lost["offset"], lost["size"]) == ("unreadable", 131_072, 131_072)
