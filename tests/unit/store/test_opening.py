"""Made-up and hostile directories: everything becomes a fact or a StoreError."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketfsck import store as store_package
from rocketfsck.errors import NoStoreError, StoreError
from rocketfsck.formats.dialect import versions_with
from rocketfsck.store import areas, open_store
from rocketfsck.store.circumstances import LockState
from rocketfsck.store.model import OtherKind, Store, StrayReason
from rocketfsck.store.places import entries

Directory = Callable[[str], Path]
FIRST, SECOND = "00000000000000000000", "00000000000000004096"


def make(root: Path, *files: str, size: int = 0) -> Path:
    """Files below `root`; a name that ends in `/` makes a directory."""
    for name in files:
        path = root / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(size))
    return root


def strays(store: Store) -> dict[str, tuple[StrayReason, str]]:
    return {stray.relative: (stray.reason, stray.area) for stray in store.strays}


def others(store: Store) -> dict[str, OtherKind]:
    return {other.relative: other.kind for other in store.others}


@pytest.mark.parametrize("name", ["nothing", "file"])
def test_what_is_no_directory_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be listed") as caught:
        open_store(tmp_path / name)
    assert caught.value.path == str(tmp_path / name)


def test_a_path_with_a_nul_is_an_error() -> None:
    with pytest.raises(StoreError, match="null"):
        open_store("a\0b")


def test_a_store_that_has_nothing_yet(tmp_path: Path) -> None:
    make(tmp_path, "abort")
    store = open_store(tmp_path)
    assert [file.relative for file in store.all_files()] == ["abort"]
    assert (store.strays, store.checkpoint, store.lock) == ((), None, None)
    assert store.commitlog.files == ()
    assert (store.commitlog.start_offset, store.commitlog.end_offset, store.commitlog.size) == (None, None, 0)
    assert store.live.state is LockState.ABSENT
    assert len(store.dialect_evidence.versions) > 20
    assert store.dialect.version == store.dialect_evidence.dialect.version


@pytest.mark.parametrize(
    "entries",
    [
        (),
        ("commitlog/", "consumequeue/"),
        ("notes.txt", "x/readme"),
        ("store/",),
        ("config/topics.json", "config/consumerOffset.json.bak", "lock"),
        ("config/RocksDB/", "config/x.tmp", "commitlog/"),
    ],
)
def test_a_directory_without_any_part_is_no_store(tmp_path: Path, entries: tuple[str, ...]) -> None:
    """An empty mount point, another program's directory: a failure, never an empty store."""
    for entry in entries:
        make(tmp_path, entry)
    with pytest.raises(NoStoreError, match="no RocketMQ store is here") as raised:
        open_store(tmp_path)
    assert raised.value.exit_code == 8
    make(tmp_path, "checkpoint")
    assert open_store(tmp_path).commitlog.files == ()


def test_a_relative_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, f"commitlog/{FIRST}", "lock", size=4096)
    monkeypatch.chdir(tmp_path)
    store = open_store(".")
    assert store.root == tmp_path
    assert [file.relative for file in store.all_files()] == [f"commitlog/{FIRST}", "lock"]


def test_names_that_are_no_mapped_files(tmp_path: Path) -> None:
    names = [
        "1",
        "+0000000000000000000",
        "0" * 21,
        "99999999999999999999",
        "٠" * 20,
        ".swp",
        "x.tmp",
        "y.delete",
    ]
    make(tmp_path, *(f"commitlog/{name}" for name in names), f"commitlog/{FIRST}", "commitlog/sub/")
    make(tmp_path, *(f"consumequeue/T/0/{name}" for name in names), "consumequeue/T/0/sub/")
    store = open_store(tmp_path)
    assert [file.start_offset for file in store.commitlog.files] == [0]
    expected = {
        name: {"x.tmp": StrayReason.TEMPORARY, "y.delete": StrayReason.DELETED}.get(name, StrayReason.NAME)
        for name in names
    }
    found = strays(store)
    assert found.pop("commitlog/sub") == (StrayReason.DIRECTORY, "commitlog")
    assert found.pop("consumequeue/T/0/sub") == (StrayReason.DIRECTORY, "consumequeue")
    for name, reason in expected.items():
        assert found.pop(f"commitlog/{name}") == (reason, "commitlog")
        assert found.pop(f"consumequeue/T/0/{name}") == (reason, "consumequeue")
    assert found == {}


