"""Builds a salvaged store: the log, then what follows from it, then a check.

What is known of the store that was salvaged, its sizes, version and `config/`, holds for the new one.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rocketfsck.formats.checkpoint import encode_checkpoint
from rocketfsck.progress import phase
from rocketfsck.query.start.verdict import versions_of
from rocketfsck.repair.apply.startjudge import predict_output
from rocketfsck.repair.salvage.write import LogWriter
from rocketfsck.store.circumstances import Source
from rocketfsck.store.model import Store
from rocketfsck.store.opening import open_store
from rocketfsck.store.reading import FileReader
from rocketfsck.verify.options import CheckOptions
from rocketfsck.verify.run import check_store
from rocketfsck.writer.disk import fileops
from rocketfsck.writer.disk.confined import place_at

if TYPE_CHECKING:
    from rocketfsck.formats.dialect import Version
    from rocketfsck.query.start.verdict import StartVerdict
    from rocketfsck.repair.salvage.ledger import Salvage
    from rocketfsck.verify.report import Report


def fill_store(building: Path, salvage: Salvage) -> tuple[Report, tuple[StartVerdict, ...]]:
    """Write everything below a directory; what a check of it finds, and what brokers will do with it.

    Raises StoreError.
    """
    from rocketfsck.repair.build import build_index, build_queues
    from rocketfsck.repair.build.checkpoint import build_checkpoint
    from rocketfsck.repair.build.config import build_topics
    from rocketfsck.repair.build.files import take_owner

    story = salvage.story
    total = int(story.found["total_size"][story.placement.rows].sum())

    version = salvage.version or "4.0.0"  # of fences that need no property CRC
    with (
        phase("writing the commit log", total) as at,
        LogWriter(building, story.sources, story.found, story.placement, version) as writer,
    ):
        writer.write(at)
    if salvage.origin is not None:
        _copy_config(salvage.origin, building)
    store = _open(building, salvage)
    build_queues(store, building)
    build_index(store, building)
    store = _open(building, salvage)
    fileops.write_new(place_at(building / "checkpoint"), encode_checkpoint(build_checkpoint(store)))
    topics = building / "config" / "topics.json"
    if not topics.exists():
        content = build_topics(store)
        if content is not None:
            fileops.make_directories(place_at(topics.parent))
            fileops.write_new(place_at(topics), content)
    if salvage.origin is not None:
        take_owner(building, salvage.origin.root)
    store = _open(building, salvage)
    report = check_store(store, CheckOptions(level="full"))
    return report, predict_output(store, _versions(salvage, store), losses=True)


def _versions(salvage: Salvage, store: Store) -> tuple[Version, ...]:
    """Those that the new store may be started with: as named, or all that may have written the old one."""
    if salvage.options.version is not None:
        return (store.dialect.version,)
    return versions_of(store if salvage.origin is None else salvage.origin)


def _copy_config(origin: Store, building: Path) -> None:
    for file in origin.configs:
        target = place_at(building / file.relative)
        fileops.make_directories(target.parent)
        with FileReader(file.location) as reader:
            fileops.copy_content(reader, target)


def _open(building: Path, salvage: Salvage) -> Store:
    """The store being built, with the sizes and the version of where it came from."""
    options, origin = salvage.options, salvage.origin
    store = open_store(
        building,
        broker_conf=options.broker_conf,
        version=salvage.version or None,
        delay_levels=options.delay_levels or (None if origin is None else origin.delay_levels),
    )
    if origin is None:
        return store
    names = ("consumequeue_file_size", "batch_file_size", "ext_file_size", "slot_count", "entry_count")
    taken = {name: getattr(origin.geometry, name) for name in names if store.geometry.source(name) != "given"}
    inferred: dict[str, Source] = dict.fromkeys(taken, "inferred")
    sources = {**store.geometry.sources, **inferred}
    return replace(store, geometry=replace(store.geometry, **taken, sources=sources))
