"""Faults of rows and of the WAL: what keeps a database from having them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketfsck.formats.rocks import MARKS, encode_i64
from rocketfsck.writer.damage.model import DamageError
from rocketfsck.writer.damage.run import damage_store

from tests.conftest import Directory
from tests.databases import copied_store, database_of, rows_of, write_database


@pytest.mark.parametrize(
    ("store", "database", "fault"),
    [
        ("5.5.0-rocksdb-cq", "consumequeue", "database-unit-time"),
        ("5.5.0-rocksdb-all", "rocksdbstore", "database-index-row"),
    ],
)
def test_rows_of_no_shape_are_not_chosen(
    store: str, database: str, fault: str, real_dir: Directory, tmp_path: Path
) -> None:
    root = copied_store(real_dir(store), tmp_path / "store")
    families = rows_of(database_of(root, database))
    odd = {b"\x07" * 40: b"?", MARKS["default"][0]: encode_i64(5)}
    write_database(root / database, {**families, "default": odd})
    with pytest.raises(DamageError, match=r"the store has no .*(unit in RocksDB|index row of a key)"):
        damage_store(root, tmp_path / "damaged", [fault], 1)


def test_a_wal_that_is_damaged_is_not_torn(real_dir: Directory, tmp_path: Path) -> None:
    root = copied_store(real_dir("5.5.0-rocksdb-config-v2"), tmp_path / "store")
    (log,) = (root / "config/rdb").glob("*.log")
    log.write_bytes(b"\xff" * log.stat().st_size)
    with pytest.raises(DamageError, match="no RocksDB with rows in its WAL"):
        damage_store(root, tmp_path / "damaged", ["database-log-torn"], 1)


def test_the_same_seed_changes_the_same_row(real_dir: Directory, tmp_path: Path) -> None:
    source = real_dir("5.5.0-rocksdb-all")
    before = rows_of(database_of(source, "rocksdbstore"))
    made = []
    for name in ("one", "two"):
        damage_store(source, tmp_path / name, ["database-index-row"], 3)
        made.append(rows_of(database_of(tmp_path / name, "rocksdbstore")))
    assert made[0] == made[1]
    assert len(made[0]["default"].keys() ^ before["default"].keys()) == 2
    assert {name: rows for name, rows in made[0].items() if name != "default"} == {
        name: rows for name, rows in before.items() if name != "default"
    }
