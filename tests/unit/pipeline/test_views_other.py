"""Units, entries, regions, files and findings as rows are those of the package's own functions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketfsck.api import read_entries, read_units
from rocketfsck.errors import StoreError
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views.model import WantedRows
from rocketfsck.pipeline.views.table import plan_parts
from rocketfsck.reader.units import BLOCK_COUNT, UnitReader
from rocketfsck.scan.log.resync import Region
from rocketfsck.scan.options import ScanOptions
from rocketfsck.scan.views.messages import walk_messages
from rocketfsck.store import Store, open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify import CheckOptions, check_store
from rocketfsck.verify.report import finding_from_json

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory
from tests.unit.pipeline.viewing import read, rows_of

NOW = 1_800_000_000_000
UNIT = ("index", "kind", "physical_offset", "size", "tags_code")
BATCH = ("store_timestamp", "msg_base_offset", "batch_count", "compacted_offset")
FEW = ("4.9.8-basic--torn-tail", "5.3.3-trans--cq-dangling", "4.4.0-multiseg--missing-middle-commitlog")
ENTRY = ("entry", "key_hash", "physical_offset", "time_diff", "prev_index")


def _units(store: Store, root: Path) -> None:
    rows = read("consumequeue", root, live_only=False, fixed=True)
    expected = [
        (queue.topic, queue.queue_id, queue.kind, unit)
        for queue in store.queues
        for batch in read_units(store, queue.topic, queue.queue_id, kind=queue.kind)
        for unit in batch.to_pylist()
    ]
    assert len(rows) == len(expected)
    for row, (topic, queue_id, kind, unit) in zip(rows, expected, strict=True):
        assert (row["topic"], row["queue_id"], row["queue_kind"]) == (topic, queue_id, kind)
        assert {name: row[name] for name in UNIT} == {name: unit[name] for name in UNIT}
        assert [row[name] for name in BATCH] == [unit.get(name) for name in BATCH]
    live = [row for row in rows if row["kind"] in ("unit", "invalid")]
    assert read("consumequeue", root, fixed=True) == live
    assert read("consumequeue", root, split_size=4096, fixed=True) == live
    for row in (*rows[:2], *rows[-2:]):
        with FileReader(root / row["file"]) as reader:
            assert int.from_bytes(reader.read(row["pos"], 8), "big", signed=True) == row["physical_offset"]


def _entries(store: Store, root: Path) -> None:
    rows = read("index", root, fixed=True)
    expected = [
        (file.relative, *(entry[name] for name in ENTRY))
        for number, file in enumerate(store.indexes)
        for batch in read_entries(store, number)
        for entry in batch.to_pylist()
    ]
    assert [(row["file"], *(row[name] for name in ENTRY)) for row in rows] == expected
    assert read("index", root, split_size=4096, fixed=True) == rows
    for row in rows[:2]:
        with FileReader(root / row["file"]) as reader:
            assert int.from_bytes(reader.read(row["pos"], 4), "big", signed=True) == row["key_hash"]


def _regions(store: Store, root: Path) -> None:
    rows = read("regions", root, fixed=True)
    for file in store.commitlog.files:
        own = [row for row in rows if row["file"] == file.relative]
        assert [row["pos"] for row in own] == [0, *(row["pos"] + row["size"] for row in own)][:-1]
        assert sum(row["size"] for row in own) == file.size
        with FileReader(file.path) as reader:
            options = ScanOptions(file_size=max(store.commitlog.file_size, reader.size))
            found = [
                item
                for item in walk_messages(reader, file.start_offset or 0, options)
                if isinstance(item, Region)
            ]
        assert [item.start for item in found] == [
            row["pos"] for row in own if row["pos"] in {item.start for item in found}
        ]
        assert sum(row["record_count"] for row in own) == sum(item.record_count for item in found)
        if all(row["live"] for row in own):
            assert [(row["kind"], row["reason"], row["pos"]) for row in own] == [
                (item.kind, item.reason, item.start) for item in found
            ]


def _files(store: Store, root: Path) -> None:
    rows = read("files", root, fixed=True)
    listed = [(row["file"], row["size"]) for row in rows if row["stray"] is None]
    assert listed == [(file.relative, file.size) for file in store.all_files()]
    assert [row["file"] for row in rows if row["stray"]] == [stray.relative for stray in store.strays]
    for row in rows:
        if row["stray"] is None and not Path(row["file"]).is_absolute():
            assert row["path"] == str(root / row["file"])


def _findings(store: Store, root: Path) -> None:
    report = check_store(store, CheckOptions(level="cross", now_timestamp=NOW, jobs=1))
    rows = read("findings", root, now_timestamp=NOW)
    documents = read("findings", root, now_timestamp=NOW, columns=("finding", "broker"))
    found = [finding_from_json(json.loads(row["finding"])) for row in documents]
    assert found == list(report.findings)
    assert len(rows) == len(found)
    for row, finding in zip(rows, found, strict=True):
        assert (row["rule"], row["fingerprint"], row["count"]) == (
            finding.rule,
            finding.fingerprint,
            finding.count,
        )
        assert row["file"] == finding.where.file
        assert row["start"] == finding.where.start


def _compare(root: Path) -> None:
    store = open_store(root)
    for part in (_units, _entries, _regions, _files):
        part(store, root)


@pytest.mark.parametrize("name", STORE_NAMES)
def test_broker_stores(store_dir: Directory, name: str) -> None:
    _compare(store_dir(name))


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_damaged_stores(restart_dir: Directory, name: str) -> None:
    _compare(restart_dir(name))


def test_holes_of_a_queue_file_are_not_read(store_copy: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    root = store_copy("4.9.8-basic")
    queue = next(queue for queue in open_store(root).queues if queue.files)
    before = read("consumequeue", root)
    with (root / queue.files[-1].relative).open("r+b") as file:
        unit = file.read(20)
        far = (1 << 39) // 20 * 20
        for pos in (far, (1 << 40) // 20 * 20 - 20):  # a unit in the middle, and the last one
            file.seek(pos)
            file.write(unit)
    reads = 0
    read_units = UnitReader.units

    def units(self: UnitReader, index: int, count: int) -> Any:
        nonlocal reads
        reads += 1
        assert reads < 1000
        return read_units(self, index, count)

    monkeypatch.setattr(UnitReader, "units", units)
    rows = read("consumequeue", root)
    far_away = [row for row in rows if row["pos"] >= far]
    assert [row for row in rows if row["pos"] < far] == before
    assert [row["pos"] for row in far_away] == [far, (1 << 40) // 20 * 20 - 20]
    assert {row["physical_offset"] for row in far_away} == {int.from_bytes(unit[:8], "big")}


def test_a_queue_file_that_became_shorter_is_an_error(store_copy: Directory) -> None:
    root = store_copy("4.9.8-basic")
    queue = next(queue for queue in open_store(root).queues if queue.files)
    path = root / queue.files[-1].relative
    os.truncate(path, 2 * 20 * BLOCK_COUNT)
    parts = plan_parts("consumequeue", [replace(one, listed=1) for one in find_sources([root])], WantedRows())
    assert [row for part in parts for row in rows_of(part, WantedRows())]
    os.truncate(path, 20 * BLOCK_COUNT)  # what is missing had no data
    with pytest.raises(StoreError, match=path.name):
        for part in parts:
            rows_of(part, WantedRows())


@pytest.mark.parametrize("name", FEW)
def test_findings(restart_dir: Directory, name: str) -> None:
    _findings(open_store(restart_dir(name)), restart_dir(name))


def test_a_stale_tail_is_not_live(store_dir: Directory) -> None:
    rows = read("regions", store_dir("4.9.8-ghosttail"))
    stale = [row for row in rows if not row["live"]]
    assert [row["kind"] for row in stale] == ["damaged", "records", "zero"]
    assert stale[1]["record_count"] == 6
    assert all(row["_corrupt_record"] is None for row in rows)
    every = read("regions", store_dir("4.9.8-ghosttail"), live_only=False)
    assert [row["kind"] for row in every if row["_corrupt_record"]] == ["damaged"]


def test_a_run_that_turns_stale_is_cut_in_two(store_copy: Directory) -> None:
    """Records of an earlier life right behind live ones, as where a log was cut at a record's end."""
    root = store_copy("4.9.8-multiseg")
    rows = read("messages", root, columns=("offset", "pos", "size", "file"))
    own = [row for row in rows if row["file"].endswith("/00000000000000131072")]
    half = own[len(own) // 2]["pos"]
    path = root / own[0]["file"]
    data = bytearray(path.read_bytes())
    for row in own:
        if row["pos"] < half:
            data[row["pos"] + 56 + 2] += 1  # storeTimestamp: 34 years later, as in a newer life
        else:
            data[row["pos"] + 20 : row["pos"] + 28] = bytes(8)  # queueOffsets given out again
    path.write_bytes(data)
    cut = [row for row in read("regions", root) if row["file"] == own[0]["file"]]
    assert [(row["kind"], row["live"], row["pos"]) for row in cut[:2]] == [
        ("records", True, 0),
        ("records", False, half),
    ]
    assert [row["record_count"] for row in cut[:2]] == [len(own) // 2, len(own) - len(own) // 2]


def test_parts_are_pruned(store_dir: Directory) -> None:
    sources = find_sources([store_dir("4.9.8-multiseg")])
    every = plan_parts("consumequeue", sources, WantedRows(split_size=4096))
    assert len(every) > 3
    rows = read("consumequeue", store_dir("4.9.8-multiseg"))
    topic, queue_id = rows[0]["topic"], rows[0]["queue_id"]
    one = plan_parts("consumequeue", sources, WantedRows(topic=topic, queue_id=queue_id, split_size=4096))
    assert 0 < len(one) < len(every)
    assert read("consumequeue", store_dir("4.9.8-multiseg"), topic=topic, queue_id=queue_id) == [
        row for row in rows if (row["topic"], row["queue_id"]) == (topic, queue_id)
    ]
    assert plan_parts("consumequeue", sources, WantedRows(topic="no such topic")) == []
    assert len(plan_parts("regions", sources, WantedRows(begin_offset=131_072, end_offset=131_073))) == 1


def test_offsets_select_units_and_entries(store_dir: Directory) -> None:
    root = store_dir("4.9.8-multiseg")
    bounds: dict[str, Any] = {"begin_offset": 100_000, "end_offset": 200_000}
    for view, name in (
        ("consumequeue", "physical_offset"),
        ("index", "physical_offset"),
        ("regions", "offset"),
    ):
        chosen = [row for row in read(view, root) if 100_000 <= row[name] < 200_000]
        assert chosen
        assert read(view, root, **bounds) == chosen


def test_invalid_units(store_copy: Directory) -> None:
    root = store_copy("5.3.3-trans")
    row = read("consumequeue", root)[0]
    with (root / row["file"]).open("r+b") as file:
        file.seek(row["pos"])
        file.write(b"\xff" * 12)
    (bad,) = [one for one in read("consumequeue", root) if one["_corrupt_record"]]
    assert json.loads(bad["_corrupt_record"]) == {
        "kind": "unit",
        "reason": "invalid",
        "file": row["file"],
        "start": row["pos"],
        "end": row["pos"] + 20,
    }
    assert bad["kind"] == "invalid"
    kept = read("consumequeue", root, mode="DROPMALFORMED")
    assert len(kept) == len(read("consumequeue", root)) - 1
    with pytest.raises(
        StoreError, match=f"{row['file']} at byte {row['pos']}: unit .* of the queue is invalid"
    ):
        read("consumequeue", root, mode="FAILFAST")


def test_regions_in_other_modes(restart_dir: Directory) -> None:
    root = restart_dir("4.9.8-basic--torn-tail")
    rows = read("regions", root)
    (torn,) = [row for row in rows if row["_corrupt_record"]]
    assert torn["kind"] == "torn"
    assert len(read("regions", root, mode="DROPMALFORMED")) == len(rows) - 1
    with pytest.raises(StoreError, match=f"{torn['file']} at byte {torn['pos']}: torn bytes"):
        read("regions", root, mode="FAILFAST")


def test_what_a_check_could_not_read(store_copy: Directory) -> None:
    root = store_copy("5.3.3-trans")
    log = next((root / "commitlog").iterdir())
    sources = find_sources([root])
    (part,) = plan_parts("findings", sources)
    from rocketfsck.pipeline.sources import open_source
    from rocketfsck.pipeline.views.table import read_part

    open_source(part.source)
    log.unlink()
    asked = WantedRows(on_unreadable="row")
    rows = [row for batch in read_part(part, asked) for row in batch.to_pylist()]
    said = [json.loads(row["_corrupt_record"]) for row in rows if row["_corrupt_record"]]
    assert {(one["kind"], one["file"]) for one in said} == {("not-checked", f"commitlog/{log.name}")}
    for mode in ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"):
        with pytest.raises(StoreError, match=f"commitlog/{log.name}: could not be checked"):
            list(read_part(part, WantedRows(mode=mode)))


@pytest.mark.parametrize(("view", "checks"), [("messages", False), ("findings", True)])
def test_a_view_loads_what_it_reads_by(store_dir: Directory, view: str, checks: bool) -> None:
    """Each worker of Spark loads it once more, and messages need nothing of what a check takes."""
    code = f"""
import sys
from rocketfsck.pipeline.sources import find_sources
from rocketfsck.pipeline.views import plan_parts, read_part
for part in plan_parts({view!r}, find_sources([{os.fspath(store_dir("4.9.8-multiseg"))!r}])):
    list(read_part(part))
print("rocketfsck.verify.run" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{checks}\n"
