"""Makes stores of another kind: a plain one of DLedger's, one with files of other sizes, a controller's.

Cuts a part out of a store: topics, a queue, a time window, as a small store with the same offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands import shared
from rocketfsck.common.options import STORE, Argument, Option
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.convert.model import ConvertDocument, ExtractDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractCommand:
    """What is cut out of which store, and where it goes."""

    path: shared.StorePlace
    into: shared.Into
    topics: Annotated[
        tuple[str, ...], Option("Only this topic; may be given several times.", names=("--topic",))
    ] = ()
    queue_id: Annotated[int | None, Option("Only this queueId.", names=("--queue",), metavar="ID")] = None
    times: shared.WantedTimes = field(default_factory=shared.WantedTimes)
    commitlog_file_size: shared.CommitlogFileSize = None
    delay_levels: shared.DelayLevels = None
    no_sync: shared.NoSync = False
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)


def extract(command: ExtractCommand) -> ExtractDocument:
    """Write the small store. Raises UsageError, StoreError."""
    from rocketfsck.repair.convert.chosen import Wanted
    from rocketfsck.repair.convert.extract import ExtractOptions, extract_store

    times, stated = command.times, command.stated
    if not command.topics and times.begin is None and times.end is None:
        raise UsageError("say what to cut out: --topic, --begin or --end")
    if command.queue_id is not None and len(set(command.topics)) != 1:
        raise UsageError("--queue needs one --topic")
    shared.refuse_inside(command.into, (command.path,))
    facts = {**stated.facts, "delay_levels": command.delay_levels}
    store = shared.open_named_store("extract", command.path, **facts)
    options = ExtractOptions(
        Wanted(frozenset(command.topics), command.queue_id, times.begin, times.end),
        version=stated.broker_version,
        broker_conf=stated.broker_conf,
        delay_levels=command.delay_levels,
        file_size=command.commitlog_file_size,
        sync=not command.no_sync,
    )
    return extract_store(store, command.into, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """What is made of which stores, and where it goes."""

    what: Annotated[Literal["plain", "geometry", "files", "controller"], Argument()]
    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE)]
    into: shared.Into
    commitlog_file_size: shared.CommitlogFileSize = None
    consumequeue_file_size: shared.ConsumequeueFileSize = None
    delay_levels: shared.DelayLevels = None
    no_sync: shared.NoSync = False
    stated: shared.StoreOptions = field(default_factory=shared.StoreOptions)


def convert(command: ConvertCommand) -> ConvertDocument:
    """Write what was asked for. Raises UsageError, StoreError."""
    from rocketfsck.pipeline.sources import broker_name, demand_unique
    from rocketfsck.repair.convert.model import SCHEMA_VERSION, ConvertDocument
    from rocketfsck.repair.convert.whole import ConvertOptions, convert_store, convert_to_controller

    shared.refuse_inside(command.into, command.paths)
    stated, sync = command.stated, not command.no_sync
    if command.what == "controller":
        names = tuple(broker_name(str(path), None) for path in command.paths)
        demand_unique(names, tuple(map(str, command.paths)))
        stores = [
            shared.open_named_store("convert controller", path, **stated.facts) for path in command.paths
        ]
        joined = convert_to_controller(stores, names, command.into, sync=sync)
        return ConvertDocument(SCHEMA_VERSION, "rocketfsck.convert", "controller", controller=joined)
    name = f"convert {command.what}"
    if len(command.paths) != 1:
        which = ": the node whose log is the longest" if command.what == "plain" else ""
        raise UsageError(f"{name} takes one store{which}")
    sizes = (command.commitlog_file_size, command.consumequeue_file_size)
    if command.what == "geometry" and sizes == (None, None):
        raise UsageError("say the new size: --commitlog-file-size or --consumequeue-file-size")
    facts = {**stated.facts, "delay_levels": command.delay_levels}
    store = shared.open_named_store(name, command.paths[0], **facts)
    options = ConvertOptions(
        command.what, stated.broker_version, stated.broker_conf, command.delay_levels, *sizes, sync=sync
    )
    made = convert_store(store, command.into, options)
    return ConvertDocument(SCHEMA_VERSION, "rocketfsck.convert", command.what, converted=made)
