"""Stores in RocksDB made into stores in files: messages, offsets, configs; queues whose rows have expired."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.cli.app import run
from rocketfsck.commands.convert import ConvertCommand, convert
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.config import decode_config
from rocketfsck.repair.convert.chosen import MAX_QUEUE_OFFSET, queues_left_out
from rocketfsck.repair.convert.model import CONVERSIONS, ConvertedStore, QueueLeftOut
from rocketfsck.store import open_store
from rocketfsck.store.model import DatabaseQueues, QueueBounds
from rocketfsck.store.rocks.families import databases_of
from rocketfsck.store.rocks.lifting import is_lifted, lifted

from tests.conftest import Directory
from tests.converted import agreeing_count, bounds, contents, problems
from tests.databases import write_database

QUEUES, COMBINED, SECOND_FORM = "5.5.0-rocksdb-cq", "5.5.0-combine", "5.5.0-rocksdb-config-v2"
EXPIRED = "5.4.0-expired-rocksdb"


def filed(store: Path, into: Path, **more: Any) -> ConvertedStore:
    made = convert(ConvertCommand(what="files", paths=(store,), into=into, no_sync=True, **more))
    assert made.exit_code == 0
    assert made.converted is not None
    after = open_store(into)
    assert problems(after) == []
    assert [other.relative for other in databases_of(after) if is_lifted(other)] == []
    return made.converted


@pytest.mark.parametrize("name", [QUEUES, COMBINED, "5.5.0-lite-rocksdb"])
def test_messages_and_queue_offsets_are_the_same(real_dir: Directory, tmp_path: Path, name: str) -> None:
    root = real_dir(name)
    made = filed(root, tmp_path / "new")
    assert contents(open_store(tmp_path / "new")) == contents(open_store(root))
    after = bounds(tmp_path / "new")
    assert after == {name: found for name, found in bounds(root).items() if name in after or found[1]}
    names = {part.path for part in made.parts_left_out}
    assert "consumequeue" in names


def test_queries_answer_the_same(real_dir: Directory, tmp_path: Path) -> None:
    root = real_dir(QUEUES)
    filed(root, tmp_path / "new", commitlog_file_size=1 << 18)
    assert open_store(tmp_path / "new").indexes
    assert agreeing_count(root, tmp_path / "new", step=40) > 6


@pytest.mark.parametrize("name", [QUEUES, SECOND_FORM])
def test_configs_are_the_same(real_dir: Directory, tmp_path: Path, name: str) -> None:
    root = real_dir(name)
    filed(root, tmp_path / "new")
    found = 0
    with lifted(open_store(root)) as lifting:
        for file in lifting.store.configs:
            after = decode_config((tmp_path / "new/config" / file.name).read_bytes())
            assert after == decode_config(Path(file.location).read_bytes())
            found += file.name in ("topics.json", "consumerOffset.json", "subscriptionGroup.json")
    assert found >= 2
    assert (tmp_path / "new/config/subscriptionGroup.json").exists()


def test_queues_whose_rows_have_expired_go_on(real_dir: Directory, tmp_path: Path) -> None:
    root = real_dir(EXPIRED)
    made = filed(root, tmp_path / "new")
    assert made.empty_queue_count > 20
    after = bounds(tmp_path / "new")
    ends = {}
    with lifted(open_store(root)) as lifting:
        for database in lifting.store.lifted.queues.values():
            ends = {name: bound.greatest[0] + 1 for name, bound in database.bounds.items() if bound.greatest}
    assert ends["SCHEDULE_TOPIC_XXXX", 1] == 1
    assert ends == {name: end for name, (_, end) in after.items()}


def test_a_bound_that_no_queue_can_have(real_dir: Directory) -> None:
    with lifted(open_store(real_dir(QUEUES))) as lifting:
        store = lifting.store
        for queue_offset, count in ((-5, 0), (6, 1)):
            left = _left_by(store, queue_offset)
            assert left == [QueueLeftOut("Odd", 0, queue_offset + 1)] * count
        with pytest.raises(StoreError, match="queue 0 of Odd cannot end at queue offset"):
            _left_by(store, MAX_QUEUE_OFFSET)


def _left_by(store: Any, queue_offset: int) -> list[QueueLeftOut]:
    odd = {"consumequeue": DatabaseQueues(None, {("Odd", 0): QueueBounds(None, (queue_offset, 0), 0)})}
    changed = replace(store, lifted=replace(store.lifted, queues=odd))
    return list(queues_left_out(changed, lambda topic, _: topic == "Odd", {}))


def test_a_broker_conf_of_rocksdb(real_dir: Directory, tmp_path: Path) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("storeType=defaultRocksDB\nindexRocksDBEnable=true\nmappedFileSizeConsumeQueue=1200\n")
    command = ConvertCommand(what="files", paths=(real_dir(QUEUES),), into=tmp_path / "new", no_sync=True)
    made = convert(replace(command, stated=replace(command.stated, broker_conf=conf)))
    assert made.converted is not None
    assert [start.harmless for start in made.converted.starts if start.covered] != []
    assert (made.exit_code, made.converted.consumequeue_file_size) == (0, 1200)
    files = [file for queue in open_store(tmp_path / "new").queues for file in queue.files]
    assert {file.size for file in files} == {1200}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("5.5.0-dledger", "is DLedger's: make it plain first"),
        ("5.5.0-upgraded", "are in files already"),
        ("4.9.7-deleted", "are in files already"),
        ("5.5.0-rocksdb-all", "rocksdbstore has rows of timer"),
    ],
)
def test_other_stores_are_refused(real_dir: Directory, tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        filed(real_dir(name), tmp_path / "new")
    assert not list(tmp_path.iterdir())


def test_rows_that_are_not_lifted_are_refused(real_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(real_dir(QUEUES), tmp_path / "store")
    groups = root / "config/subscriptionGroups"
    shutil.rmtree(groups)
    write_database(groups, {"default": {}, "forbidden": {b"group": b'{"Topic":1}'}})
    with pytest.raises(UsageError, match="config/subscriptionGroups has rows of forbidden"):
        filed(root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_database_that_cannot_be_read(real_dir: Directory, tmp_path: Path) -> None:
    root = shutil.copytree(real_dir(QUEUES), tmp_path / "store")
    for file in (root / "consumequeue").glob("MANIFEST-*"):
        file.write_bytes(b"?")
    with pytest.raises(StoreError):
        filed(root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_an_index_alone_is_reason_enough(real_dir: Directory) -> None:
    store = open_store(real_dir("5.5.0-rocksdb-all"))
    assert not any(is_lifted(other) for other in databases_of(store))
    assert CONVERSIONS["files"].refusal(store) is None


def test_what_it_says(real_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    line = ["convert", "files", str(real_dir(QUEUES)), "--into", str(tmp_path / "new"), "--no-sync"]
    assert run(line) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "Converted 227 records of 19 queues, 81.1 KiB, to queues, config and index in files"
    assert lines[-1].startswith(
        "Next: set storeType=default and mappedFileSizeConsumeQueue=6000000 in broker.conf"
    )
    shutil.rmtree(tmp_path / "new")
    assert run([*line, "--format", "json"]) == 0
    assert json.loads(capfd.readouterr().out)["what"] == "files"
