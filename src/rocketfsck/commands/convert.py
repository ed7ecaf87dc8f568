"""Makes stores of another kind: a plain one of DLedger's, one with files of other sizes, a controller's."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rocketfsck.commands.shared import (
    CommitlogFileSize,
    ConsumequeueFileSize,
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

    what: Annotated[Literal["plain", "geometry", "files", "controller"], Argument()]
    paths: Annotated[tuple[Path, ...], Argument(metavar="STORE…", kind=STORE)]
    into: Into
    commitlog_file_size: CommitlogFileSize = None
    consumequeue_file_size: ConsumequeueFileSize = None
    delay_levels: DelayLevels = None
    no_sync: NoSync = False
    stated: StoreOptions = field(default_factory=StoreOptions)


def convert(command: ConvertCommand) -> ConvertDocument:
    """Write what was asked for. Raises UsageError, StoreError."""
    from rocketfsck.pipeline.sources import broker_name, demand_unique
    from rocketfsck.repair.convert.controller import convert_to_controller
    from rocketfsck.repair.convert.model import SCHEMA_VERSION, ConvertDocument
    from rocketfsck.repair.convert.whole import ConvertOptions, convert_store

    refuse_inside(command.into, command.paths)
    stated, sync = command.stated, not command.no_sync
    if command.what == "controller":
        names = tuple(broker_name(str(path), None) for path in command.paths)
        demand_unique(names, tuple(map(str, command.paths)))
        stores = [open_named_store("convert controller", path, **stated.facts) for path in command.paths]
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
    store = open_named_store(name, command.paths[0], **facts)
    options = ConvertOptions(
        command.what, stated.broker_version, stated.broker_conf, command.delay_levels, *sizes, sync=sync
    )
    made = convert_store(store, command.into, options)
    return ConvertDocument(SCHEMA_VERSION, "rocketfsck.convert", command.what, converted=made)
