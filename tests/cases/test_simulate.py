"""The predicted start against what the real code did with the same store: all of it, for every case."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rocketfsck.formats.consumequeue import BATCH_UNIT, UNIT
from rocketfsck.query.start.model import QueueStart, Start
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store

from tests.conftest import RESTART_NAMES, STORE_NAMES, Directory, Document, released

AREAS = ("commitlog/", "consumequeue/", "batchconsumequeue/", "index/")
UNTOLD_TAGS = {"4.9.8-cqext"}
"""Their units hold addresses of the extension."""

Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Prediction:
    start: Start
    appended: Mapping[Name, list[tuple[int, AppendedColumns]]]
    root: Path

    @property
    def queues(self) -> dict[Name, QueueStart]:
        return {(queue.topic, queue.queue_id): queue for queue in self.start.queues}

    def units(self, queue: QueueStart) -> list[tuple[int, ...]]:
        """Queue offset, physical offset, size and tagsCode of what the queue holds after the start."""
        found = _units_on_disk(self.root, queue)
        for place, run in self.appended.get((queue.topic, queue.queue_id), []):
            for number, unit in enumerate(zip(run.offset, run.size, run.tags, strict=True)):
                found[place + number] = tuple(map(int, unit))
        return [
            (index, *found[index]) for index in sorted(found) if queue.min_offset <= index < queue.max_offset
        ]


def _units_on_disk(root: Path, queue: QueueStart) -> dict[int, tuple[int, ...]]:
    area = "batchconsumequeue" if queue.kind == "batch" else "consumequeue"
    unit = BATCH_UNIT if queue.kind == "batch" else UNIT
    found: dict[int, tuple[int, ...]] = {}
    directory = root / area / queue.topic / str(queue.queue_id)
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        rows = np.frombuffer(path.read_bytes(), unit.dtype())
        for number, row in enumerate(rows):
            values = (int(row["offset"]), int(row["size"]), int(row["tagsCode"]))
            if queue.kind == "batch" and row["size"]:
                found[int(row["msgBaseOffset"])] = values
            elif queue.kind == "file":
                found[int(path.name) // unit.size + number] = values
    return found


def predict(root: Path, version: str, document: Mapping[str, Any], conf: Path) -> Prediction:
    """The start of `version` with the settings that the broker had."""
    settings = {**document.get("config", {}), **document["geometry"]}
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    appended: dict[Name, list[tuple[int, AppendedColumns]]] = defaultdict(list)

    def watch(queue: QueueModel, place: int, units: AppendedColumns) -> None:
        appended[queue.loaded.topic, queue.loaded.queue_id].append((place, units))

    store = open_store(root, version=version, broker_conf=conf, commitlog_paths=[root / "commitlog"])
    return Prediction(simulate_start(store, version, watch=watch), appended, root)


@pytest.fixture(scope="module")
def predicted(
    restart_dir: Directory, oracle: Document, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Prediction]:
    place = tmp_path_factory.mktemp("conf")

    @cache
    def of_case(name: str) -> Prediction:
        stated = oracle(name)
        return predict(restart_dir(name), stated["brokerVersion"], stated, place / name)

    return of_case


Predicted = Callable[[str], Prediction]


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_bounds_of_the_log(name: str, predicted: Predicted, oracle: Document) -> None:
    start, stated = predicted(name).start, oracle(name)
    assert start.loads is stated["loaded"]
    assert start.refusals == ()
    assert start.recovery == ("abnormal" if stated["abortBefore"] else "normal")
    for state in (stated["afterLoad"], stated["afterStart"]):
        assert start.min_offset == state["commitlogMinOffset"]
        assert start.max_offset == state["commitlogMaxOffset"]
    if start.cut_offset is not None:
        assert start.cut_offset == stated["afterLoad"]["commitlogMaxOffset"]


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_units_of_every_queue(name: str, predicted: Predicted, oracle: Document) -> None:
    prediction, stated = predicted(name), oracle(name)
    queues = prediction.queues
    seen = set()
    for queue in stated["afterStart"]["queues"]:
        if not queue["maxOffset"]:
            continue  # 4.x lists queues of SCHEDULE_TOPIC_XXXX that were never written
        key = queue["topic"], queue["queueId"]
        found = queues[key]
        seen.add(key)
        assert (found.min_offset, found.max_offset) == (queue["minOffset"], queue["maxOffset"])
        assert prediction.units(found) == [tuple(unit[:4]) for unit in queue["units"]]
    assert seen == {key for key, queue in queues.items() if queue.max_offset}


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_files(name: str, predicted: Predicted, oracle: Document) -> None:
    start, after = predicted(name).start, oracle(name)["afterShutdown"]

    def ours(names: list[str]) -> set[str]:
        return {path for path in names if path.startswith(AREAS) and not path.endswith("/")}

    changes = {
        change: {item.file for item in start.files if item.change == change}
        for change in ("deleted", "created", "resized")
    }
    assert changes["deleted"] == ours(after["filesDeleted"])
    created = ours(after["filesCreated"])
    assert {path for path in changes["created"] if path[-1] != "?"} == {
        path for path in created if not path.startswith("index/")
    }
    assert sum(path[-1] == "?" for path in changes["created"]) == sum(
        path.startswith("index/") for path in created
    )
    sizes = {(item.file, item.size) for item in start.files if item.change == "resized"}
    assert sizes == {
        (item["path"], item["after"]) for item in after["filesResized"] if item["path"].startswith(AREAS)
    }


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_index_files(name: str, predicted: Predicted, oracle: Document) -> None:
    headers = oracle(name)["afterShutdown"]["indexHeaders"]
    files = predicted(name).start.index.files
    assert [(item.entry_count, item.begin_physical_offset, item.end_physical_offset) for item in files] == [
        (max(row["indexCount"], 1) - 1, row["beginPhyOffset"], row["endPhyOffset"]) for row in headers
    ]
    kept = [item.file.removeprefix("index/") for item in files if item.fate != "created"]
    assert kept == [row["name"] for row in headers][: len(kept)]


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_records_without_a_unit(name: str, predicted: Predicted, oracle: Document) -> None:
    """What the real code's walk shows and none of its units points to is what was said to be out of reach."""
    state = oracle(name)["afterStart"]
    if state["walkEnd"] != "max":
        pytest.skip("its walk ends before the log does")
    pointed = {(unit[1], queue["topic"]) for queue in state["queues"] for unit in queue["units"]}
    alone = [
        row["o"] for row in state["walk"] if row["f"] & 0xC in (0, 8) and (row["o"], row["t"]) not in pointed
    ]
    losses = predicted(name).start.losses
    assert losses.by_queue_count == len(alone)
    ranges = [(item.start_offset, item.end_offset) for item in losses.by_queue]
    assert all(any(start <= offset < end for start, end in ranges) for offset in alone)


