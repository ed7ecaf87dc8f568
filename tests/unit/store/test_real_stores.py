"""Every broker-written store: files, geometry, dialect and queues are those that its manifest states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import dialect_of, parse_version
from rocketfsck.store import open_store
from rocketfsck.store.circumstances import GEOMETRY_DEFAULTS, LockState
from rocketfsck.store.model import Store, StrayReason

from tests.conftest import RESTART_NAMES, STORE_NAMES

Directory = Callable[[str], Path]
Document = Callable[[str], dict[str, Any]]

GEOMETRY_KEYS = {
    "commitlog_file_size": "mappedFileSizeCommitLog",
    "consumequeue_file_size": "mappedFileSizeConsumeQueue",
    "batch_file_size": "mapperFileSizeBatchConsumeQueue",
    "ext_file_size": "mappedFileSizeConsumeQueueExt",
    "slot_count": "maxHashSlotNum",
    "entry_count": "maxIndexNum",
}


def geometry_of(store: Store) -> dict[str, int]:
    return {name: getattr(store.geometry, name) for name in GEOMETRY_KEYS}


def wanted_geometry(stated: dict[str, Any]) -> dict[str, int]:
    return {name: stated.get(key, GEOMETRY_DEFAULTS[name]) for name, key in GEOMETRY_KEYS.items()}


@pytest.mark.parametrize("name", STORE_NAMES)
def test_files(store_dir: Directory, manifest: Document, name: str) -> None:
    store = open_store(store_dir(name))
    stated = {entry["path"]: entry["size"] for entry in manifest(name)["files"]}
    assert {file.relative: file.size for file in store.all_files()} == stated
    assert all(file.path == store_dir(name) / file.relative for file in store.all_files())
    assert store.strays == ()
    assert (store.abort is not None) == manifest(name)["abortPresent"]
    assert store.lock is not None
    assert store.live.state is LockState.FREE
    assert store.checkpoint is not None
    assert store.commitlog.end_offset == int(store.commitlog.files[-1].name) + store.commitlog.files[-1].size
    assert [file.name for file in store.indexes] == sorted(file.name for file in store.indexes)
    assert all(file.created is not None for file in store.indexes)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_geometry(store_dir: Directory, manifest: Document, name: str) -> None:
    stated = manifest(name)["geometry"]
    store = open_store(store_dir(name))
    assert geometry_of(store) == wanted_geometry(stated)
    for field in GEOMETRY_KEYS:
        uses_default = GEOMETRY_KEYS[field] not in stated
        assert store.geometry.source(field) == ("default" if uses_default else "inferred"), field
    assert all(file.size == store.geometry.index_file_size for file in store.indexes)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_dialect(store_dir: Directory, manifest: Document, name: str) -> None:
    evidence = open_store(store_dir(name)).dialect_evidence
    written = parse_version(manifest(name)["finalVersion"].split()[0])
    assert written in evidence.versions
    assert evidence.dialect.version in evidence.versions
    assert not evidence.given
    assert not evidence.conflict
    assert len(evidence.known_from) >= 3
    # The traits in which the representative and the real version differ are few, and none is of a record.
    for trait in ("trailing_separator", "counts_entries_in_hash_slot_count", "property_parser"):
        if not (trait == "property_parser" and written.line == "common"):
            assert getattr(evidence.dialect, trait) == getattr(dialect_of(written), trait), trait


@pytest.mark.parametrize("name", STORE_NAMES)
def test_queues(store_dir: Directory, manifest: Document, name: str) -> None:
    store = open_store(store_dir(name))
    live = [phase["live"] for phase in manifest(name)["phases"] if phase.get("live")]
    found = {(queue.topic, queue.queue_id): queue for queue in store.queues}
    assert len(found) == len(store.queues)
    for queue in live[-1]["queues"] if live and manifest(name)["stop"] != "kill" else ():
        if queue["units"]:
            assert found[queue["topic"], queue["queueId"]].files
    for queue_in_store in store.queues:
        place = store_dir(name) / ("consumequeue" if queue_in_store.kind == "file" else "batchconsumequeue")
        directory = place / queue_in_store.topic / str(queue_in_store.queue_id)
        assert queue_in_store.mapped_files.directories == (directory,)
        assert sorted(entry.name for entry in directory.iterdir()) == [
            file.name for file in queue_in_store.files
        ]
        assert queue_in_store.mapped_files.file_size % queue_in_store.unit_size == 0


def test_ext_queues_belong_to_their_queues(store_dir: Directory) -> None:
    store = open_store(store_dir("4.9.8-cqext"))
    assert {(ext.topic, ext.queue_id): ext.mapped_files for ext in store.ext_queues} == {
        (queue.topic, queue.queue_id): queue.ext for queue in store.queues if queue.ext is not None
    }
    assert len(store.ext_queues) == 4
    assert not any(ext.orphan for ext in store.ext_queues)


def test_batch_queues(store_dir: Directory) -> None:
    queues = open_store(store_dir("5.0.0-innerbatch")).queues
    kinds = {(queue.topic, queue.kind, queue.unit_size) for queue in queues}
    assert kinds == {("Ib", "batch", 46), ("Plain0", "file", 20)}


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(restart_dir: Directory, oracle: Document, manifest: Document, name: str) -> None:
    store = open_store(restart_dir(name))
    source = manifest(name.split("--")[0])
    stated = wanted_geometry(source["geometry"])
    if not store.queues:  # nothing is left that could tell
        stated["consumequeue_file_size"] = GEOMETRY_DEFAULTS["consumequeue_file_size"]
    assert geometry_of(store) == stated
    assert parse_version(source["finalVersion"].split()[0]) in store.dialect_evidence.versions
    assert not store.dialect_evidence.conflict
    assert (store.abort is not None) == oracle(name)["abortBefore"]
    strays = [(stray.relative, stray.reason, stray.area) for stray in store.strays]
    stray = ("commitlog/.stray", StrayReason.NAME, "commitlog")
    assert strays == ([stray] if "stray" in name else [])


def test_a_truncated_index_file_keeps_its_length(restart_dir: Directory) -> None:
    sizes = [file.size for file in open_store(restart_dir("4.9.8-killed--index-truncated")).indexes]
    assert sizes == [2000, 6296, 6296, 6296, 6296]


def test_a_given_version_is_used_and_compared(store_dir: Directory) -> None:
    evidence = open_store(store_dir("4.9.8-basic"), version="4.4.0").dialect_evidence
    assert (str(evidence.dialect.version), evidence.given, evidence.conflict) == ("4.4.0", True, True)
    assert any("conflicts with 4.4.0" in item.why for item in evidence.known_from)
    evidence = open_store(store_dir("4.9.8-basic"), version="4.9.8").dialect_evidence
    assert (evidence.versions, evidence.conflict) == ((parse_version("4.9.8"),), False)
    with pytest.raises(UsageError):
        open_store(store_dir("4.9.8-basic"), version="new")


def test_traits_over_all_versions_that_fit(store_dir: Directory) -> None:
    evidence = open_store(store_dir("4.4.0-basic")).dialect_evidence
    assert evidence.values_of("max_physic_offset_is_end") == (False, True)
    assert evidence.values_of("v2_allowed") == (False,)
