"""Conversions: a node of DLedger's into a plain store, a master and its slaves into a controller's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.api import iter_messages
from rocketfsck.cli.app import run
from rocketfsck.commands.convert import ConvertCommand, convert
from rocketfsck.errors import StoreError, UsageError
from rocketfsck.formats.rocks import MARKS
from rocketfsck.formats.smallfiles import EpochEntry, decode_epochs, encode_epochs, offset_to_filename
from rocketfsck.query.timers import wheel_messages
from rocketfsck.repair.carve.carve import CarvedRecords
from rocketfsck.repair.convert.model import ConvertDocument, ConvertedStore
from rocketfsck.repair.convert.whole import EPOCH_FILE, carry_parts, log_records, prove_same
from rocketfsck.repair.salvage.build import NewStore
from rocketfsck.repair.salvage.choose import place_packed
from rocketfsck.store import Store, open_store
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.rules.catalog import RULES
from rocketfsck.writer.disk.publish import new_directory

from tests.conftest import Directory
from tests.databases import Families, write_database

MIXED, PURE = "4.9.7-dledger-mixed", "5.5.0-dledger"
TIMERS, HA = "5.3.3-dledger-timers", "5.5.0-ha"


def plain(store: Path, into: Path, **more: Any) -> ConvertedStore:
    made = convert(ConvertCommand(what="plain", paths=(store,), into=into, no_sync=True, **more))
    assert (made.exit_code, made.controller) == (0, None)
    assert made.converted is not None
    return made.converted


def messages(store: Store) -> list[tuple[Any, ...]]:
    """All of each message but where it is."""
    return [
        (
            m.topic,
            m.queue_id,
            m.queue_offset,
            m.store_timestamp,
            m.born_timestamp,
            m.sys_flag,
            m.properties,
            m.body,
        )
        for m in iter_messages(store)
    ]


def problems(store: Store) -> list[str]:
    counts = check_store(store, CheckOptions(level="full")).counts
    return [rule for rule, count in counts.items() if count and RULES[rule].severity > Severity.INFO]


@pytest.fixture
def copied(group_dir: Directory, tmp_path: Path) -> Path:
    """The store of a node with timers, without the index of its entries, which is large and derived."""
    root = tmp_path / "node"
    ignored = shutil.ignore_patterns("index")
    shutil.copytree(group_dir(TIMERS) / "store", root, ignore=ignored)
    shutil.copytree(group_dir(TIMERS) / "store/index", root / "index")
    return root


@pytest.fixture(scope="module")
def timed(group_dir: Directory, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, ConvertedStore]:
    """A node with timers and transactions, and what became of it."""
    source = open_store(group_dir(TIMERS) / "store")
    return source, plain(source.root, tmp_path_factory.mktemp("timed") / "new")


@pytest.mark.parametrize("name", [MIXED, PURE])
def test_a_node_becomes_a_plain_store(real_dir: Directory, tmp_path: Path, name: str) -> None:
    before = open_store(real_dir(name))
    made = plain(before.root, tmp_path / "new")
    after = open_store(made.into)
    assert not any(file.in_entries for file in after.commitlog.files)
    assert messages(after) == messages(before)
    assert made.record_count == len(messages(before))
    assert made.queue_count == len(after.queues) == len(before.queues)
    assert problems(after) == []
    assert made.start_offset == made.commitlog_file_size == before.geometry.commitlog_file_size
    assert [start.harmless for start in made.starts if start.covered] == [True] * len(made.starts)
    names = {part.path for part in made.parts_left_out}
    assert names == ({"rocksdbstore"} if name == PURE else set())


def test_another_file_size(real_dir: Directory, tmp_path: Path) -> None:
    made = plain(real_dir(PURE), tmp_path / "new", commitlog_file_size=1 << 17)
    assert [file.size for file in open_store(made.into).commitlog.files] == [1 << 17]
    with pytest.raises(UsageError, match="too long for commit log files of 512 bytes"):
        plain(real_dir(PURE), tmp_path / "small", commitlog_file_size=512)
    assert not (tmp_path / "small").exists()


def test_ends_of_transactions_name_their_half_messages(timed: tuple[Store, ConvertedStore]) -> None:
    source, after = timed[0], open_store(timed[1].into)

    def halves(store: Store) -> list[tuple[Any, ...]]:
        at = {m.physical_offset: (m.topic, m.queue_id, m.queue_offset) for m in iter_messages(store)}
        prepared = (m.prepared_transaction_offset for m in iter_messages(store))
        return [at[offset] for offset in prepared if offset > 0]

    assert halves(after) == halves(source) != []


def test_timers_lead_to_their_messages(timed: tuple[Store, ConvertedStore]) -> None:
    source, made = timed
    assert made.timer_unit_count == 26

    def waiting(store: Store) -> list[tuple[Any, ...]]:
        return [(m.due_timestamp, m.action, m.topic, m.queue_id, m.unique_key) for m in wheel_messages(store)]

    found = waiting(open_store(made.into))
    assert found == waiting(source) != []
    assert all(key is not None for *_, key in found)


def test_a_unit_of_a_message_that_is_gone_leads_nowhere(copied: Path, tmp_path: Path) -> None:
    timer_log = copied / "timerlog" / offset_to_filename(0)
    unit = bytearray(timer_log.read_bytes())
    unit[28:36] = (1 << 40).to_bytes(8, "big")  # offsetPy of the first unit
    timer_log.write_bytes(unit)
    made = NewStore(*_records(copied))
    with new_directory(tmp_path / "new", sync=False) as building:
        assert carry_parts(open_store(copied), building, made) == 26
    written = (tmp_path / "new/timerlog" / offset_to_filename(0)).read_bytes()
    assert written[28:36] == b"\xff" * 8
    assert written[:28] == bytes(unit[:28])


def _records(root: Path) -> tuple[Any, CarvedRecords, Any, str]:
    store = open_store(root)
    sources, found = log_records(store)
    placement = place_packed(found, np.arange(len(found)), store.geometry.commitlog_file_size)
    return sources, found, placement, str(store.dialect.version)


@pytest.mark.parametrize("place", ["topic", "size"])
def test_the_proof_sees_a_byte(real_dir: Directory, tmp_path: Path, place: str) -> None:
    made = NewStore(*_records(real_dir(PURE)))
    written = plain(real_dir(PURE), tmp_path / "new")
    prove_same(made, open_store(written.into))
    log = open_store(written.into).commitlog.files[0].path
    data = bytearray(log.read_bytes())
    if place == "topic":
        data[data.index(b"RaftOrder")] ^= 1
    else:
        data[made.found["total_size"][0] : made.found["total_size"][0] + 4] = bytes(4)
    log.write_bytes(data)
    with pytest.raises(StoreError, match="does not have the same records"):
        prove_same(made, open_store(written.into))


def test_what_is_refused(real_dir: Directory, store_dir: Directory, copied: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is plain already"):
        plain(store_dir("5.3.3-basic"), tmp_path / "new")
    with pytest.raises(UsageError, match="takes one store"):
        convert(ConvertCommand(what="plain", paths=(real_dir(PURE), real_dir(MIXED)), into=tmp_path / "new"))
    (tmp_path / "new").mkdir()
    with pytest.raises(StoreError, match="does not overwrite"):
        plain(real_dir(PURE), tmp_path / "new")
    with pytest.raises(UsageError, match="DLedger's; make it plain first"):
        convert(ConvertCommand(what="controller", paths=(copied,), into=tmp_path / "other"))
    log = min((copied / "dledger-n0/data").iterdir())
    data = bytearray(log.read_bytes())
    data[data.index(b"\xda\xa3\x20\xa7")] ^= 1
    log.write_bytes(data)
    with pytest.raises(StoreError, match=r"is damaged .*repair it first"):
        plain(copied, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "node"]


@pytest.mark.parametrize(
    ("family", "key"), [("timer", MARKS["timer"][0]), ("trans", b"\0" * 8 + b"@Topic@u")]
)
def test_timers_in_a_database_are_refused(copied: Path, tmp_path: Path, family: str, key: bytes) -> None:
    families: Families = {"default": {}, "timer": {}, "trans": {MARKS["trans"][0]: bytes(8)}}
    families[family][key] = bytes(8)
    write_database(copied / "rocksdbstore", families)
    with pytest.raises(UsageError, match=f"has rows of {family}, which convert does not take along"):
        plain(copied, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def joined(into: Path, *stores: Path) -> ConvertDocument:
    return convert(ConvertCommand(what="controller", paths=stores, into=into, no_sync=True))


def epochs(path: Path) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in decode_epochs(path.read_bytes()).entries]


def test_a_single_store_for_a_controller(store_dir: Directory, tmp_path: Path) -> None:
    made = joined(tmp_path / "new", store_dir("5.3.3-basic"))
    assert [path.name for path in (tmp_path / "new").iterdir()] == [EPOCH_FILE]
    assert epochs(tmp_path / "new" / EPOCH_FILE) == [(0, 0)]
    assert made.controller is not None
    assert [store.lacking_count for store in made.controller.stores] == [0]
    root = tmp_path / "store"
    shutil.copytree(store_dir("5.3.3-basic"), root)
    shutil.copy(tmp_path / "new" / EPOCH_FILE, root)
    assert problems(open_store(root)) == []
    with pytest.raises(UsageError, match="reach back to the beginning"):
        joined(tmp_path / "again", root)


def test_a_master_and_a_slave_that_is_behind(
    group_dir: Directory, store_dir: Directory, tmp_path: Path
) -> None:
    group = group_dir(HA)
    made = joined(tmp_path / "new", group / "slave", group / "master-later")
    assert made.controller is not None
    assert [store.path.name for store in made.controller.stores] == ["master-later", "slave"]
    assert [store.lacking_count for store in made.controller.stores] == [0, 18]
    assert {epochs(store.epoch_file)[0] for store in made.controller.stores} == {(0, 0)}
    with pytest.raises(UsageError, match="slave-alone is parted: from physical offset 11488 on"):
        joined(tmp_path / "other", group / "slave-alone", group / "master-later")
    with pytest.raises(UsageError, match="not of one group"):
        joined(tmp_path / "other", group / "slave", store_dir("5.3.3-basic"))
    assert not (tmp_path / "other").exists()


def test_a_slave_that_a_controller_left_behind(
    group_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It joined without a common epoch: the master's first begins where its log ended."""
    for name in ("slave", "master-later"):
        shutil.copytree(group_dir(HA) / name, tmp_path / name)
    end = 17036
    for name in ("slave", "master-later"):
        (tmp_path / name / EPOCH_FILE).write_bytes(encode_epochs([EpochEntry(1, end)]))
    stores = [str(tmp_path / name) for name in ("slave", "master-later")]
    run(["check", *stores])
    assert "and never gets them: no epoch holds its end" in capfd.readouterr().out.replace("\n ", "")
    assert run(["convert", "controller", *stores, "--into", str(tmp_path / "new"), "--format", "json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    files = {Path(store["path"]).name: store["epoch_file"] for store in answer["controller"]["stores"]}
    assert epochs(Path(files["slave"])) == [(0, 0)]
    assert epochs(Path(files["master-later"])) == [(0, 0), (1, end)]
    for name, file in files.items():
        shutil.copy(file, tmp_path / name)
    run(["check", *stores])
    assert "slave is behind by 18 records, and gets them" in capfd.readouterr().out


def test_what_it_says(real_dir: Directory, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["convert", "plain", str(real_dir(PURE)), "--into", str(tmp_path / "new")]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "Converted 257 records of 19 queues, 90.9 KiB, to a plain commit log"
    assert "  the same records, but for physical offsets; a check finds nothing wrong" in lines
    assert lines[-1].startswith("Next: remove enableDLegerCommitLog")
