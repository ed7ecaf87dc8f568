"""Queues and index files made anew from the commit log are the broker's own, byte for byte.

Of every store of the collection with an intact log, index/, consumequeue/, batchconsumequeue/ and
consumequeue_ext/ are deleted, rebuilt and compared with what the broker wrote. The tables below are all
exceptions, each with its reason; a test fails where an exception is not needed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.formats.consumequeue import (
    EXT_UNIT_MIN_SIZE,
    PRE_BLANK_UNIT,
    UNIT,
    UNIT_SIZE,
    decode_ext_unit,
    ext_offset,
)
from rocketfsck.formats.dtypes import ENTRY_DTYPE
from rocketfsck.formats.indexfile import ENTRY_SIZE, decode_header, entry_pos
from rocketfsck.repair.build.files import IndexBuild, QueueBuild
from rocketfsck.repair.build.index import build_index
from rocketfsck.repair.build.queues import build_queues
from rocketfsck.store import open_store
from rocketfsck.store.model import Store
from rocketfsck.verify import check_store
from rocketfsck.verify.finding import Severity
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.rules.catalog import RULES

from tests.conftest import STORE_NAMES, Directory, Document

AREAS = ("consumequeue", "batchconsumequeue", "consumequeue_ext", "index")

BIT_MAPS = "the filter bit maps, and with them the places of ext units, depend on subscriptions"
EXPIRED = "the records have expired: their units become pre-blank units, their entries are gone"
GHOSTS = "a truncation left units and index entries of an earlier life behind the end"
REINDEXED = "a start after a kill deleted an index file and indexed from a file's beginning again"

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("4.9.8-cqext", "consumequeue"): BIT_MAPS,
    ("4.9.8-cqext", "consumequeue_ext"): BIT_MAPS,
    ("4.9.8-expired", "consumequeue"): EXPIRED,
    ("4.9.8-expired", "index"): EXPIRED,
    ("5.1.3-expired", "consumequeue"): EXPIRED,
    ("5.1.3-expired", "index"): EXPIRED,
    ("4.9.8-ghosttail", "consumequeue"): GHOSTS,
    ("4.9.8-ghosttail", "index"): GHOSTS,
    ("5.1.3-killed-restarted", "index"): REINDEXED,
}
"""Areas of a store in which the rebuilt files are not the broker's, and why."""


KILLED = {
    "CP001": "the broker was killed: its abort file is there",
    "CP003": "so a start deletes the last index file, as it would the broker's own",
}
IN_THE_LOG: dict[str, dict[str, str]] = {
    "4.9.8-ghosttail": {"CL021": "the stale tail itself"},
    "4.9.8-killed": KILLED,
    "4.9.8-lagkill-transient": KILLED,
    "5.3.3-killed": KILLED,
}
"""Findings above info that lie in what is not rebuilt: rules and why."""


def _settings(manifest: dict[str, Any]) -> str:
    config = manifest["phases"][0]["config"]
    lines = [f"{name}={value}" for name, value in manifest["geometry"].items() if name != "batchCqTopics"]
    lines.append(f"enableConsumeQueueExt={str(bool(config.get('enableConsumeQueueExt'))).lower()}")
    return "\n".join(lines)


@pytest.fixture
def bare(store_copy: Directory, manifest: Document, tmp_path: Path) -> Any:
    """Gives a store without anything that can be rebuilt, opened with its broker's settings."""

    def make(name: str) -> Store:
        root = store_copy(name)
        for area in AREAS:
            shutil.rmtree(root / area, ignore_errors=True)
        return _open(root, manifest(name), tmp_path)

    return make


def _open(root: Path, manifest: dict[str, Any], folder: Path) -> Store:
    conf = folder / "broker.conf"
    conf.write_text(_settings(manifest), "utf-8")
    return open_store(root, broker_conf=conf, version=str(manifest["finalVersion"]).split()[0])


def _index_names(manifest: dict[str, Any]) -> list[str]:
    paths = (Path(item["path"]) for item in manifest["files"])
    return sorted(path.name for path in paths if path.parts[0] == "index")


