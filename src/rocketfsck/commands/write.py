"""Writes a store as a broker would, from messages or from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rocketfsck.commands.shared import (
    BrokerConf,
    CommitlogFileSize,
    ConsumequeueFileSize,
    EntryCount,
    Into,
    NoSync,
    Seed,
    SlotCount,
    StartOffset,
    TimeZone,
)
from rocketfsck.common.options import WRITE_FILE, Argument, Option, PathKind
from rocketfsck.common.outputs import limit_to
from rocketfsck.errors import UsageError
from rocketfsck.formats.dialect import WRITTEN_NAME

if TYPE_CHECKING:
    from rocketfsck.writer.options import WriteOptions
    from rocketfsck.writer.writing import MadeStore

GEOMETRY_FIELDS = (
    "commitlog_file_size",
    "consumequeue_file_size",
    "batch_file_size",
    "ext_file_size",
    "slot_count",
    "entry_count",
)


@dataclass(frozen=True, slots=True)
class StoreShape:
    """Everything that shapes a store, apart from its messages."""

    broker_version: Annotated[
        str,
        Option(
            "Version of the broker that wrote the store, like 4.9.8.",
            metavar="VERSION",
            shows_default=WRITTEN_NAME,
        ),
    ] = WRITTEN_NAME
    broker_conf: BrokerConf = None
    commitlog_file_size: CommitlogFileSize = None
    consumequeue_file_size: ConsumequeueFileSize = None
    batch_file_size: Annotated[
        int | None, Option("Bytes of a batch consume queue file; default 13800000.", kind="size")
    ] = None
    ext_file_size: Annotated[
        int | None, Option("Bytes of a consume queue ext file; default 48MiB.", kind="size")
    ] = None
    slot_count: SlotCount = None
    entry_count: EntryCount = None
    start_offset: StartOffset = None
    time_zone: TimeZone = "UTC"
    batch_topic: Annotated[
        tuple[str, ...], Option("A topic of inner batches; may be given several times.")
    ] = ()
    consumequeue_ext: Annotated[bool, Option("Write consume queue ext units.")] = False
    multi_dispatch: Annotated[bool, Option("Dispatch messages to the queues that they list.")] = False
    property_crc: Annotated[bool, Option("Append a CRC to every record's properties.")] = False
    no_index: Annotated[bool, Option("Write no index files.")] = False
    end_state: Annotated[
        Literal["clean", "killed"],
        Option("How the broker ended: stopped in order, or killed.", shows_default=True),
    ] = "clean"
    no_sync: NoSync = False

    def options(self) -> WriteOptions:
        """The writer's options: what is said here goes over broker.conf.

        Raises UsageError for what makes no sense, StoreError for a broker.conf that cannot be read.
        """
        from rocketfsck.store.circumstances import Geometry
        from rocketfsck.writer.options import EndState, WriteOptions, options_of_settings

        settings: dict[str, Any] = {}
        if self.broker_conf is not None:
            from rocketfsck.store.circumstances import read_settings

            settings = options_of_settings(read_settings(self.broker_conf), self.broker_version)
        sizes = {name: getattr(self, name) for name in GEOMETRY_FIELDS}
        geometry = settings.pop("geometry", Geometry())
        geometry = replace(geometry, **{name: size for name, size in sizes.items() if size is not None})
        for name in ("consumequeue_ext", "multi_dispatch"):
            settings[name] = getattr(self, name) or settings.get(name, False)
        settings["append_property_crc"] = self.property_crc or settings.get("append_property_crc", False)
        if self.no_index:
            settings["message_index"] = False
        return WriteOptions(
            version=self.broker_version,
            geometry=geometry,
            end_state=EndState(self.end_state),
            time_zone=self.time_zone,
            start_offset=self.start_offset or 0,
            batch_topics=frozenset(self.batch_topic),
            sync=not self.no_sync,
            **settings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCommand:
    """Where messages come from, and the store that is made of them."""

    input_path: Annotated[Path | None, Argument(metavar="[INPUT]", kind=PathKind(use="file"))] = None
    into: Into
    synth: Annotated[
        str | None,
        Option(
            "Synthesise messages: plain (the default), mixed, everything, or NAME=VALUE,… (see the guide).",
            metavar="MIX",
            alone="plain",
        ),
    ] = None
    seed: Seed = None
    size: Annotated[
        int | None, Option("Synthesise messages until the commit log has this size.", kind="size")
    ] = None
    messages: Annotated[int | None, Option("Synthesise this number of messages.", metavar="N", least=0)] = (
        None
    )
    start_time: Annotated[
        int,
        Option(
            "Store time of the first message, if it has none of its own.",
            kind="time",
            typed_default="2024-01-01",
            shows_default=True,
        ),
    ] = 1_704_067_200_000
    manifest_level: Annotated[
        Literal["none", "brief", "hashes", "full"],
        Option(
            "Manifest next to the store: queues, offsets and CRCs of all files; also SHA-256; also every "
            "message.",
            names=("--manifest",),
            shows_default=True,
        ),
    ] = "brief"
    manifest_file: Annotated[
        Path | None,
        Option("File of the manifest; default: NAME.manifest.json next to the store.", kind=WRITE_FILE),
    ] = None
    shape: StoreShape = field(default_factory=StoreShape)


def write(command: WriteCommand) -> MadeStore:
    """Write a store. Raises UsageError, StoreError."""
    from rocketfsck.writer.input.rows import open_messages
    from rocketfsck.writer.manifest import ManifestLevel
    from rocketfsck.writer.synth import parse_mix, synthesize
    from rocketfsck.writer.writing import fill_from, make_store

    source = command.input_path
    if (source is None) == (command.synth is None):
        raise UsageError("give either INPUT or --synth")
    if source is not None:
        limit_to(source)
    options, level = command.shape.options(), ManifestLevel(command.manifest_level)
    if source is None:
        assert command.synth is not None
        return synthesize(
            command.into,
            parse_mix(command.synth),
            options,
            seed=command.seed or 0,
            size=command.size,
            message_count=command.messages,
            start_time=command.start_time,
            manifest=level,
            manifest_path=command.manifest_file,
        )
    if command.seed is not None or command.size is not None or command.messages is not None:
        raise UsageError("--seed, --size and --messages are for --synth")
    with open_messages(source, command.start_time) as messages:
        return make_store(
            command.into,
            fill_from(messages),
            options,
            {"input": source.name},
            manifest=level,
            manifest_path=command.manifest_file,
        )
