"""`write`, `rebuild` and `salvage` are killed at every file operation: the same command, run again, finishes.

What is there after a kill is what was there before, or the new store; what the killed process left beside is
gone when the command is run again. Nothing that somebody else made is touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck.common.budget import within
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.repair.build.run import RebuildOptions, rebuild_store
from rocketfsck.repair.salvage.ledger import SalvageOptions
from rocketfsck.repair.salvage.salvage import find_records
from rocketfsck.repair.salvage.salvage import write_store as salvage_store
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import Event, Expiry, OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.disk import fileops, publish
from rocketfsck.writer.disk.confined import open_root
from rocketfsck.writer.manifest import ManifestLevel
from rocketfsck.writer.storewriter import StoreWriter, put
from rocketfsck.writer.writing import OnPut, Sums
from rocketfsck.writer.writing import make_store as make_whole

from tests.cases.test_repair_kill import KilledError, counted, killed_at
from tests.conftest import NIGHTLY

GEOMETRY = Geometry(4096, 200, 92, 100, 4, 10)
OPTIONS = WriteOptions(geometry=GEOMETRY, sync=True)
MOMENTS = None if NIGHTLY else 16
"""So many operations at which the process dies, all of them nightly; the last dozen are always among them."""


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def message(number: int) -> OutgoingMessage:
    properties = {"KEYS": f"k{number}"}
    return OutgoingMessage(
        "T", b"body", queue_id=number % 2, properties=properties, store_timestamp=1_700_000_000_000
    )


def fill(writer: StoreWriter, on_put: OnPut | None) -> Sums:
    for number in range(40):
        for record in put(writer, message(number)):
            if on_put is not None:
                on_put(record)
    return {}


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b""
        for path in sorted(root.rglob("*"))
    }


def stores(root: Path) -> dict[str, bytes]:
    """What is there by names that the user knows."""
    return {name: data for name, data in tree(root).items() if not name.startswith(".")}


def write_new(place: Path) -> None:
    make_whole(place / "new", fill, OPTIONS, {}, manifest=ManifestLevel.FULL)


def overwrite(place: Path) -> None:
    write_store(place / "new", map(message, range(30)), OPTIONS, overwrite=True)


def append(place: Path) -> None:
    events: list[Event] = [*map(message, range(40, 60)), Expiry(1)]
    write_store(place / "new", events, OPTIONS, append=True)


def rebuild(place: Path) -> None:
    options = RebuildOptions(queues=True, index=True, checkpoint=True, save_seconds=0.0)
    with within(jobs=1):
        rebuild_store(open_store(place / "source"), place / "new", options)


def salvage(place: Path) -> None:
    options = SalvageOptions(file_size=4096, version="5.3.3")
    with within(jobs=1):
        salvage_store(find_records([place / "source"], options), place / "new")


def source(place: Path) -> None:
    write_store(place / "source", map(message, range(40)), OPTIONS)


def target(place: Path) -> None:
    write_store(place / "new", map(message, range(40)), OPTIONS)


def moments(count: int) -> list[int]:
    if MOMENTS is None:
        return list(range(count))
    return sorted({*range(0, count, max(count // MOMENTS, 1)), *range(max(count - 12, 0), count)})


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "renames"])
@pytest.mark.parametrize(
    ("prepare", "run"),
    [(None, write_new), (target, overwrite), (target, append), (source, rebuild), (source, salvage)],
    ids=["write", "overwrite", "append", "rebuild", "salvage"],
)
def test_killed_at_every_operation(
    tmp_path: Path,
    prepare: Callable[[Path], None] | None,
    run: Callable[[Path], None],
    exchange: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not exchange:
        if prepare is not target:
            pytest.skip("nothing is exchanged")

        def no_exchange(_first: object, second: object) -> bool:
            if fileops.watch is not None:
                fileops.watch("exchange", str(second))
            return False

        monkeypatch.setattr(fileops, "exchange", no_exchange)
    place = tmp_path / "place"

    def fresh() -> dict[str, bytes]:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        if prepare is not None:
            prepare(place)
        return tree(place)

    old = fresh()
    with counted() as names:
        run(place)
    new = tree(place)
    assert new == stores(place) != old
    for number in moments(len(names)):
        assert fresh() == old
        with killed_at(number), pytest.raises(KilledError):
            run(place)
        found = stores(place)
        partly = not exchange or run in (write_new, salvage)
        assert found in (old, new) or partly, number
        if partly and found not in (old, new):  # beside the store, or instead of it for an instant
            assert {name for name in found if name.startswith("new/")} in (
                {name for name in state if name.startswith("new/")} for state in ({}, old, new)
            )
        if found == new and run not in (overwrite, append):
            with pytest.raises((StoreError, UsageError), match="exists"):
                run(place)
        elif found == new and run is append:  # what was replaced goes with the next command
            publish.clear_leftovers(place / "new")
        else:
            run(place)
        assert tree(place) == new, number


def test_what_a_living_process_builds_stays(tmp_path: Path) -> None:
    with publish.building_directory(tmp_path / "new", replace=False, sync=False) as building:
        publish.clear_leftovers(tmp_path / "new")
        assert building.is_dir()
    side = publish.SideFile(tmp_path / "file", "ascii")
    side.stream.write("text")
    side.complete(sync=False)
    side.publish()
    publish.clear_side_file(tmp_path / "file", tmp_path / "nothing")
    assert (tmp_path / "file").read_text() == "text"
    side.end(keep=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "new"]


def test_what_others_made_stays(tmp_path: Path) -> None:
    """A ledger or manifest without its store is taken back only if a killed process of ours made it."""
    for name in (".new.0123456789abcde.part", ".new.0123456789abcdef.tmp", ".newer.0123456789abcdef.part"):
        (tmp_path / name).mkdir()
    (tmp_path / "new.ledger.jsonl").write_text("mine")
    (tmp_path / ".new.ledger.jsonl.0123456789abcdef.part").write_text("mine")
    before = tree(tmp_path)
    publish.clear_leftovers(tmp_path / "new")
    publish.clear_side_file(tmp_path / "new.ledger.jsonl", tmp_path / "new")
    del before[".new.ledger.jsonl.0123456789abcdef.part"]  # no process holds it
    assert tree(tmp_path) == before


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def no_links(name: str, path: str) -> None:
        if name == "link":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)

    monkeypatch.setattr(fileops, "watch", no_links)
    source(tmp_path)
    salvage(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"source", "new", "new.ledger.jsonl"}
    shutil.rmtree(tmp_path / "new")
    with pytest.raises(StoreError, match=r"exists without its store.*move it away"):
        salvage(tmp_path)
    side = publish.SideFile(tmp_path / "new.ledger.jsonl", "ascii")
    with pytest.raises(FileExistsError):
        side.publish()
    side.end(keep=False)


def test_a_directory_to_write_in_is_made(tmp_path: Path) -> None:
    with fileops.open_directory(tmp_path / "a" / "b", only=frozenset({"c"})) as root:
        fileops.create(root / "c", 1)
    fileops.write_new(open_root(tmp_path) / "a/b/c", b"new")
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"new"