@pytest.mark.parametrize("name", RESTART_NAMES)
def test_queue_offsets_given_out_twice(name: str, predicted: Predicted, oracle: Document) -> None:
    state = oracle(name)["afterStart"]
    if state["walkEnd"] != "max":
        pytest.skip("its walk ends before the log does")
    following: dict[Name, int] = {}
    for row in state["walk"]:
        if row["f"] & 0xC in (0, 8):
            key = row["t"], row["q"]
            following[key] = max(following.get(key, 0), row["n"] + 1)
    queues = predicted(name).queues
    given = {(queue["topic"], queue["queueId"]): queue["maxOffset"] for queue in state["queues"]}
    for key, offset in following.items():
        assert queues[key].reissued_count == max(offset - given.get(key, 0), 0)


LIVE_NAMES = [
    name for name in STORE_NAMES if name not in {"4.9.8-ghosttail"} and "kill" not in name.partition("-")[2]
]


@pytest.mark.parametrize("name", LIVE_NAMES)
def test_a_clean_store_is_taken_up_as_it_was_left(
    name: str, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    stated = manifest(name)
    prediction = predict(store_dir(name), released(name.partition("-")[0]), stated, tmp_path / "broker.conf")
    start, live = prediction.start, stated["phases"][-1]["live"]
    assert start.loads
    assert start.recovery == "normal"
    assert not start.harmful
    assert start.files == ()
    assert (start.min_offset, start.max_offset) == (live["commitlogMinOffset"], live["commitlogMaxOffset"])
    for queue in live["queues"]:
        if queue["units"]:
            found = prediction.queues[queue["topic"], queue["queueId"]]
            assert (found.min_offset, found.max_offset) == (queue["minOffset"], queue["maxOffset"])
            width = 3 if name in UNTOLD_TAGS else 4
            assert [unit[:width] for unit in prediction.units(found)] == [
                tuple(unit[:width]) for unit in queue["units"]
            ]


@pytest.mark.parametrize("name", ["4.9.8-ghosttail", "5.1.3-killed-restarted"])
def test_what_a_later_process_found(
    name: str, store_dir: Directory, manifest: Document, tmp_path: Path
) -> None:
    """Cut back to where that process took the log up, the store gives it the queues that it told of."""
    stated = manifest(name)
    found = stated["phases"][-1]["afterLoad"]
    root = Path(shutil.copytree(store_dir(name), tmp_path / "store"))
    cut = found["commitlogMaxOffset"]
    for path in sorted((root / "commitlog").iterdir()):
        keep = min(max(cut - int(path.name), 0), path.stat().st_size)
        data = path.read_bytes()[:keep]
        path.write_bytes(data.ljust(path.stat().st_size, b"\0"))
    start = predict(root, released(name.partition("-")[0]), stated, tmp_path / "broker.conf").start
    assert (start.cut_offset, start.max_offset) == (cut, cut)
    queues = {(queue.topic, queue.queue_id): queue for queue in start.queues}
    for queue in found["queues"]:
        if queue["maxOffset"]:
            predicted = queues[queue["topic"], queue["queueId"]]
            assert (predicted.min_offset, predicted.max_offset) == (queue["minOffset"], queue["maxOffset"])


def test_nothing_is_written(restart_dir: Directory, oracle: Document, tmp_path: Path) -> None:
    name = "4.9.8-multiseg--flip-older-file"
    root = restart_dir(name)

    def state() -> dict[str, tuple[int, str]]:
        return {
            os.path.join(directory, file): (  # noqa: PTH118
                Path(directory, file).stat().st_mtime_ns,
                hashlib.sha256(Path(directory, file).read_bytes()).hexdigest(),
            )
            for directory, _, files in os.walk(root)
            for file in files
        }

    before = state()
    start = predict(root, "4.9.8", oracle(name), tmp_path / "broker.conf").start
    assert start.harmful
    assert [item.change for item in start.files].count("deleted") == 6
    assert state() == before