def test_queue_directories_that_a_broker_does_not_read(tmp_path: Path) -> None:
    make(tmp_path, *(f"consumequeue/T/{name}/{FIRST}" for name in ("0", "-1", "00", "+1", "x", "2147483648")))
    make(
        tmp_path,
        f"consumequeue/%LMQ%a/b/0/{FIRST}",
        "consumequeue/T/7",
        "consumequeue/file",
        "consumequeue/E/",
    )
    store = open_store(tmp_path)
    assert [(queue.topic, queue.queue_id) for queue in store.queues] == [("T", -1), ("T", 0)]
    assert strays(store) == {
        "consumequeue/T/00": (StrayReason.QUEUE_ID, "consumequeue"),
        "consumequeue/T/+1": (StrayReason.QUEUE_ID, "consumequeue"),
        "consumequeue/T/x": (StrayReason.QUEUE_ID, "consumequeue"),
        "consumequeue/T/2147483648": (StrayReason.QUEUE_ID, "consumequeue"),
        "consumequeue/%LMQ%a/b": (StrayReason.QUEUE_ID, "consumequeue"),
        "consumequeue/T/7": (StrayReason.FILE, "consumequeue"),
        "consumequeue/file": (StrayReason.FILE, "consumequeue"),
    }


def test_topics_are_any_bytes(tmp_path: Path) -> None:
    names = [b"\xff\xfe", b"\x1b[31mred", b"%n%s", b"a\nb", "中".encode(), b"-", b"CON", b" "]
    for name in names:
        make(tmp_path, f"consumequeue/{os.fsdecode(name)}/0/{FIRST}", size=20)
    store = open_store(tmp_path)
    assert sorted(os.fsencode(queue.topic) for queue in store.queues) == sorted(names)
    assert all(os.fsencode(queue.files[0].path).startswith(os.fsencode(tmp_path)) for queue in store.queues)
    assert store.strays == ()


def test_links(tmp_path: Path) -> None:
    """Links are followed as a broker does; those in circles lead nowhere, and no walk descends for ever."""
    root = make(tmp_path / "store", f"consumequeue/T/0/{FIRST}", "index/")
    make(tmp_path, f"disk/{FIRST}", size=100)
    (root / "commitlog").symlink_to(tmp_path / "disk")
    (root / "index/20200101000000000").symlink_to("20200101000000000")
    (root / "consumequeue/T/1").symlink_to(root / "consumequeue")
    (root / "consumequeue/U").symlink_to(root / "consumequeue/nowhere")
    (root / "consumequeue/V").symlink_to(root / "consumequeue/T")
    (root / "abort").symlink_to("checkpoint")
    (root / "checkpoint").symlink_to("abort")
    store = open_store(root)
    assert [file.relative for file in store.commitlog.files] == [f"commitlog/{FIRST}"]
    assert [(queue.topic, queue.queue_id, len(queue.files)) for queue in store.queues] == [
        ("T", 0, 1),
        ("T", 1, 0),
        ("V", 0, 1),
        ("V", 1, 0),
    ]
    found = strays(store)
    for name in ("index/20200101000000000", "consumequeue/U", "abort", "checkpoint"):
        assert found[name][0] is StrayReason.DANGLING
    assert found["consumequeue/T/1/T"] == (StrayReason.DIRECTORY, "consumequeue")
    assert [stray.detail for stray in store.strays if stray.relative == "abort"] == [
        "Too many levels of symbolic links"
    ]


