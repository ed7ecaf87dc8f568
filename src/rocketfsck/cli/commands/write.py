"""`rocketfsck write`: a store as a broker writes it, from messages or from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.cli.base import Command
from rocketfsck.cli.options import (
    commitlog_file_size_option,
    index_options,
    into_option,
    no_sync_option,
    seed_option,
    start_offset_option,
    time_zone_option,
)
from rocketfsck.cli.params import broker_conf_option, broker_version_option
from rocketfsck.cli.paramtypes import ByteSize, OutputPath, Timestamp
from rocketfsck.cli.settings import common_options
from rocketfsck.cli.show.text import byte_size, count_of, visible
from rocketfsck.common.privacy import limit_to
from rocketfsck.errors import EXIT_CLEAN, UsageError

if TYPE_CHECKING:
    from rocketfsck.writer.making import MadeStore
    from rocketfsck.writer.manifest import ManifestLevel
    from rocketfsck.writer.options import WriteOptions

# The options of `rocketfsck write` that shape a store, and what becomes of them.

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

GEOMETRY_FIELDS = (
    "commitlog_file_size",
    "consumequeue_file_size",
    "batch_file_size",
    "ext_file_size",
    "slot_count",
    "entry_count",
)


def _option(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    return click.option(name, help=text, **more)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    broker_version_option("5.3.3"),
    broker_conf_option,
    commitlog_file_size_option,
    _option("--consumequeue-file-size", "Bytes of a consume queue file; default 6000000.", type=ByteSize()),
    _option("--batch-file-size", "Bytes of a batch consume queue file; default 13800000.", type=ByteSize()),
    _option("--ext-file-size", "Bytes of a consume queue ext file; default 48MiB.", type=ByteSize()),
    index_options,
    start_offset_option,
    time_zone_option,
    _option("--batch-topic", "A topic of inner batches; may be given several times.", multiple=True),
    _option("--consumequeue-ext", "Write consume queue ext units.", is_flag=True),
    _option("--multi-dispatch", "Dispatch messages to the queues that they list.", is_flag=True),
    _option("--property-crc", "Append a CRC to every record's properties.", is_flag=True),
    _option("--no-index", "Write no index files.", is_flag=True),
    _option(
        "--end-state",
        "How the broker ended: stopped in order, or killed.",
        type=click.Choice(["clean", "killed"]),
        default="clean",
        show_default=True,
    ),
    no_sync_option,
)


def shape_options(function: Decorated) -> Decorated:
    """Everything that shapes a store, apart from its messages."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def write_options(**given: Any) -> WriteOptions:
    """The writer's options from those of `shape_options`: the command line's word goes over broker.conf's.

    Raises UsageError for what makes no sense, StoreError for a broker.conf that cannot be read.
    """
    from rocketfsck.store.circumstances import Geometry
    from rocketfsck.writer.options import EndState, WriteOptions, options_of_settings

    version = given["broker_version"]
    settings: dict[str, Any] = {}
    if given["broker_conf"] is not None:
        from rocketfsck.store.settings import read_settings

        settings = options_of_settings(read_settings(given["broker_conf"]), version)
    sizes = {name: given.get(name) for name in GEOMETRY_FIELDS}
    geometry = settings.pop("geometry", Geometry())
    geometry = replace(geometry, **{name: size for name, size in sizes.items() if size is not None})
    for name in ("consumequeue_ext", "multi_dispatch"):
        settings[name] = given[name] or settings.get(name, False)
    settings["append_property_crc"] = given["property_crc"] or settings.get("append_property_crc", False)
    if given["no_index"]:
        settings["message_index"] = False
    return WriteOptions(
        version=version,
        geometry=geometry,
        end_state=EndState(given["end_state"]),
        time_zone=given["time_zone"],
        start_offset=given["start_offset"] or 0,
        batch_topics=frozenset(given["batch_topic"]),
        sync=not given["no_sync"],
        **settings,
    )


