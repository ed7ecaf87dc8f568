"""Parameter types and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocketfsck.cli.output import FORMATS

if TYPE_CHECKING:
    _Int = click.ParamType[int]
    _Pair = click.ParamType[tuple[int, int]]
    _Float = click.ParamType[float]
else:  # generic only from click 8.2 on
    _Int = _Pair = _Float = click.ParamType

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

_INT64 = 1 << 63
_RANGE = re.compile(r"(\d*):(\d*)|(\d+)", re.ASCII)


class Timestamp(_Int):
    """A point in time: milliseconds since 1970, or an ISO 8601 date and time (UTC where it names no zone)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        if re.fullmatch(r"-?\d{1,19}", text, re.ASCII):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither milliseconds nor a date like 2024-05-17T08:30:00", param, ctx)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


class NumberRange(_Pair):
    """`N`, or `FROM:TO` with either end left out; half-open."""

    name = "N|FROM:TO"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        match = _RANGE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is neither N nor FROM:TO", param, ctx)
        if match[3]:
            return int(match[3]), int(match[3]) + 1
        return int(match[1] or 0), int(match[2] or _INT64)


class Duration(_Float):
    """Seconds, or a number with s, m or h."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|min)?", str(value), re.ASCII)
        if match is None:
            self.fail(f"{value!r} is no duration like 90, 90s, 5m or 2h", param, ctx)
        return float(match[1]) * {"m": 60, "min": 60, "h": 3600}.get(match[2] or "s", 1)


class StorePath(click.Path):
    """A file or directory, or the URL of one; that it exists is for the store to say.

    `local` says why a URL will not do, in words: what is done needs a directory of this machine.
    """

    def __init__(self, local: str | None = None, **kwargs: Any) -> None:
        super().__init__(path_type=Path, **kwargs)
        self.local = local

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            from rocketfsck.store.places.locations import locate, refuse_remote

            place = locate(value)
            if self.local is not None:
                refuse_remote(place, self.local)
            return place
        return super().convert(value, param, ctx)


def path_argument(name: str, local: str | None = None) -> Callable[[Decorated], Decorated]:
    """An existing file or directory, or the URL of one where `local` (see `StorePath`) is not given."""
    return click.argument(name, type=StorePath(local))


def storage_option(function: Decorated) -> Decorated:
    """`--storage-option`, for all URLs of a command line."""

    def keep(ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> None:
        if values:
            from rocketfsck.store.places.locations import read_options, set_default_options

            set_default_options(read_options(values))
            ctx.call_on_close(lambda: set_default_options({}))

    return click.option(
        "--storage-option",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        is_eager=True,
        callback=keep,
        help="For URLs: what fsspec is told of the file system, like endpoint_url=http://host:9000.",
    )(function)


def output_options(*formats: str) -> Callable[[Decorated], Decorated]:
    """`--format` and `-o`."""

    def add(function: Decorated) -> Decorated:
        output_format = click.option(
            "--format",
            "output_format",
            type=click.Choice(formats or FORMATS),
            default="text",
            help="Form of the output.",
        )
        output = click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write to this file, which appears when it is whole.",
        )
        return output_format(output(function))

    return add


def outside_option(function: Decorated) -> Decorated:
    """Directories outside of the store that may be changed."""
    option = click.option(
        "--outside",
        "outside",
        metavar="DIR",
        multiple=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="A directory outside of the store in which files may be changed, too: a commit log path of the "
        "plan, or where a symbolic link in the store leads; may be given several times.",
    )
    return option(function)


def store_options(function: Decorated) -> Decorated:
    """What the user knows about the store and its bytes cannot tell."""
    conf = click.option(
        "--broker-conf",
        type=StorePath(dir_okay=False),
        help="The broker's settings: file sizes, commit log paths, delay levels.",
    )
    version = click.option(
        "--broker-version", metavar="VERSION", help="The broker that wrote last, like 4.9.8; else inferred."
    )
    paths = click.option(
        "--commitlog-path",
        "commitlog_paths",
        multiple=True,
        type=StorePath(),
        help="A commit log directory outside the store; may be given several times.",
    )
    return conf(version(paths(storage_option(function))))
