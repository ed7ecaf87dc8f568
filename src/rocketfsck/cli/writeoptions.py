"""The options of `rocketfsck write` that shape a store, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rocketfsck.writer.options import WriteOptions

    _Size = click.ParamType[int]
else:  # generic only from click 8.2 on
    _Size = click.ParamType

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_SIZE = re.compile(r"(\d{1,19})\s*(?:([KMGT])(?:(i)?B)?|B)?", re.ASCII | re.IGNORECASE)
_EXPONENTS = {"K": 1, "M": 2, "G": 3, "T": 4}
GEOMETRY_FIELDS = (
    "commitlog_file_size",
    "consumequeue_file_size",
    "batch_file_size",
    "ext_file_size",
    "slot_count",
    "entry_count",
)


class ByteSize(_Size):
    """A number of bytes: `4096`, `64KiB`, `4GiB`, or `10MB` for powers of ten."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no size like 4096, 64KiB or 4GiB", param, ctx)
        unit = (match[2] or "").upper()
        # `K` alone is what people mean by Ki; `KB` is a power of ten.
        base = 1000 if unit and match[3] is None and str(value).strip()[-1] in "bB" else 1024
        factor: int = base ** _EXPONENTS.get(unit, 0)
        return int(match[1]) * factor


def _option(name: str, text: str, **more: Any) -> Callable[[Decorated], Decorated]:
    return click.option(name, help=text, **more)


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    _option(
        "--broker-version", "The broker to write as.", metavar="VERSION", default="5.3.3", show_default=True
    ),
    _option(
        "--broker-conf",
        "The broker's settings: file sizes, features, delay levels.",
        type=click.Path(path_type=Path, dir_okay=False),
    ),
    _option("--commitlog-file-size", "Bytes of a commit log file; default 1GiB.", type=ByteSize()),
    _option("--consumequeue-file-size", "Bytes of a consume queue file; default 6000000.", type=ByteSize()),
    _option("--batch-file-size", "Bytes of a batch consume queue file; default 13800000.", type=ByteSize()),
    _option("--ext-file-size", "Bytes of a consume queue ext file; default 48MiB.", type=ByteSize()),
    _option("--slots", "Hash slots of an index file; default 5000000.", type=int, metavar="N"),
    _option("--entries", "Entries of an index file; default 20000000.", type=int, metavar="N"),
    _option("--start-offset", "Physical offset of the first record.", type=ByteSize(), metavar="OFFSET"),
    _option("--time-zone", "The broker's time zone, in which index files are named.", default="UTC"),
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
    _option("--no-sync", "Do not wait until the bytes are on the disk.", is_flag=True),
)


def shape_options(function: Decorated) -> Decorated:
    """Everything that shapes a store beside its messages."""
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
    sizes = {
        "slot_count": given["slots"],
        "entry_count": given["entries"],
        **{name: given.get(name) for name in GEOMETRY_FIELDS[:4]},
    }
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
