"""A store as the real code left it after its start, against what was predicted of that start."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rocketfsck.formats.consumequeue import UNIT
from rocketfsck.formats.indexfile import decode_header
from rocketfsck.formats.smallfiles import java_parse_long
from rocketfsck.query.start.model import Start
from rocketfsck.query.start.queues import AppendedColumns, QueueModel
from rocketfsck.query.start.simulate import simulate_start
from rocketfsck.store import open_store

from tests.oracle.broker import Answer
from tests.oracle.manifests import settings_of

AREAS = ("commitlog", "consumequeue", "batchconsumequeue", "index")

Name = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction, the units that it says are appended, and the files' sizes before the start."""

    start: Start
    appended: Mapping[Name, list[tuple[int, AppendedColumns]]]
    sizes: Mapping[str, int]

    @property
    def hangs(self) -> bool:
        """Whether the start is said never to end, so that it cannot be tried."""
        return any("waits for" in item.reason or "never ends" in item.reason for item in self.start.refusals)


@dataclass(slots=True)
class _Watch:
    appended: dict[Name, list[tuple[int, AppendedColumns]]] = field(default_factory=lambda: defaultdict(list))

    def __call__(self, queue: QueueModel, place: int, units: AppendedColumns) -> None:
        self.appended[queue.loaded.topic, queue.loaded.queue_id].append((place, units))


def write_conf(document: Mapping[str, Any], path: Path) -> Path:
    """A broker.conf of the geometry and settings that a store was made with."""
    settings = {**document["geometry"], **settings_of(document)}
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


def predict(root: Path, version: str, conf: Path) -> Predicted:
    watch = _Watch()
    store = open_store(root, version=version, broker_conf=conf, commitlog_paths=[root / "commitlog"])
    return Predicted(simulate_start(store, version, watch=watch), watch.appended, sizes_of(root))


def sizes_of(root: Path) -> dict[str, int]:
    """Every file of log, queues and index with its length; but those of databases."""
    return {
        os.path.relpath(path, root): path.stat().st_size
        for area in AREAS
        for path in (root / area).rglob("*")
        if path.is_file() and not (path.parent / "CURRENT").exists()
    }


def differences(predicted: Predicted, answer: Answer, root: Path) -> list[str]:
    """In what the prediction is wrong."""
    return [
        f"{what}: predicted {said}, was {was}"
        for what, said, was in _pairs(predicted, answer, root)
        if said != was
    ]


def _pairs(predicted: Predicted, answer: Answer, root: Path) -> Iterator[tuple[str, Any, Any]]:
    start = predicted.start
    yield "loaded", start.loads, answer.loaded
    yield from _files(predicted, sizes_of(root))
    if answer.before is None:
        return
    yield "bounds", (start.min_offset, start.max_offset), (answer.before.min_offset, answer.before.max_offset)
    queues = {(item.topic, item.queue_id): item for item in start.queues if item.max_offset}
    real = {name: (item.min_offset, item.max_offset) for name, item in answer.before.queues.items()}
    yield (
        "queues",
        {name: (item.min_offset, item.max_offset) for name, item in queues.items()},
        {name: bounds for name, bounds in real.items() if bounds[1]},
    )
    for name, runs in predicted.appended.items():
        in_files = (root / "consumequeue" / name[0] / str(name[1])).is_dir()  # not in a database
        if queues[name].kind == "file" and in_files:
            stated: dict[int, tuple[int, ...]] = {}
            found = _units_on_disk(root, name)
            for place, run in runs:
                units = zip(run.offset, run.size, run.tags, strict=True)
                stated.update((place + number, tuple(map(int, unit))) for number, unit in enumerate(units))
            yield f"units of {name}", stated, {place: found.get(place) for place in stated}
    yield from _index(start, root)


def _is_seen(file: str) -> bool:
    return file.partition("/")[0] in AREAS


def _files(predicted: Predicted, after: Mapping[str, int]) -> Iterator[tuple[str, Any, Any]]:
    before, changes = predicted.sizes, predicted.start.files
    by_change = {
        change: {item.file: item.size for item in changes if item.change == change and _is_seen(item.file)}
        for change in ("deleted", "created", "resized")
    }
    again = by_change["deleted"].keys() & by_change["created"].keys()
    yield "deleted", by_change["deleted"].keys() - again, set(before) - set(after)
    created = set(after) - set(before)
    named = {name for name in by_change["created"] if name[-1] != "?"} - again
    yield "created", named, {name for name in created if not name.startswith("index/")}
    count = sum(name[-1] == "?" for name in by_change["created"])
    if count < 2:  # two that are made within a millisecond have one name
        yield "index files created", count, len(created) - len(named & created)
    yield (
        "resized",
        by_change["resized"] | {name: by_change["created"][name] for name in again},
        {name: size for name, size in after.items() if before.get(name, size) != size},
    )


def _units_on_disk(root: Path, name: Name) -> dict[int, tuple[int, ...]]:
    """By their numbers in the queue."""
    return {
        int(path.name) // UNIT.size + number: (int(row["offset"]), int(row["size"]), int(row["tagsCode"]))
        for path in (root / "consumequeue" / name[0] / str(name[1])).iterdir()
        for number, row in enumerate(np.frombuffer(path.read_bytes(), UNIT.dtype()))
    }


def _index(start: Start, root: Path) -> Iterator[tuple[str, Any, Any]]:
    found = []
    for path in sorted((root / "index").iterdir()) if (root / "index").is_dir() else ():
        if java_parse_long(path.name) is not None:
            header = decode_header(path.read_bytes()[:40])
            found.append((header.entry_count, header.begin_physical_offset, header.end_physical_offset))
    stated = [
        (item.entry_count, item.begin_physical_offset, item.end_physical_offset) for item in start.index.files
    ]
    later = any(end >= start.max_offset for _, _, end in found)  # messages that came after the start
    if not later and sum(item.fate == "created" for item in start.index.files) < 2:
        yield "index files", sorted(stated), sorted(found)