@click.command(cls=Command)
@click.argument("input_path", metavar="[INPUT]", required=False, type=click.Path(path_type=Path))
@into_option(required=True)
@click.option(
    "--synth",
    metavar="MIX",
    is_flag=False,
    flag_value="plain",
    help="Synthesise messages: plain (the default), mixed, everything, or NAME=VALUE,… (see the guide).",
)
@seed_option
@click.option("--size", type=ByteSize(), help="Synthesise messages until the commit log has this size.")
@click.option("--messages", type=click.IntRange(0), metavar="N", help="Synthesise this number of messages.")
@click.option(
    "--start-time",
    type=Timestamp(),
    default="2024-01-01",
    show_default=True,
    help="Store time of the first message, if it has none of its own.",
)
@click.option(
    "--manifest",
    "manifest_level",
    type=click.Choice(["none", "brief", "hashes", "full"]),
    default="brief",
    show_default=True,
    help="Manifest next to the store: queues, offsets and CRCs of all files; also SHA-256; also every "
    "message.",
)
@click.option(
    "--manifest-file",
    type=OutputPath(),
    help="File of the manifest; default: NAME.manifest.json next to the store.",
)
@shape_options
@common_options
def command(
    input_path: Path | None,
    into: Path,
    synth: str | None,
    seed: int | None,
    size: int | None,
    messages: int | None,
    start_time: int,
    manifest_level: str,
    manifest_file: Path | None,
    **shape: Any,
) -> int:
    """Write a store into a new directory, byte for byte as a broker would.

    The messages come from INPUT (JSON lines, Parquet or Arrow; - for JSON lines on standard input), or
    --synth synthesises them. After an error or an interruption, no part of the store is left.
    """
    from rocketfsck.writer.manifest import ManifestLevel

    if (input_path is None) == (synth is None):
        raise UsageError("give either INPUT or --synth")
    if input_path is not None:
        limit_to(input_path)
    options = write_options(**shape)
    level = ManifestLevel(manifest_level)
    if input_path is not None:
        if seed is not None or size is not None or messages is not None:
            raise UsageError("--seed, --size and --messages are for --synth")
        made = _from_input(input_path, into, options, start_time, level, manifest_file)
    else:
        assert synth is not None
        made = _from_seed(
            synth,
            into,
            options,
            (seed or 0, size, messages),
            start_time,
            level,
            manifest_file,
        )
    _tell(made, into)
    return EXIT_CLEAN


def _from_input(
    input_path: Path,
    into: Path,
    options: WriteOptions,
    start_time: int,
    level: ManifestLevel,
    manifest_file: Path | None,
) -> MadeStore:
    from rocketfsck.writer.input.rows import open_messages
    from rocketfsck.writer.making import fill_from, make_store

    with open_messages(input_path, start_time) as source:
        return make_store(
            into,
            fill_from(source),
            options,
            {"input": input_path.name},
            manifest=level,
            manifest_path=manifest_file,
        )


def _from_seed(
    mix: str,
    into: Path,
    options: WriteOptions,
    limits: tuple[int, int | None, int | None],
    start_time: int,
    level: ManifestLevel,
    manifest_file: Path | None,
) -> MadeStore:
    from rocketfsck.writer.synth import parse_mix, synthesize

    seed, size, message_count = limits
    return synthesize(
        into,
        parse_mix(mix),
        options,
        seed=seed,
        size=size,
        message_count=message_count,
        start_time=start_time,
        manifest=level,
        manifest_path=manifest_file,
    )


def _tell(made: MadeStore, into: Path) -> None:
    store = made.store
    topics = len({queue.topic for queue in store.queues})
    print(
        f"{visible(str(into))}: {count_of(store.message_count, 'message')}, "
        f"{count_of(store.record_count, 'record')}, {byte_size(store.max_offset - store.min_offset)} of "
        f"commit log; {count_of(topics, 'topic')}, {count_of(len(store.queues), 'queue')}, "
        f"{count_of(len(store.index_files), 'index file')}; as {store.version}"
    )
    for path in (made.manifest, made.messages):
        if path is not None:
            print(f"  {visible(str(path))}")
    print(f"Next: rocketfsck check {visible(str(into))}")
