"""Databases for tests: written by rocksdict, with the rows of a broker's or changed ones."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import rocksdict

from rocketfsck.formats.rocks import (
    DISPATCHED_KEY,
    ROCKS_OFFSET,
    ROCKS_UNIT,
    BoundKey,
    UnitKey,
    encode_bound_key,
    encode_i64,
    encode_unit_key,
)
from rocketfsck.store import open_store
from rocketfsck.store.model import Other
from rocketfsck.store.rocks.families import databases_of
from rocketfsck.store.rocks.reading import read_rows

Families = dict[str, dict[bytes, bytes]]


def database_of(root: Path, relative: str) -> Other:
    """The database of a store with that path below its root."""
    (found,) = (other for other in databases_of(open_store(root)) if other.relative == relative)
    return found


def rows_of(database: Other) -> Families:
    """All rows of a database."""
    families: Families = {}
    for rows in read_rows(database):
        families.setdefault(rows.family, {}).update(rows.pairs())
    return families


def write_database(directory: Path, families: Mapping[str, Mapping[bytes, bytes]]) -> None:
    """Make a database with these rows in the place of whatever database is there; other files stay."""
    for path in directory.glob("*") if directory.is_dir() else ():
        if path.is_file():
            path.unlink()
    directory.mkdir(parents=True, exist_ok=True)
    options = rocksdict.Options(raw_mode=True)
    options.create_missing_column_families(True)
    names = {name: rocksdict.Options(raw_mode=True) for name in families if name != "default"}
    database = rocksdict.Rdict(str(directory), options=options, column_families=names)
    for name, rows in families.items():
        family = database if name == "default" else database.get_column_family(name)
        for key, value in rows.items():
            family[key] = value
        family.flush()
    database.close()
    (directory / "rocksdict-config.json").unlink(missing_ok=True)


def change_rows(root: Path, relative: str, family: str, changes: Mapping[bytes, bytes | None]) -> None:
    """Put rows into a database of a store, or take them out (None)."""
    families = rows_of(database_of(root, relative))
    for key, value in changes.items():
        if value is None:
            del families[family][key]
        else:
            families[family][key] = value
    write_database(root / relative, families)


def unit(
    topic: str, queue_id: int, place: int, offset: int, size: int = 100, time: int = 7
) -> tuple[bytes, bytes]:
    """A row of a queue's unit."""
    values = {"phyOffset": offset, "size": size, "tagsCode": 0, "storeTime": time}
    return encode_unit_key(UnitKey(topic.encode(), queue_id, place)), ROCKS_UNIT.build(values)


def bound(topic: str, queue_id: int, name: str, place: int, offset: int) -> tuple[bytes, bytes]:
    """A row of a queue's least ("min") or greatest ("max") queue offset."""
    values = {"phyOffset": offset, "cqOffset": place}
    return encode_bound_key(BoundKey(topic.encode(), queue_id, name == "max")), ROCKS_OFFSET.build(values)


def dispatched(offset: int) -> tuple[bytes, bytes]:
    """The row that says up to where records have units."""
    return DISPATCHED_KEY, encode_i64(offset)


def copied_store(source: Path, target: Path) -> Path:
    """A copy of a store, to be changed, without the timer wheel."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("timerwheel"))
    return target
