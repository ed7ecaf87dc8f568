"""A fleet's rebuild is killed, or run again: it takes over results that it would build, and no others."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck import __version__
from rocketfsck.common.budget import within
from rocketfsck.engine import LocalEngine
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.pipeline.fleet import records, stages
from rocketfsck.pipeline.fleet.rebuilding import RebuildJob, rebuild_stores
from rocketfsck.pipeline.fleet.records import RECORDS, RebuiltRow, RebuiltStores
from rocketfsck.pipeline.fleet.run import make_run_id
from rocketfsck.pipeline.fleet.stages import Share
from rocketfsck.repair.build import files
from rocketfsck.repair.build.run import RebuildOptions
from rocketfsck.store.circumstances import Geometry
from rocketfsck.writer import OutgoingMessage, WriteOptions, write_store
from rocketfsck.writer.disk import fileops

from tests.conftest import NIGHTLY
from tests.unit.pipeline.fleeting import Distant
from tests.unit.pipeline.rebuilding import names, results

OPTIONS = RebuildOptions(sync=False)
SYNCED = replace(OPTIONS, sync=True)
FACTS = {"version": "5.3.3"}
"""One start is predicted, in place of eight."""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Two stores, and one without a log."""
    for name in ("a", "b"):
        make_store(tmp_path / "fleet" / name, 12)
    (tmp_path / "fleet" / "c" / "consumequeue").mkdir(parents=True)
    return tmp_path / "fleet"


def make_store(root: Path, count: int) -> None:
    messages = (
        OutgoingMessage(
            "T",
            b"body",
            queue_id=number % 2,
            properties={"KEYS": f"k{number}"},
            store_timestamp=1_700_000_000_000 + number,
        )
        for number in range(count)
    )
    root.parent.mkdir(exist_ok=True)
    write_store(root, messages, WriteOptions(geometry=Geometry(4096, 200, 92, 100, 4, 10), sync=False))


def rebuild(fleet: Path, into: Path, options: RebuildOptions = OPTIONS, **more: Any) -> RebuiltStores:
    facts = FACTS | more.pop("facts", {})
    return rebuild_stores([fleet / "?"], into, "all", options, facts=facts, **more)


def rows(found: RebuiltStores) -> list[RebuiltRow]:
    """The rows without what no two runs share."""
    return [replace(row, run_id="", seconds=0.0, taken_over_from=None, into=None) for row in found.stores]


def taken(found: RebuiltStores) -> list[str]:
    return [row.broker for row in found.stores if row.taken_over_from is not None]


