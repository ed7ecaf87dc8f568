"""The rows that a child gives: those that RocksDB has, in its order, all of them or those with some keys."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import rocksdict

from rocketfsck.formats.rocks import AT, MARKS, decode_index_key, decode_unit_key, index_middle, queue_prefix
from rocketfsck.store import open_store
from rocketfsck.store.model import Other
from rocketfsck.store.rocks import child, reading
from rocketfsck.store.rocks.families import DEFAULT, MESSAGE_DATABASE, database_at, databases_of
from rocketfsck.store.rocks.reading import KeysWith, RocksError, read_rows

from tests.conftest import REAL_NAMES, RELEASED, Directory
from tests.databases import Families, database_of, rows_of, write_database

WITH_ROWS = sorted({*RELEASED["a RocksDB of consume queues"], *RELEASED["a RocksDB of messages"]})
TOUCHING = {
    b"": b"",
    b"a": b"1",
    b"ab": b"2",
    b"ab\xff": b"3",
    b"ab\xff\xff": b"4",
    b"ac": b"5",
    b"b\0": b"6",
}


def one_by_one(directory: Path) -> tuple[Families, str]:
    """The rows as RocksDB's own iterator has them, and what it says where it cannot go on."""
    options = rocksdict.Options(raw_mode=True)
    names = rocksdict.Rdict.list_cf(str(directory), options)
    database = rocksdict.Rdict(
        str(directory),
        options=options,
        column_families={name: rocksdict.Options(raw_mode=True) for name in names},
        access_type=rocksdict.AccessType.read_only(),
    )
    found: Families = {}
    try:
        for name in names:
            rows = database.get_column_family(name).iter()
            rows.seek_to_first()
            found[name] = {}
            while rows.valid():
                found[name][rows.key()] = rows.value()
                rows.next()
            rows.status()
    except Exception as error:  # noqa: BLE001 - rocksdict raises nothing else
        return found, " ".join(str(error).replace(str(directory), directory.name).split())
    finally:
        database.close()
    return found, ""


def given(root: Path, relative: str) -> tuple[Families, str]:
    """The same as this tool reads them."""
    found: Families = {}
    try:
        for rows in read_rows(database_of(root, relative)):
            found.setdefault(rows.family, {}).update(rows.pairs())
    except RocksError as error:
        return found, error.message
    return found, ""