def _files(root: Path, area: str) -> dict[str, bytes]:
    found = (path for path in (root / area).rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def _rebuild(store: Store, into: Path, manifest: dict[str, Any]) -> tuple[QueueBuild, IndexBuild]:
    return build_queues(store, into), build_index(store, into, names=_index_names(manifest))


@pytest.mark.parametrize("name", STORE_NAMES)
def test_rebuilt_files_are_the_brokers(
    name: str, bare: Any, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    queues, index = _rebuild(bare(name), tmp_path / "built", manifest(name))
    for area in AREAS:
        ours, brokers = _files(tmp_path / "built", area), _files(store_dir(name), area)
        if (name, area) in EXCEPTIONS:
            assert ours != brokers, "the exception is not needed"
            continue
        assert sorted(ours) == sorted(brokers)
        for file, data in brokers.items():
            assert ours[file] == data, file
    assert queues.refused_count == 0
    assert queues.unit_count >= queues.record_count > 0
    assert all(not queue.duplicate_count + queue.misplaced_count for queue in queues.queues)
    assert queues.without_bit_maps == (name == "4.9.8-cqext")
    assert index.entry_count == sum(file.entry_count for file in index.files) > 0


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_store_with_rebuilt_parts_is_clean(
    name: str, bare: Any, manifest: Document, tmp_path: Path
) -> None:
    store = bare(name)
    _rebuild(store, tmp_path / "built", manifest(name))
    for area in AREAS:
        if (tmp_path / "built" / area).exists():
            (tmp_path / "built" / area).rename(store.root / area)
    report = check_store(_open(store.root, manifest(name), tmp_path), CheckOptions())
    found = [finding for finding in report.findings if RULES[finding.rule].severity > Severity.INFO]
    assert [finding for finding in found if finding.rule not in IN_THE_LOG.get(name, {})] == []
    assert {finding.rule for finding in found} == set(IN_THE_LOG.get(name, {}))


def _units(files: dict[str, bytes]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for file, data in sorted(files.items()):
        folder, _, start = file.rpartition("/")
        for pos in range(0, len(data), UNIT_SIZE):
            yield folder, (int(start) + pos) // UNIT_SIZE, UNIT.parse(data, pos)


def test_units_lead_to_ext_units_without_bit_maps(
    bare: Any, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    name = "4.9.8-cqext"
    _rebuild(bare(name), tmp_path / "built", manifest(name))
    ours, brokers = _files(tmp_path / "built", "consumequeue"), _files(store_dir(name), "consumequeue")
    ours_ext = _files(tmp_path / "built", "consumequeue_ext")
    brokers_ext = _files(store_dir(name), "consumequeue_ext")
    assert sorted(ours) == sorted(brokers)
    assert sorted(ours_ext) == sorted(brokers_ext)
    count = 0
    for mine, theirs in zip(_units(ours), _units(brokers), strict=True):
        assert mine[:2] == theirs[:2]
        assert (mine[2]["offset"], mine[2]["size"]) == (theirs[2]["offset"], theirs[2]["size"])
        if not mine[2]["size"]:
            continue
        file = mine[0].replace("consumequeue", "consumequeue_ext") + f"/{0:020d}"
        left = decode_ext_unit(ours_ext[file], ext_offset(mine[2]["tagsCode"]))
        right = decode_ext_unit(brokers_ext[file], ext_offset(theirs[2]["tagsCode"]))
        assert left is not None
        assert right is not None
        assert left.size == EXT_UNIT_MIN_SIZE
        assert (left.tags_code, left.msg_store_time) == (right.tags_code, right.msg_store_time)
        count += 1
    assert count == 400


@pytest.mark.parametrize("name", ["4.9.8-expired", "5.1.3-expired"])
def test_only_what_expired_is_missing(
    name: str, bare: Any, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    store = bare(name)
    start = store.commitlog.start_offset
    assert start
    _rebuild(store, tmp_path / "built", manifest(name))
    ours, brokers = _files(tmp_path / "built", "consumequeue"), _files(store_dir(name), "consumequeue")
    assert sorted(ours) == sorted(brokers)
    blank = UNIT.parse(PRE_BLANK_UNIT)
    replaced = 0
    for mine, theirs in zip(_units(ours), _units(brokers), strict=True):
        if theirs[2]["size"] and theirs[2]["offset"] < start:
            assert mine == (*theirs[:2], blank)
            replaced += 1
        else:
            assert mine == theirs
    assert replaced
    geometry = store.geometry
    kept = _entries(store_dir(name), geometry.slot_count)
    kept = kept[kept["phyOffset"] >= start]
    mine_entries = _entries(tmp_path / "built", geometry.slot_count)
    for field in ("keyHash", "phyOffset"):
        assert mine_entries[field].tolist() == kept[field].tolist()


def _entries(root: Path, slot_count: int) -> Any:
    """The entries of all index files."""
    found = []
    for _, data in sorted(_files(root, "index").items()):
        count = decode_header(data).entry_count
        pos = entry_pos(1, slot_count)
        found.append(np.frombuffer(data[pos : pos + count * ENTRY_SIZE], ENTRY_DTYPE))
    return np.concatenate(found)


def test_ghosts_are_all_that_is_left_out(
    bare: Any, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """4.9.8-ghosttail: units equal up to the end of each queue, and nothing behind it."""
    name = "4.9.8-ghosttail"
    store = bare(name)
    queues, _ = _rebuild(store, tmp_path / "built", manifest(name))
    ours, brokers = _files(tmp_path / "built", "consumequeue"), _files(store_dir(name), "consumequeue")
    assert sorted(ours) == sorted(brokers)
    ends = {f"consumequeue/{queue.topic}/{queue.queue_id}": queue.end_queue_offset for queue in queues.queues}
    ghosts = 0
    for mine, theirs in zip(_units(ours), _units(brokers), strict=True):
        if mine[1] < ends[mine[0]]:
            assert mine == theirs
        else:
            assert mine[2] == {"offset": 0, "size": 0, "tagsCode": 0}
            ghosts += bool(theirs[2]["size"])
    assert ghosts
    # The broker's index has entries of the first life; ours are those of records that are there.
    old, new = (_entries(root, store.geometry.slot_count) for root in (store_dir(name), tmp_path / "built"))
    theirs_set = set(zip(old["keyHash"].tolist(), old["phyOffset"].tolist(), strict=True))
    common = [
        pair
        for pair in zip(new["keyHash"].tolist(), new["phyOffset"].tolist(), strict=True)
        if pair in theirs_set
    ]
    assert 0 < len(common) < len(old)


def test_a_reindexed_store_has_every_key_again(
    bare: Any, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """5.1.3-killed-restarted: the broker lost keys at its start, which are in the rebuilt index."""
    name = "5.1.3-killed-restarted"
    store = bare(name)
    _rebuild(store, tmp_path / "built", manifest(name))
    old, new = (_entries(root, store.geometry.slot_count) for root in (store_dir(name), tmp_path / "built"))
    pairs = [
        set(zip(found["keyHash"].tolist(), found["phyOffset"].tolist(), strict=True)) for found in (old, new)
    ]
    assert pairs[0] < pairs[1]
