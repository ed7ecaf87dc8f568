"""Parameter types and options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from rocketfsck.cli.base import settings_of
from rocketfsck.cli.output import BINARY_FORMATS, FORMATS, Format, open_output, to_json
from rocketfsck.cli.show.fit import FittedStream, table_columns
from rocketfsck.cli.show.palette import Palette
from rocketfsck.cli.storepath import open_named_store

if TYPE_CHECKING:
    from rocketfsck.pipeline.sources import Source
    from rocketfsck.store import Store

    _Int = click.ParamType[int]
    _Pair = click.ParamType[tuple[int, int]]
    _Float = click.ParamType[float]
else:  # generic only from click 8.2 on
    _Int = _Pair = _Float = click.ParamType

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]
Decorated = TypeVar("Decorated", bound=Function)

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


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the output goes and in which form, as `--format` and `-o` say."""

    form: Format
    path: Path | None

    @property
    def is_rows(self) -> bool:
        """Whether the form is one of rows: neither text nor one JSON document."""
        return self.form not in ("text", "json")

    def open(self, forbidden: Sequence[Path] = ()) -> AbstractContextManager[IO[Any]]:
        """The stream to write to, as `open_output` gives it."""
        columns = table_columns() if self.form == "text" and self.path is None else None
        if columns is not None:
            return nullcontext(cast(IO[Any], FittedStream(sys.stdout, columns)))
        return open_output(self.path, binary=self.form in BINARY_FORMATS, forbidden=forbidden)

    def palette(self, stream: IO[Any]) -> Palette:
        """Colours, where the output goes to a terminal that wants them."""
        return Palette(self.path is None and settings_of(click.get_current_context()).colored(stream))

    def say(
        self,
        document: Callable[[], Mapping[str, Any]],
        lines: Callable[[Palette], Iterable[str]],
        forbidden: Sequence[Path] = (),
    ) -> None:
        """Write the document as JSON, or the lines as text; only the one that is wanted is made."""
        with self.open(forbidden) as stream:
            if self.form == "json":
                stream.write(to_json(document(), indent=2) + "\n")
            else:
                stream.writelines(f"{line}\n" for line in lines(self.palette(stream)))


def format_option(*formats: str, text: str = "Form of the output.") -> Decorator:
    """`--format` alone."""
    choice = click.Choice(formats or FORMATS)
    return click.option("--format", "output_format", type=choice, default="text", help=text)


def output_options(*formats: str) -> Decorator:
    """`--format` and `-o`; the command gets both as `answer`."""

    def add(function: Function) -> Function:
        @wraps(function)
        def run(*args: Any, output_format: Format, output: Path | None, **given: Any) -> Any:
            return function(*args, answer=Answer(output_format, output), **given)

        path = click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write to this file, which appears when it is whole.",
        )
        return format_option(*formats)(path(run))

    return add


def body_option(function: Decorated) -> Decorated:
    """`--body`."""
    return click.option(
        "--body",
        type=click.Choice(["none", "text", "hex", "base64"]),
        default="none",
        help="Show message bodies, and how.",
    )(function)


def level_option(text: str) -> Decorator:
    """`--level` of a check."""
    choice = click.Choice(["quick", "cross", "full"])
    return click.option("--level", type=choice, default="full", show_default=True, help=text)


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


def commitlog_path_option(function: Decorated) -> Decorated:
    """`--commitlog-path`."""
    return click.option(
        "--commitlog-path",
        "commitlog_paths",
        multiple=True,
        type=StorePath(),
        help="A commit log directory of another name or place; may be given several times.",
    )(function)


@dataclass(frozen=True, slots=True)
class Told:
    """What the user knows about a store and its bytes cannot tell."""

    broker_conf: Path | None
    broker_version: str | None
    commitlog_paths: tuple[Path, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The same as arguments of `open_store`."""
        return {
            "broker_conf": self.broker_conf,
            "version": self.broker_version,
            "commitlog_paths": self.commitlog_paths,
        }

    def open(self, command: str, path: Path, **more: Any) -> Store:
        """The store at `path`, for a command of this name, as `open_named_store` opens it."""
        return open_named_store(command, path, **self.facts, **more)

    def sources(self, paths: Sequence[Path], brokers: Sequence[str]) -> tuple[Source, ...]:
        """The stores at `paths`, as `find_sources` finds them."""
        from rocketfsck.pipeline.sources import find_sources

        return find_sources(
            paths,
            brokers=brokers,
            version=self.broker_version,
            broker_confs=() if self.broker_conf is None else (self.broker_conf,),
            commitlog_paths=self.commitlog_paths,
        )


def store_options(function: Function) -> Function:
    """What the user knows about the store, which the command gets as `told`."""

    @wraps(function)
    def run(
        *args: Any,
        broker_conf: Path | None,
        broker_version: str | None,
        commitlog_paths: tuple[Path, ...],
        **given: Any,
    ) -> Any:
        return function(*args, told=Told(broker_conf, broker_version, commitlog_paths), **given)

    conf = click.option(
        "--broker-conf",
        type=StorePath(dir_okay=False),
        help="The broker's settings: file sizes, commit log paths, delay levels.",
    )
    version = click.option(
        "--broker-version", metavar="VERSION", help="The broker that wrote last, like 4.9.8; else inferred."
    )
    return conf(version(commitlog_path_option(storage_option(run))))