def in_order(families: Families) -> dict[str, list[tuple[bytes, bytes]]]:
    return {name: list(rows.items()) for name, rows in families.items()}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A store with a database of queues, in many blocks and three tables, with rows of all lengths."""
    choose = random.Random(7)
    rows = {
        choose.randbytes(choose.randrange(40)): choose.randbytes(choose.randrange(300)) for _ in range(4000)
    }
    (tmp_path / "commitlog").mkdir()
    write_database(tmp_path / "consumequeue", {"default": rows, "offset": {}, "other": {b"k": b""}})
    return tmp_path


def test_rows_are_those_of_the_iterator(made: Path) -> None:
    found, said = one_by_one(made / "consumequeue")
    assert len(found["default"]) > 3800
    assert (in_order(given(made, "consumequeue")[0]), said) == (in_order(found), "")


@pytest.mark.parametrize("name", REAL_NAMES)
def test_rows_of_brokers_are_those_of_the_iterator(name: str, real_copy: Directory) -> None:
    root = real_copy(name)
    for other in databases_of(open_store(root)):
        rows, said = given(root, other.relative)
        assert in_order(rows) == in_order(one_by_one(root / other.relative)[0])
        assert not said


@pytest.mark.parametrize("seed", range(6))
def test_before_a_damaged_block_all_rows_are_given(made: Path, seed: int) -> None:
    choose = random.Random(seed)
    path = max((made / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[choose.randrange(len(data) * 9 // 10)] ^= 1
    path.write_bytes(data)
    found, said = one_by_one(made / "consumequeue")
    assert "checksum" in said
    rows, message = given(made, "consumequeue")
    assert message == said
    assert in_order(rows) == in_order(found)


def test_a_second_look_that_goes_further_is_an_error() -> None:
    class Flickering:
        """A family whose items end early, as they do where a read fails once."""

        def items(self, **_options: object) -> Iterator[tuple[bytes, bytes]]:
            return iter([(b"a", b"1")])

        def iter(self, _options: object) -> Flickering:
            return self

        def seek(self, key: bytes) -> None:
            assert key == b"a"

        def next(self) -> None:
            pass

        def valid(self) -> bool:
            return True

    with pytest.raises(OSError, match="fewer rows"):
        child._rows(Flickering(), b"", None, io.BytesIO())


@pytest.mark.parametrize(("batch_size", "long"), [(2000, False), (2000, True), (1 << 19, True)])
def test_batches_are_bounded(
    batch_size: int, long: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog").mkdir()
    rows = {b"%05d" % number: bytes(100) for number in range(1000)}
    if long:
        rows |= {b"%05d" % number: bytes(300_000) for number in range(500, 520)}
    write_database(tmp_path / "consumequeue", {"default": rows})
    small = tmp_path / "child.py"
    text = Path(child.__file__).read_text("utf-8")
    small.write_text(
        text.replace("BATCH_BYTES = 1 << 19", f"BATCH_BYTES = {batch_size}").replace(
            "PART_ROWS = 256", "PART_ROWS = 64"
        ),
        "utf-8",
    )
    monkeypatch.setattr(reading, "_CHILD", small)
    batches = list(read_rows(database_of(tmp_path, "consumequeue")))
    assert {key: value for batch in batches for key, value in batch.pairs()} == rows
    most = max(len(batch.keys) + len(batch.values) for batch in batches)
    row = 300_005 if long else 105
    assert most <= batch_size + max(row, 64 * 105)


@pytest.mark.parametrize("pos", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "texts", [(b"a",), (b"ab",), (b"\xff",), (b"b", b"a"), (b"ab\xff", b"c"), (b"nothing",)]
)
def test_keys_with_a_text(pos: int, texts: tuple[bytes, ...], tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    heads = [b"", b"x", b"xy", b"\xff", b"\xff\xff", b"\xff" * 5, b"12345", b"1234\xff"]
    rows = {head + key: value for head in heads for key, value in TOUCHING.items()}
    write_database(tmp_path / "consumequeue", {"default": rows, "offset": {}})
    found = sought(database_of(tmp_path, "consumequeue"), KeysWith(texts, pos))
    wanted = [
        (key, value) for key, value in sorted(rows.items()) if len(key) >= pos and key.startswith(texts, pos)
    ]
    assert found == wanted


def test_a_text_too_long_for_a_command_line_gives_all_rows(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    write_database(tmp_path / "consumequeue", {"default": TOUCHING})
    keys = KeysWith((b"a" * (1 << 20), b"b"))
    (batch,) = read_rows(database_of(tmp_path, "consumequeue"), keys=keys)
    assert dict(batch.pairs()) == TOUCHING


def sought(other: Other, keys: KeysWith) -> list[tuple[bytes, bytes]]:
    return [pair for rows in read_rows(other, [DEFAULT], keys=keys) for pair in rows.pairs()]


@pytest.mark.parametrize("name", WITH_ROWS)
def test_a_seek_gives_what_reading_all_does(name: str, real_dir: Directory) -> None:
    store = open_store(real_dir(name))
    for relative in ("consumequeue", "consumequeue_rocksdb"):
        other = database_at(store, relative)
        if other is None:
            continue
        rows = rows_of(other)[DEFAULT]
        prefixes = sorted({queue_prefix(unit.topic, unit.queue_id) for unit in map(decode_unit_key, rows)})
        for texts in (prefixes[:1], prefixes[-1:], prefixes[::3]):
            wanted = [(key, rows[key]) for key in sorted(rows) if key.startswith(tuple(texts))]
            assert not texts or sought(other, KeysWith(tuple(texts))) == wanted


def test_a_seek_in_the_index_gives_what_reading_all_does(real_dir: Directory) -> None:
    other = database_at(open_store(real_dir("5.5.0-rocksdb-all")), MESSAGE_DATABASE)
    assert other is not None
    rows = rows_of(other)[DEFAULT]
    middles = set()
    for key in rows.keys() - set(MARKS[DEFAULT]):
        middle = index_middle(decode_index_key(key))
        middles.add(middle[: middle.rindex(AT, 0, -1) + 1])
    chosen = sorted(middles)
    assert len(chosen) > 20
    for texts in (chosen[:1], chosen[9:10], chosen[::7]):
        wanted = [(key, rows[key]) for key in sorted(rows) if key.startswith(tuple(texts), 8)]
        assert sought(other, KeysWith(tuple(texts), 8)) == wanted


def test_a_seek_does_not_read_what_is_damaged_elsewhere(made: Path) -> None:
    found, _ = one_by_one(made / "consumequeue")
    path = max((made / "consumequeue").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    other = database_of(made, "consumequeue")
    for first in (b"\x03", b"\xf0"):
        (batch,) = read_rows(other, [DEFAULT], keys=KeysWith((first,)))
        assert dict(batch.pairs()) == {
            key: value for key, value in found["default"].items() if key.startswith(first)
        }
    with pytest.raises(RocksError, match="checksum"):
        list(read_rows(other, [DEFAULT], keys=KeysWith(tuple(bytes([first]) for first in range(256)))))
