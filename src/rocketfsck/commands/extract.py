"""Cuts a part out of a store: topics, a queue, a time window, as a small store with the same offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from rocketfsck.commands.shared import (
    CommitlogFileSize,
    DelayLevels,
    Into,
    NoSync,
    StoreOptions,
    StorePlace,
    WantedTimes,
    open_named_store,
    refuse_inside,
)
from rocketfsck.common.options import Option
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.convert.model import ExtractDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractCommand:
    """What is cut out of which store, and where it goes."""

    path: StorePlace
    into: Into
    topics: Annotated[
        tuple[str, ...], Option("Only this topic; may be given several times.", names=("--topic",))
    ] = ()
    queue_id: Annotated[int | None, Option("Only this queueId.", names=("--queue",), metavar="ID")] = None
    times: WantedTimes = field(default_factory=WantedTimes)
    commitlog_file_size: CommitlogFileSize = None
    delay_levels: DelayLevels = None
    no_sync: NoSync = False
    stated: StoreOptions = field(default_factory=StoreOptions)


def extract(command: ExtractCommand) -> ExtractDocument:
    """Write the small store. Raises UsageError, StoreError."""
    from rocketfsck.repair.convert.chosen import Wanted
    from rocketfsck.repair.convert.extract import ExtractOptions, extract_store

    times, stated = command.times, command.stated
    if not command.topics and times.begin is None and times.end is None:
        raise UsageError("say what to cut out: --topic, --begin or --end")
    if command.queue_id is not None and len(set(command.topics)) != 1:
        raise UsageError("--queue needs one --topic")
    refuse_inside(command.into, (command.path,))
    facts = {**stated.facts, "delay_levels": command.delay_levels}
    store = open_named_store("extract", command.path, **facts)
    options = ExtractOptions(
        Wanted(frozenset(command.topics), command.queue_id, times.begin, times.end),
        version=stated.broker_version,
        broker_conf=stated.broker_conf,
        delay_levels=command.delay_levels,
        file_size=command.commitlog_file_size,
        sync=not command.no_sync,
    )
    return extract_store(store, command.into, options)
