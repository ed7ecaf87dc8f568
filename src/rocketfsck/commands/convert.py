"""Makes stores of another kind: a plain one of DLedger's, a controller's of a master and its slaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.shared import (
    CommitlogFileSize,
    DelayLevels,
    Into,
    NoSync,
    StoreOptions,
    open_named_store,
    refuse_inside,
)
from rocketfsck.common.options import STORE, Argument
from rocketfsck.errors import UsageError

if TYPE_CHECKING:
    from rocketfsck.repair.convert.model import ConvertDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertCommand:
    """What is made of which stores, and where it goes."""

    what: Annotated[Literal["plain", "controller"], Argument()]
    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE)]
    into: Into
    commitlog_file_size: CommitlogFileSize = None
    delay_levels: DelayLevels = None
    no_sync: NoSync = False
    stated: StoreOptions = field(default_factory=StoreOptions)


def convert(command: ConvertCommand) -> ConvertDocument:
    """Write what was asked for. Raises UsageError, StoreError."""
    from rocketfsck.pipeline.sources import broker_name, demand_unique
    from rocketfsck.repair.convert.controller import convert_to_controller
    from rocketfsck.repair.convert.model import SCHEMA_VERSION, ConvertDocument
    from rocketfsck.repair.convert.plain import PlainOptions, convert_to_plain

    refuse_inside(command.into, command.paths)
    stated, sync = command.stated, not command.no_sync
    if command.what == "controller":
        names = tuple(broker_name(str(path), None) for path in command.paths)
        demand_unique(names, tuple(map(str, command.paths)))
        stores = [open_named_store("convert controller", path, **stated.facts) for path in command.paths]
        joined = convert_to_controller(stores, names, command.into, sync=sync)
        return ConvertDocument(SCHEMA_VERSION, "rocketfsck.convert", "controller", controller=joined)
    if len(command.paths) != 1:
        raise UsageError("convert plain takes one store: the node whose log is the longest")
    facts = {**stated.facts, "delay_levels": command.delay_levels}
    store = open_named_store("convert plain", command.paths[0], **facts)
    options = PlainOptions(
        version=stated.broker_version,
        broker_conf=stated.broker_conf,
        delay_levels=command.delay_levels,
        file_size=command.commitlog_file_size,
        sync=sync,
    )
    made = convert_to_plain(store, command.into, options)
    return ConvertDocument(SCHEMA_VERSION, "rocketfsck.convert", "plain", plain=made)