def test_special_files(tmp_path: Path) -> None:
    make(tmp_path, "commitlog/", "index/", "config/", "consumequeue/T/", "compaction/", "dledger-n0/")
    places = [
        "commitlog/" + FIRST,
        "index/1",
        "config/topics.json",
        "consumequeue/f",
        "consumequeue/T/0",
        "lock",
    ]
    places += ["compaction/compactionLog", "dledger-n0/data", "timerwheel", "commitlog2"]
    for place in places:
        os.mkfifo(tmp_path / place)
    store = open_store(tmp_path)
    assert {name: reason for name, (reason, _) in strays(store).items()} == dict.fromkeys(
        places, StrayReason.SPECIAL
    )
    assert list(store.all_files()) == []
    assert store.live.state is LockState.UNKNOWN


def test_files_where_directories_belong_and_the_other_way(tmp_path: Path) -> None:
    make(tmp_path, "commitlog", "consumequeue", "index/20200101000000000/", "lock/", "config/topics.json/")
    store = open_store(tmp_path)
    assert strays(store) == {
        "commitlog": (StrayReason.FILE, "root"),
        "consumequeue": (StrayReason.FILE, "root"),
        "index/20200101000000000": (StrayReason.DIRECTORY, "index"),
        "lock": (StrayReason.DIRECTORY, "root"),
        "config/topics.json": (StrayReason.DIRECTORY, "config"),
    }
    assert store.lock is None


def test_directories_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root the tests may read everything, so the system's answer is made up here."""
    make(tmp_path, f"commitlog/{FIRST}", f"consumequeue/T/0/{FIRST}", "odd/x", f"index/{'1' * 17}")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if os.fspath(path).endswith(("commitlog", "/0", "odd")):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    store = open_store(tmp_path)
    assert strays(store) == {
        "commitlog": (StrayReason.UNREADABLE, "commitlog"),
        "consumequeue/T/0": (StrayReason.UNREADABLE, "consumequeue"),
        "odd": (StrayReason.UNKNOWN, "root"),
    }
    assert {stray.detail for stray in store.strays} == {"Permission denied", ""}
    assert [(queue.topic, queue.files) for queue in store.queues] == [("T", ())]


def test_an_entry_that_cannot_be_looked_at(tmp_path: Path) -> None:
    class Entry:
        name, path = FIRST, str(tmp_path / FIRST)

        def stat(self) -> os.stat_result:
            raise PermissionError(13, "Permission denied")

        def is_symlink(self) -> bool:
            return False

    entry = entries._entry(Entry())  # type: ignore[arg-type]
    assert entry is not None
    assert (entry.kind, entry.detail) == (entries.EntryKind.UNREADABLE, "Permission denied")