def killed_in_a_child(number: int, run: Callable[[], object]) -> int:
    """Run in a child, which SIGKILL ends before its file operation `number`; gives how it ended."""
    child = os.fork()
    if child == 0:
        left = number

        def watch(_name: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        fileops.watch = watch
        try:
            run()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def moments(operations: list[str], count: int) -> list[int]:
    """Each from the writing of a record to the name of its result, and at the start; of others `count`."""
    if NIGHTLY:
        return list(range(len(operations)))
    ends = [at for at, path in enumerate(operations) if f"/{RECORDS}/" in path and path.endswith(".json")]
    around = {at + more for at in ends for more in range(-3, 4)}
    some = [len(operations) * number // count for number in range(count)]
    return sorted(number for number in {*range(3), *around, *some} if number < len(operations))


@contextmanager
def counted() -> Iterator[list[str]]:
    """The paths of all operations that are made."""
    paths: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fileops, "watch", lambda _name, path: paths.append(path))
        yield paths


@pytest.mark.parametrize(
    ("engine", "count"), [(LocalEngine(1), 8), (Distant(), 2)], ids=["local", "elsewhere"]
)
def test_killed_at_every_operation_and_run_again(
    fleet: Path, tmp_path: Path, engine: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run has the bytes and the rows of a straight one, and takes over what had its name."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    into = tmp_path / "built"
    with counted() as operations:
        expected = rebuild(fleet, tmp_path / "straight", SYNCED, engine=engine)
    assert (taken(expected), expected.removed_runs) == ([], ())
    bytes_expected, seen = results(tmp_path / "straight"), set()
    for number in moments(operations, count):
        ended = killed_in_a_child(number, lambda: rebuild(fleet, into, SYNCED, engine=engine))
        assert ended == -signal.SIGKILL, number
        there = names(into) if into.exists() else []
        shelves = [name for name in there if name.startswith(".")]
        found = rebuild(fleet, into, SYNCED, engine=engine)
        assert results(into) == bytes_expected, number
        assert rows(found) == rows(expected)
        assert (found.exit_code, found.state_counts) == (expected.exit_code, expected.state_counts)
        assert taken(found) == [name for name in there if not name.startswith(".")]
        assert [f".{run}" for run in found.removed_runs] == shelves
        assert len(list((into / RECORDS).glob("*.json"))) == 2  # nothing is left of what had no name
        seen.add((len(taken(found)), len(shelves)))
        shutil.rmtree(into)
    assert seen >= {(0, 1), (1, 1)}


def test_killed_twice_and_at_its_end(fleet: Path, tmp_path: Path) -> None:
    into = tmp_path / "built"
    expected = rebuild(fleet, tmp_path / "straight")
    with counted() as operations:
        rebuild(fleet, tmp_path / "other")
    for part in (0.4, 0.9):
        assert killed_in_a_child(int(len(operations) * part), lambda: rebuild(fleet, into)) < 0
    found = rebuild(fleet, into)
    assert results(into) == results(tmp_path / "straight")
    assert rows(found) == rows(expected)
    again = rebuild(fleet, into)
    assert (taken(again), again.removed_runs) == (["a", "b"], ())
    assert rows(again) == rows(expected)
    assert again.stores[0].into == str(into / "a")
    assert results(into) == results(tmp_path / "straight")


def test_only_what_failed_or_is_new_is_built(fleet: Path, tmp_path: Path) -> None:
    into = tmp_path / "built"
    first = rebuild(fleet, into)
    before = {name: (into / name).stat().st_ino for name in ("a", "b")}
    shutil.rmtree(fleet / "c")
    for name in ("c", "d"):
        make_store(fleet / name, 5)
    found = rebuild(fleet, into)
    assert [(row.broker, row.state, row.taken_over_from) for row in found.stores] == [
        ("a", "rebuilt", first.run_id),
        ("b", "rebuilt", first.run_id),
        ("c", "rebuilt", None),
        ("d", "rebuilt", None),
    ]
    assert {name: (into / name).stat().st_ino for name in before} == before


def test_a_large_store_is_not_built_to_be_taken_over(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "WHOLE_WEIGHT", 0)
    into, first, second = tmp_path / "built", Distant(), Distant()
    rebuild(fleet, into, engine=first)
    assert first.count(Share) > 0
    assert taken(rebuild(fleet, into, engine=second)) == ["a", "b"]
    assert second.count(Share) == 0


def log_of(root: Path) -> Path:
    return sorted((root / "commitlog").iterdir())[0]


def rewrite(path: Path) -> None:
    """Other bytes, of the same size and time."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"changed")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def copied(path: Path) -> None:
    """The same bytes, with the same time, in another file."""
    status = path.stat()
    data = path.read_bytes()
    path.rename(path.with_name("x"))
    path.write_bytes(data)
    (path.parent / "x").unlink()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


CHANGES: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "log-bytes": (lambda store, _: rewrite(log_of(store)), "the store has changed since"),
    "log-file": (lambda store, _: copied(log_of(store)), "the store has changed since"),
    "log-time": (lambda store, _: touch(log_of(store)), "the store has changed since"),
    "checkpoint": (lambda store, _: touch(store / "checkpoint"), "the store has changed since"),
    "queue": (lambda store, _: shutil.rmtree(store / "consumequeue"), "the store has changed since"),
    "result-time": (lambda _, built: touch(built / "checkpoint"), "something in it has changed since"),
    "result-file": (lambda _, built: copied(built / "checkpoint"), "something in it has changed since"),
    "result-less": (lambda _, built: shutil.rmtree(built / "index"), "something in it has changed since"),
    "result-more": (lambda _, built: (built / "mine").mkdir(), "something in it has changed since"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_is_refused_and_stays(fleet: Path, tmp_path: Path, name: str) -> None:
    into = tmp_path / "built"
    first = rebuild(fleet, into)
    change, text = CHANGES[name]
    change(fleet / "a", into / "a")
    before = results(into)
    found = rebuild(fleet, into)
    assert [(row.state, row.exit_code) for row in found.stores] == [
        ("failed", 8),
        ("rebuilt", 0),
        ("failed", 8),
    ]
    assert taken(found) == ["b"]
    error = found.stores[0].error or ""
    assert error.startswith(f"{into / 'a'}: is a result of run {first.run_id}, but {text}")
    assert error.endswith(": move it away to build it again")
    assert results(into) == before
    (into / "a").rename(tmp_path / "away")
    assert taken(rebuild(fleet, into)) == ["b"]
    assert len(list((into / RECORDS).glob("*.json"))) == 2


def test_other_options_other_stores_and_versions_are_refused(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "built"
    rebuild(fleet, into)
    before = results(into)

    def refused(text: str, found: RebuiltStores) -> None:
        assert {row.state for row in found.stores} == {"failed"}
        assert text in (found.stores[0].error or "")
        assert results(into) == before

    options = "options or settings were others"
    refused(options, rebuild(fleet, into, replace(OPTIONS, time_zone="Asia/Shanghai")))
    refused(options, rebuild_stores([fleet / "?"], into, "index", OPTIONS, facts=FACTS))
    refused(options, rebuild(fleet, into, facts={"delay_levels": "1s 2s"}))
    refused(options, rebuild(fleet, into, facts={"version": "4.9.8"}))
    shutil.copytree(fleet, tmp_path / "other")
    refused(f"the store of that run is {fleet / 'a'}", rebuild(tmp_path / "other", into))
    with monkeypatch.context() as patch:
        patch.setattr(records, "__version__", "99.0")
        refused(f"rocketfsck {__version__} built it", rebuild(fleet, into))
    with monkeypatch.context() as patch:
        patch.setattr(files, "BOOT_ID", tmp_path / "none")
        refused("the machine has restarted since", rebuild(fleet, into))
    assert taken(rebuild(fleet, into)) == ["a", "b"]


def test_synced_results_outlive_the_machine_and_options_of_speed_do_not_count(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild(fleet, tmp_path / "built", SYNCED)
    monkeypatch.setattr(files, "BOOT_ID", tmp_path / "none")
    with within(jobs=2):
        assert taken(rebuild(fleet, tmp_path / "built", OPTIONS)) == ["a", "b"]


def spoil(into: Path, change: Callable[[dict[str, Any]], object]) -> None:
    [path] = (into / RECORDS).glob("a.*.json")
    document = json.loads(path.read_text("ascii"))
    change(document)
    path.write_text(json.dumps(document), "ascii")


def without_record(into: Path) -> None:
    next((into / RECORDS).glob("a.*.json")).unlink()


def half_a_record(into: Path) -> None:
    path = next((into / RECORDS).glob("a.*.json"))
    path.write_bytes(path.read_bytes()[:-9])


def a_copy(into: Path) -> None:
    (into / "a").rename(into.parent / "away")
    shutil.copytree(into.parent / "away", into / "a")


def a_link(into: Path) -> None:
    (into / "a").rename(into.parent / "away")
    (into / "a").symlink_to(into.parent / "away")


def a_file(into: Path) -> None:
    shutil.rmtree(into / "a")
    (into / "a").write_text("mine")


FOREIGN: dict[str, Callable[[Path], object]] = {
    "unrecorded": without_record,
    "no-records": lambda into: shutil.rmtree(into / RECORDS),
    "row": lambda into: spoil(into, lambda document: document["row"].update(record_count=1)),
    "name": lambda into: spoil(into, lambda document: document.update(name="b")),
    "half": half_a_record,
    "copy": a_copy,
    "link": a_link,
    "file": a_file,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_no_run_put_there_refuses_all(fleet: Path, tmp_path: Path, name: str) -> None:
    into = tmp_path / "built"
    rebuild(fleet, into)
    FOREIGN[name](into)
    make_store(fleet / "d", 3)
    before = results(into)
    with pytest.raises(UsageError, match="a exists, and rocketfsck does not overwrite it"):
        rebuild(fleet, into)
    assert results(into) == before


def test_two_drivers_at_once(fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is refused while the first builds, whatever it builds, and leaves its work alone."""
    into, seen = tmp_path / "built", []
    make_store(tmp_path / "more" / "x", 3)
    work = RebuildJob.work

    def meanwhile(job: RebuildJob, store: Any, engine: Any) -> RebuiltRow:
        if job.into.parent == into:
            before = names(into)
            with pytest.raises(StoreError, match="another rebuild is running in this directory"):
                rebuild_stores([tmp_path / "more" / "x"], into, "all", OPTIONS)
            assert names(into) == before
            seen.append(job.into.name)
        return work(job, store, engine)

    monkeypatch.setattr(RebuildJob, "work", meanwhile)
    found = rebuild(fleet, into)
    assert (sorted(seen), found.exit_code) == (["a", "b"], 8)
    [row] = rebuild_stores([tmp_path / "more" / "x"], into, "all", OPTIONS).stores
    assert row.state == "rebuilt"
    assert names(into) == ["a", "b", "x"]


def test_a_worker_of_a_killed_run_names_nothing(
    fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver is dead, and the next run has begun: what the worker builds stays without a name."""
    into, old = tmp_path / "built", make_run_id(0.0)
    (into / f".{old}").mkdir(parents=True)
    (into / f".{old}" / "3").mkdir()
    where = into / f".{old}"
    job = RebuildJob(fleet / "a", into / "a", str(where), str(where / "0"), old, "index", OPTIONS, {})
    publish = records.publish_recorded
    after: list[RebuiltStores] = []

    def late(*given: Any, **more: Any) -> None:
        if not after:
            monkeypatch.undo()
            after.append(rebuild(fleet, into))
        publish(*given, **more)

    monkeypatch.setattr("rocketfsck.pipeline.fleet.records.publish_recorded", late)
    with pytest.raises(StoreError, match="a: cannot be named"):
        job.work(job.open(), engine_of(job))
    assert after[0].removed_runs == (old,)
    assert names(into) == ["a", "b"]
    assert taken(rebuild(fleet, into)) == ["a", "b"]
    for limit in (0, 1 << 40):  # as a whole, and in parts
        with pytest.raises(StoreError, match="cannot be"):
            replace(job, into=into / "z").work(job.open(), engine_of(job, limit))
    assert names(into) == ["a", "b"]


def engine_of(job: RebuildJob, limit: int = 1 << 40) -> Any:
    return stages.PassingEngine(weigh=job.weigh, whole_weight=limit, cores=1)


def test_the_same_result_twice_and_a_name_that_is_taken_meanwhile(fleet: Path, tmp_path: Path) -> None:
    """Two attempts of a run end at once: one counts, with its record. What somebody else made stays."""
    into, run = tmp_path / "built", make_run_id(0.0)
    work = into / f".{run}"
    (into / RECORDS).mkdir(parents=True)
    for name in ("first", "second", "third"):
        (work / name / "built").mkdir(parents=True)
        (work / name / "built" / "file").write_text("x")
    row = RebuiltRow(run, "a", str(fleet / "a"), "rebuilt", 0)
    sources = records.Sources("1", "2")

    def publish(name: str, row: RebuiltRow, target: Path) -> None:
        built = work / name / "built"
        record = records.make_record(row, sources, target, built, sync=True)
        records.publish_recorded(record, built, target, sync=True)

    publish("first", row, into / "a")
    publish("second", row, into / "a")
    [kept] = (into / RECORDS).iterdir()
    assert kept.name == f"a.{(into / 'a').stat().st_ino}.json"
    with pytest.raises(StoreError, match="created by another program during the work"):
        publish("third", replace(row, run_id="another"), into / "a")
    (into / "b").mkdir()
    with pytest.raises(StoreError, match="b: was created by another program during the work"):
        publish("third", row, into / "b")
    assert [path.name for path in (into / RECORDS).iterdir()] == [kept.name]
    assert list((into / "b").iterdir()) == []


def test_a_file_system_without_locks(fleet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken for a leftover then."""
    into, left = tmp_path / "built", tmp_path / "built" / f".{make_run_id(0.0)}"
    real = fcntl.flock

    def refuse(descriptor: int, what: int) -> None:
        if (into / RECORDS / records.LOCK).samefile(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        real(descriptor, what)

    monkeypatch.setattr(fcntl, "flock", refuse)
    rebuild(fleet, into)
    assert taken(rebuild(fleet, into)) == ["a", "b"]
    left.mkdir()
    with pytest.raises(StoreError, match=rf"{left.name}: may belong to a rebuild that is running"):
        rebuild(fleet, into)
    assert left.is_dir()


def test_only_directories_of_runs_are_removed(fleet: Path, tmp_path: Path) -> None:
    into = tmp_path / "built"
    run = make_run_id(0.0)
    for name in (run, f".{run}x", ".20260101T000000Z", ".mine"):
        (into / name).mkdir(parents=True)
    other = make_run_id(1.0)
    (tmp_path / "elsewhere").mkdir()
    (into / f".{other}").symlink_to(tmp_path / "elsewhere")
    before = names(into)
    assert rebuild(fleet, into).removed_runs == ()
    assert names(into) == sorted([*before, "a", "b"])


def test_records_that_cannot_be_made(fleet: Path, tmp_path: Path) -> None:
    into = tmp_path / "built"
    into.mkdir()
    (into / RECORDS).write_text("mine")
    with pytest.raises(StoreError, match="cannot be made"):
        rebuild(fleet, into)
    assert names(into) == []
    (into / RECORDS).unlink()
    (into / RECORDS).symlink_to(tmp_path)
    with pytest.raises(StoreError, match="cannot be made"):
        rebuild(fleet, into)
    make_store(tmp_path / RECORDS, 3)
    with pytest.raises(UsageError, match="no name for a directory"):
        rebuild_stores([tmp_path / RECORDS], tmp_path / "x", "all", OPTIONS)


@pytest.mark.parametrize("name", ["caf\udce9", "x" * 190, "x" * 240])
def test_names_that_are_odd_or_long(tmp_path: Path, name: str) -> None:
    make_store(tmp_path / name, 5)
    for expected in (0, 1):
        found = rebuild_stores([tmp_path / name], tmp_path / "built", "all", OPTIONS, facts=FACTS)
        assert (len(taken(found)), found.exit_code) == (expected, 0)
