"""The options of `rocketfsck write` that shape a store, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.cli.options import (
    commitlog_file_size_option,
    index_options,
    no_sync_option,
    start_offset_option,
    time_zone_option,
)
from rocketfsck.cli.params import broker_conf_option, broker_version_option
from rocketfsck.cli.paramtypes import ByteSize

if TYPE_CHECKING:
    from rocketfsck.writer.options import WriteOptions

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
    from rocketfsck.store.model import Geometry
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