def test_a_file_that_is_deleted_while_its_directory_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker deletes what expires; nothing is left of it that could be unreadable."""
    make(tmp_path, f"commitlog/{FIRST}", "commitlog/00000000000000001024")
    real = entries._entry

    def deleting(entry: os.DirEntry[str]) -> entries.DirectoryEntry | None:
        if entry.name == FIRST:
            Path(entry.path).unlink()
        return real(entry)

    monkeypatch.setattr(entries, "_entry", deleting)
    store = open_store(tmp_path)
    assert [file.name for file in store.commitlog.files] == ["00000000000000001024"]
    assert store.strays == ()


def test_a_directory_full_of_strays_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(areas, "MAX_STRAYS_PER_AREA", 10)
    make(tmp_path, *(f"index/x{number}" for number in range(25)), "commitlog/y")
    store = open_store(tmp_path)
    more = [stray for stray in store.strays if stray.reason is StrayReason.MORE]
    assert [(stray.area, stray.detail) for stray in more] == [("index", "15 more in index, not listed")]
    assert len(store.strays) == 12


def test_unknown_things_at_the_root(tmp_path: Path) -> None:
    make(tmp_path, "abort", "notes.txt", "x.tmp", "backup/readme", f"commitlog2/{FIRST}")
    store = open_store(tmp_path)
    assert {stray.relative: (stray.reason, stray.detail) for stray in store.strays} == {
        "notes.txt": (StrayReason.UNKNOWN, ""),
        "x.tmp": (StrayReason.TEMPORARY, ""),
        "backup": (StrayReason.UNKNOWN, ""),
        "commitlog2": (StrayReason.UNKNOWN, "holds mapped files"),
    }


def test_a_commitlog_directory_alone(store_dir: Directory) -> None:
    whole = open_store(store_dir("4.4.0-multiseg"))
    alone = open_store(store_dir("4.4.0-multiseg") / "commitlog")
    assert [file.relative for file in alone.commitlog.files] == [file.name for file in whole.commitlog.files]
    assert alone.geometry.commitlog_file_size == 65536
    assert (alone.queues, alone.indexes, alone.strays) == ((), (), ())
    assert "commitlog" in alone.notes[0].what
    assert alone.dialect.trailing_separator


def test_commitlog_over_several_directories(tmp_path: Path) -> None:
    root = make(tmp_path / "store", "commitlog/")
    make(tmp_path, f"a/{FIRST}", f"b/{SECOND}", f"b/{FIRST}", "b/odd", f"ro/{8192:020d}", size=4096)
    conf = tmp_path / "broker.conf"
    conf.write_text(
        f"storePathCommitLog={tmp_path}/a,{tmp_path}/b , {tmp_path}/c\n"
        f"readOnlyCommitLogStorePaths={tmp_path}/ro\n"
    )
    store = open_store(root, broker_conf=conf)
    assert store.commitlog.directories == (tmp_path / "a", tmp_path / "b", tmp_path / "ro")
    assert [(file.start_offset, file.relative) for file in store.commitlog.files] == [
        (0, f"{tmp_path}/a/{FIRST}"),
        (0, f"{tmp_path}/b/{FIRST}"),
        (4096, f"{tmp_path}/b/{SECOND}"),
        (8192, f"{tmp_path}/ro/{8192:020d}"),
    ]
    assert strays(store) == {f"{tmp_path}/b/odd": (StrayReason.NAME, "commitlog")}
    assert any(f"{tmp_path}/c" in note.what for note in store.notes)
    given = open_store(root, commitlog_paths=[tmp_path / "b", tmp_path / "b", tmp_path / "a"])
    assert given.commitlog.directories == (tmp_path / "b", tmp_path / "a")
    assert given.commitlog.files[0].relative == f"{tmp_path}/a/{FIRST}"
    with pytest.raises(StoreError, match="is not a directory") as caught:
        open_store(root, commitlog_paths=[tmp_path / "c"])
    assert caught.value.path == str(tmp_path / "c")


def test_a_commitlog_path_with_a_comma_in_its_name(tmp_path: Path) -> None:
    root = make(tmp_path / "store", f"a,b/{FIRST}", size=4096)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={root}/a,b\n")
    store = open_store(root, broker_conf=conf)
    assert [file.relative for file in store.commitlog.files] == [f"a,b/{FIRST}"]
    assert store.strays == ()


def test_a_commitlog_path_of_another_machine(tmp_path: Path) -> None:
    root = make(tmp_path / "store", f"commitlog/{FIRST}", size=4096)
    conf = tmp_path / "broker.conf"
    conf.write_text("storePathCommitLog=/data/on/another/machine\nmessageDelayLevel=1s 2s\n")
    store = open_store(root, broker_conf=conf)
    assert [file.relative for file in store.commitlog.files] == [f"commitlog/{FIRST}"]
    assert "instead" in store.notes[-1].why
    assert (store.delay_levels, store.delay_levels_source) == ("1s 2s", "given")
    assert store.settings.path == conf
    assert open_store(root, broker_conf=conf, delay_levels="3s").delay_levels == "3s"
    assert open_store(root).delay_levels_source == "default"


@pytest.mark.parametrize("value", ["x" * 5000, "/" + "y/" * 3000, "a\\u0000b", ",,", ""])
def test_commitlog_paths_that_no_system_accepts(tmp_path: Path, value: str) -> None:
    root = make(tmp_path / "store", f"commitlog/{FIRST}", size=4096)
    conf = tmp_path / "broker.conf"
    conf.write_text(f"storePathCommitLog={value}\n")
    assert len(open_store(root, broker_conf=conf).commitlog.files) == 1


def test_no_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(StoreError, match="a directory that no longer exists"):
        open_store("store")


def test_a_commitlog_in_the_root_that_is_not_the_one_in_use(tmp_path: Path) -> None:
    root = make(tmp_path / "store", f"commitlog/{FIRST}")
    make(tmp_path, f"real/{SECOND}", size=4096)
    store = open_store(root, commitlog_paths=[tmp_path / "real"])
    assert strays(store) == {f"commitlog/{FIRST}": (StrayReason.UNKNOWN, "commitlog")}
    assert [file.start_offset for file in store.commitlog.files] == [4096]


def test_geometry_from_the_settings(tmp_path: Path) -> None:
    root = make(tmp_path / "store", f"commitlog/{FIRST}", f"consumequeue/T/0/{FIRST}", size=4096)
    conf = tmp_path / "broker.conf"
    conf.write_text("mapedFileSizeCommitLog=8192\nmappedFileSizeConsumeQueue=101\n")
    store = open_store(root, broker_conf=conf)
    assert (store.commitlog.file_size, store.queues[0].mapped_files.file_size) == (8192, 120)
    assert store.geometry.source("commitlog_file_size") == "given"
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(root, broker_conf=tmp_path / "none")


def test_config_directory(tmp_path: Path) -> None:
    texts = ["topics.json", "topics.json.bak", "transactionMetrics", "timermetrics.bak"]
    make(tmp_path, "abort", *(f"config/{name}" for name in texts))
    make(
        tmp_path,
        "config/topics.json.tmp",
        "config/notes",
        "config/new.json",
        "config/timercheck",
        "config/broker.properties",
    )
    make(tmp_path, "config/rdb/CURRENT", "config/rdb/sub/", "config/odd/")
    store = open_store(tmp_path)
    assert [file.name for file in store.configs] == sorted(texts)
    assert strays(store) == {
        "config/topics.json.tmp": (StrayReason.TEMPORARY, "config"),
        "config/notes": (StrayReason.UNKNOWN, "config"),
        "config/new.json": (StrayReason.UNKNOWN, "config"),
        "config/rdb/sub": (StrayReason.DIRECTORY, "config"),
        "config/odd": (StrayReason.DIRECTORY, "config"),
    }
    assert others(store) == {
        "config/broker.properties": OtherKind.SETTINGS,
        "config/rdb": OtherKind.ROCKSDB,
        "config/timercheck": OtherKind.TIMER_CHECK,
    }


def test_rocksdb_beside_file_queues(tmp_path: Path) -> None:
    names = [
        "CURRENT",
        "IDENTITY",
        "LOCK",
        "LOG",
        "LOG.old.123",
        "MANIFEST-000004",
        "OPTIONS-7",
        "12.sst",
        "3.log",
    ]
    make(tmp_path, *(f"consumequeue/{name}" for name in names), f"consumequeue/T/0/{FIRST}", "consumequeue/x")
    store = open_store(tmp_path)
    (database,) = store.others
    assert (database.kind, database.relative) == (OtherKind.ROCKSDB, "consumequeue")
    assert [file.name for file in database.files] == sorted(names)
    assert [queue.topic for queue in store.queues] == ["T"]
    assert strays(store) == {"consumequeue/x": (StrayReason.FILE, "consumequeue")}
    assert str(store.dialect_evidence.versions[0]) == "5.2.0"


def test_other_parts(tmp_path: Path) -> None:
    singles = {
        "abort.bak": OtherKind.ABORT_BACKUP,
        "timerwheel": OtherKind.TIMER_WHEEL,
        "timerwheel.4096": OtherKind.TIMER_WHEEL,
        "epochFileCheckpoint": OtherKind.EPOCH,
        "epochFileCheckpoint.bak": OtherKind.EPOCH,
        "brokerIdentity": OtherKind.BROKER_IDENTITY,
        "brokerIdentity-temp": OtherKind.BROKER_IDENTITY,
        "dledger-n0/quorum_state": OtherKind.DLEDGER,
        "compaction/position-checkpoint": OtherKind.COMPACTION_CHECKPOINT,
    }
    queues = {
        "timerlog": OtherKind.TIMER_LOG,
        "dledger-n0/data": OtherKind.DLEDGER_DATA,
        "dledger-n0/index": OtherKind.DLEDGER_INDEX,
        "compaction/compactionLog/T/0": OtherKind.COMPACTION_LOG,
        "compaction/compactionCq/T/0": OtherKind.COMPACTION_CQ,
    }
    flat = {
        "kvStore": OtherKind.ROCKSDB,
        "tiered_index_file": OtherKind.TIERED_INDEX,
        "transaction": OtherKind.LEGACY,
    }
    make(tmp_path, *singles, *(f"{name}/file" for name in flat))
    make(
        tmp_path, *(f"{name}/{FIRST}" for name in queues), *(f"{name}/{SECOND}" for name in queues), size=4096
    )
    make(tmp_path, f"compaction/compactionLog/T/0/compacting/{FIRST}", "compaction/compactionLog/T/x/")
    make(
        tmp_path,
        "compaction/compactionLog/T/1",
        "compaction/odd",
        "compaction/compactionCq/file",
        "timerlog/a",
    )
    make(tmp_path, "dledger-n0/odd/", f"compaction/compactionLog/T/0/{SECOND}.delete", "timerlog/compacting/")
    store = open_store(tmp_path)
    assert others(store) == {**singles, **queues, **flat}
    by_place = {other.relative: other for other in store.others}
    for place, kind in queues.items():
        queue = by_place[place].mapped_files
        assert queue is not None
        assert [file.start_offset for file in queue.files] == [0, 4096]
        # 4096 is no multiple of the 46 bytes of a compaction's unit.
        assert queue.file_size == (10 << 20 if kind is OtherKind.COMPACTION_CQ else 4096)
    compaction = by_place["compaction/compactionLog/T/0"]
    assert (compaction.topic, compaction.queue_id, len(compaction.files)) == ("T", 0, 3)
    assert store.geometry.timerlog_file_size == 4096
    assert strays(store) == {
        "compaction/compactionLog/T/x": (StrayReason.QUEUE_ID, "compaction"),
        "compaction/compactionLog/T/1": (StrayReason.FILE, "compaction"),
        "compaction/odd": (StrayReason.NAME, "compaction"),
        "compaction/compactionCq/file": (StrayReason.FILE, "compaction"),
        "compaction/compactionLog/T/0/00000000000000004096.delete": (StrayReason.DELETED, "compaction"),
        "dledger-n0/odd": (StrayReason.DIRECTORY, "dledger"),
        "timerlog/a": (StrayReason.NAME, "timerlog"),
        "timerlog/compacting": (StrayReason.DIRECTORY, "timerlog"),
    }
    assert store.dialect_evidence.versions == versions_with(pop_database=True)


def test_ext_queues_without_an_owner(tmp_path: Path) -> None:
    make(tmp_path, f"consumequeue_ext/T/0/{FIRST}", f"consumequeue_ext/U/0/{FIRST}", size=100)
    make(tmp_path, f"consumequeue/T/0/{FIRST}", f"batchconsumequeue/U/0/{FIRST}", size=920)
    store = open_store(tmp_path)
    assert [(ext.topic, ext.orphan, len(ext.files)) for ext in store.ext_queues] == [
        ("T", False, 1),
        ("U", True, 1),
    ]
    assert [(queue.topic, queue.kind, queue.ext is None) for queue in store.queues] == [
        ("T", "file", False),
        ("U", "batch", True),
    ]


def test_the_package_gives_its_names_on_demand() -> None:
    assert store_package.Store is Store
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        store_package.nothing  # noqa: B018
