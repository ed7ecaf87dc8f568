"""`rocketfsck rebuild`: options, output, exit statuses, and that nothing lands in a store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rocketfsck.cli.app import run
from rocketfsck.errors import EXIT_CLEAN, EXIT_OPERATIONAL, EXIT_PROBLEMS, EXIT_USAGE
from rocketfsck.store.model import Store

from tests.unit.repair.build.making import change_log, files, make_store, message, records

AREAS = ("consumequeue", "index")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path, [message(number, "AB"[number % 2], number % 3) for number in range(30)])


def _run(store: Store, what: str, *more: str) -> int:
    folder = store.root.parent
    common = ("--broker-conf", str(folder / "broker.conf"), "--broker-version", "5.3.3", "--no-sync")
    return run(["rebuild", what, str(store.root), "--into", str(folder / "built"), *common, *more])


def test_everything(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(store, "all") == EXIT_CLEAN
    assert files(tmp_path / "built", AREAS) == files(store.root, AREAS)
    assert (tmp_path / "built" / "checkpoint").stat().st_size == 4096
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.endswith(
        "built: 6 queues with 30 units in 6 files, 3 index files with 30 entries, the checkpoint, of "
        "30 records; as 5.3.3\n"
        "  start of a broker (predicted), 5.3.3: starts\n"
    )


@pytest.mark.parametrize("what", ["index", "consumequeue", "checkpoint"])
def test_one_part(store: Store, tmp_path: Path, what: str) -> None:
    assert _run(store, what, "--jobs", "1") == EXIT_CLEAN
    assert [path.name for path in (tmp_path / "built").iterdir()] == [what]


def test_as_json(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(store, "all", "--format", "json") == EXIT_CLEAN
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "rocketfsck.rebuild"
    assert document["schema_version"] == 1
    assert document["record_count"] == 30
    assert [queue["unit_count"] for queue in document["queues"]["queues"]] == [5] * 6
    assert [file["entry_count"] for file in document["index"]["files"]] == [11, 11, 8]
    assert document["queues"]["queues"][0]["gaps"] == []


def test_what_is_not_known_is_a_warning(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(store.root / "consumequeue")
    shutil.rmtree(store.root / "index")
    command = ["rebuild", "all", str(store.root), "--into", str(tmp_path / "built"), "--no-sync"]
    assert run([*command, "--broker-version", "5.3.3", "--format", "json"]) == EXIT_CLEAN
    said = capsys.readouterr()
    assert "warning: consumequeue_file_size 6000000 is assumed: no file shows the value" in said.err
    assert "warning: --broker-conf FILE" in said.err
    assumed = {item["name"]: item["value"] for item in json.loads(said.out)["assumptions"]}
    assert assumed == {
        "consumequeue_file_size": 6_000_000,
        "slot_count": 5_000_000,
        "entry_count": 20_000_000,
    }


def test_some_queues(store: Store, tmp_path: Path) -> None:
    assert _run(store, "consumequeue", "--topic", "A", "--queue", "0", "--queue", "2") == EXIT_CLEAN
    made = files(tmp_path / "built", AREAS)
    assert sorted(name.rsplit("/", 1)[0] for name in made) == ["consumequeue/A/0", "consumequeue/A/2"]


def test_the_index_from_an_offset(store: Store, tmp_path: Path) -> None:
    assert _run(store, "index", "--from-offset", str(records(store)[11][0])) == EXIT_CLEAN
    assert len(files(tmp_path / "built", AREAS)) == 2


def test_nothing_missing(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(store, "all", "--only-missing-tail") == EXIT_CLEAN
    assert files(tmp_path / "built", AREAS) == {}
    assert "built: 0 queues with 0 units in 0 files, 0 index files with 0 entries" in capsys.readouterr().out


def test_a_damaged_log_leaves_problems(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    places = records(store)
    change_log(store, places[7][0], b"\xff" * places[7][1])
    change_log(store, places[9][0] + 149, b"/")
    change_log(store, places[18][0] + 20, (1).to_bytes(8, "big"))
    assert _run(store, "consumequeue") == EXIT_PROBLEMS
    said = capsys.readouterr().out
    assert "is damaged: records in its broken parts have no units" in said
    assert (
        "B/1: 2 records missing in the log, from queue offset 1 on" in said or "B/1: 1 record missing" in said
    )
    assert "1 record without a unit: no file can have their topic or queue offset" in said
    assert "A/0: 1 record with a taken queue offset: no unit" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("index", "--topic", "A"), "--topic is for consumequeue"),
        (("consumequeue", "--queue", "1"), "--queue needs --topic"),
        (("consumequeue", "--from-offset", "1"), "--from-offset is for index"),
        (("checkpoint", "--only-missing-tail"), "--only-missing-tail is for"),
        (("index", "--only-missing-tail", "--from-offset", "1"), "choose one"),
        (("timers",), "timers"),
        (("index", "--time-zone", "Nowhere/City"), "time zone"),
        (("index", "--work-dir", "."), "--work-dir needs --engine spark"),
        (("index", "--master", "local[1]"), "--master needs --engine spark"),
        (("checkpoint", "--engine", "spark"), "needs no Spark"),
    ],
)
def test_usage_errors(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], text: str
) -> None:
    assert _run(store, *arguments) == EXIT_USAGE
    assert text in capsys.readouterr().err
    assert not (tmp_path / "built").exists()


def test_places_that_are_taken_or_in_the_store(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    root = store.root
    before = files(root, ["."])
    assert run(["rebuild", "index", str(root), "--into", str(root / "new")]) == EXIT_USAGE
    assert run(["rebuild", "index", str(root), "--into", str(root)]) == EXIT_USAGE
    assert run(["rebuild", "index", str(root), "--into", str(root.parent)]) == EXIT_USAGE
    assert capsys.readouterr().err.count("Error:") == 3
    assert files(root, ["."]) == before


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    into = str(tmp_path / "built")
    assert run(["rebuild", "index", str(tmp_path / "none"), "--into", into]) == EXIT_OPERATIONAL


def test_many_oddities_are_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_store(tmp_path, [message(number, queue_id=number % 30) for number in range(90)])
    for place, _ in records(store)[30:60]:
        change_log(store, place + 20, (1 << 40).to_bytes(8, "big"))
    assert _run(store, "consumequeue") == EXIT_PROBLEMS
    said = capsys.readouterr().out
    assert said.count("1 unit not at the record's queue offset") == 20
    assert "… and 10 more; --format json shows all" in said


def test_no_index_where_the_broker_keeps_none(store: Store, tmp_path: Path) -> None:
    with (tmp_path / "broker.conf").open("a", encoding="ascii") as conf:
        conf.write("messageIndexEnable=false\n")
    assert _run(store, "all") == EXIT_CLEAN
    assert sorted(path.name for path in (tmp_path / "built").iterdir()) == ["checkpoint", "consumequeue"]


def test_a_store_without_a_log(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(store.root / "commitlog")
    assert _run(store, "all") == EXIT_OPERATIONAL
    assert "has no commit log files to build from" in capsys.readouterr().err
    assert not (tmp_path / "built").exists()


def test_queues_in_rocksdb_are_not_made_into_files(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CURRENT", "MANIFEST-000001", "000001.sst"):
        (store.root / "consumequeue" / name).write_bytes(b"MANIFEST-000001\n")
    assert _run(store, "consumequeue", "--topic", "Order") == EXIT_USAGE
    assert "as a whole" in capsys.readouterr().err
    for topic in [path for path in (store.root / "consumequeue").iterdir() if path.is_dir()]:
        shutil.rmtree(topic)
    assert _run(store, "consumequeue", "--topic", "Order") == EXIT_USAGE
    assert "as a whole" in capsys.readouterr().err
    assert _run(store, "index") == EXIT_PROBLEMS
    assert "does not start: consumequeue: org.rocksdb.RocksDBException" in capsys.readouterr().out


def test_a_log_beside_one_of_dledger_is_refused(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    folder = store.root / "dledger-n0" / "data"
    folder.mkdir(parents=True)
    (folder / f"{0:020d}").write_bytes(bytes(64))
    assert _run(store, "index") == EXIT_USAGE
    assert "no sign says whether its log is in them" in capsys.readouterr().err


def test_several_stores(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "broker-b" / "store"
    shutil.copytree(store.root, other)
    (tmp_path / "broker-c").mkdir()
    listed = tmp_path / "stores.txt"
    listed.write_text(f"{tmp_path / 'broker-c'}\n")
    common = ("--broker-conf", str(tmp_path / "broker.conf"), "--broker-version", "5.3.3", "--no-sync")
    paths = [str(store.root), str(tmp_path / "broker-b"), "--stores-from", str(listed)]
    into = tmp_path / "built"
    assert run(["rebuild", "all", *paths, "--into", str(into), *common]) == EXIT_OPERATIONAL
    said = capsys.readouterr()
    assert said.err == ""
    lines = said.out.splitlines()
    assert lines[0].startswith("Rebuilt all of 3 stores (")
    assert lines[0].endswith("): 1 failed, 2 rebuilt.")
    text = "6 queues with 30 units, 3 index files with 30 entries, of 30 records"
    name = tmp_path.name  # the store's directory is called store, so the one above counts
    assert lines[2:] == [
        f"  rebuilt  {name}: {text}",
        f"  rebuilt  broker-b: {text}",
        f"  failed   broker-c: {tmp_path / 'broker-c'}: no RocketMQ store is here: nothing is there; "
        "is a disk not mounted?",
    ]
    for broker in (name, "broker-b"):
        assert files(into / broker, AREAS) == files(store.root, AREAS)
    killed = "20260101T000000Z-000abcdef"
    (into / f".{killed}" / "half").mkdir(parents=True)
    assert run(["rebuild", "all", *paths, "--into", str(into), *common]) == EXIT_OPERATIONAL
    said = capsys.readouterr()
    assert said.err == f"removed run {killed}, which a killed rebuild left\n"
    assert said.out.splitlines()[2:4] == [f"{line}, taken over" for line in lines[2:4]]
    assert sorted(path.name for path in into.iterdir()) == sorted([".rebuilt", name, "broker-b"])
    shutil.rmtree(into / ".rebuilt")
    assert run(["rebuild", "all", *paths, "--into", str(into), *common]) == EXIT_USAGE
    assert "exists, and rocketfsck does not overwrite it" in capsys.readouterr().err
    assert run(["rebuild", "all", *paths, "--into", str(other / "x"), *common]) == EXIT_USAGE


@pytest.mark.parametrize("more", [["--commitlog-path", "x"], ["--from-offset", "0"]])
def test_options_of_one_store(store: Store, tmp_path: Path, more: list[str]) -> None:
    paths = [str(store.root), str(tmp_path / "broker-b")]
    assert run(["rebuild", "index", *paths, "--into", str(tmp_path / "built"), *more]) == EXIT_USAGE
    assert run(["rebuild", "index", "--into", str(tmp_path / "built")]) == EXIT_USAGE
